const views = ["start", "ask", "end"];
let rater = null; // { name, number }
let todo = []; // { sheet, question }, in order
let answers = new Map(); // place in todo -> "left" | "right" | "same"
let at = 0;

// ---------------------------------------------------------------- what is kept

const place = (what) => `groundling-study-${page.study}-${what}`;
const own = () => place(`${rater.number}-${rater.name}`);

function kept(key) {
  try { return JSON.parse(localStorage.getItem(key)); } catch { return null; }
}

function keep(key, value) {
  try { localStorage.setItem(key, JSON.stringify(value)); } catch { $("warning").hidden = false; }
}

function saved() {
  const rows = [...answers].sort((a, b) => a[0] - b[0]).map(([i, choice]) => {
    const { sheet, question } = todo[i];
    return { image: sheet.id, word: question.word, tokens: question.tokens, left: sheet.left, choice };
  });
  return { study: page.study, systems: page.systems, rater: rater.name, number: rater.number + 1, of: todo.length, answers: rows };
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(saved(), null, 1)], { type: "application/json" }));
  link.download = `answers-${rater.name.replace(/[^\w-]+/g, "_")}-${page.study}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---------------------------------------------------------------- one question

function drawing(size, boxes) {
  const svg = shape("svg", { viewBox: `0 0 ${size[0]} ${size[1]}`, preserveAspectRatio: "none" });
  for (const kind of ["under", "over"]) svg.append(...boxes.map((box) => rect(box, { class: kind })));
  return svg;
}

function side(sheet, question, system, letter) {
  const frames = sheet.pictures.map((src, i) => {
    const boxes = question.places[system].filter((p) => p.frame === i).map((p) => p.box);
    const picture = make("img", { src, alt: "", width: sheet.size[0], height: sheet.size[1] });
    return make("div", { className: "frame" }, picture, drawing(sheet.size, boxes));
  });
  const caption = sheet.captions[system];
  const [from, to] = caption.spans[question.tokens[system]];
  const sentence = make("p", {}, caption.text.slice(0, from), make("mark", {}, caption.text.slice(from, to)), caption.text.slice(to));
  const figure = make("figure", { className: frames.length > 1 ? "clip" : "" }, ...frames);
  figure.style.setProperty("--shape", sheet.size[0] / sheet.size[1]);
  return make("section", {}, make("h2", {}, letter), figure, sentence);
}

function show() {
  const view = rater === null ? "start" : at < todo.length ? "ask" : "end";
  for (const name of views) $(name).hidden = name !== view;
  $("save").hidden = $("change").hidden = rater === null;
  $("progress").max = Math.max(1, todo.length);
  $("progress").value = answers.size;
  $("count").textContent = rater === null ? "" : `${answers.size} of ${todo.length} words`;
  if (view !== "ask") return;
  const { sheet, question } = todo[at];
  $("word").textContent = question.word;
  $("sides").replaceChildren(side(sheet, question, sheet.left, "A"), side(sheet, question, 1 - sheet.left, "B"));
  for (const button of $("choices").children) button.setAttribute("aria-pressed", String(answers.get(at) === button.value));
}

function answer(choice) {
  answers.set(at, choice);
  at += 1;
  keep(own(), { answers: [...answers], at });
  show();
}

function back() {
  at = Math.max(0, at - 1);
  show();
}

// ---------------------------------------------------------------- start

function begin(who) {
  rater = who;
  todo = page.sheets.filter((sheet) => sheet.raters.includes(rater.number)).flatMap((sheet) => sheet.questions.map((question) => ({ sheet, question })));
  const before = kept(own());
  answers = new Map(before?.answers ?? []);
  at = Math.min(before?.at ?? 0, todo.length);
  keep(place("last"), rater);
  $("who").textContent = `${rater.name}, rater ${rater.number + 1} of ${page.raters}`;
  show();
}

$("number").append(...Array.from({ length: page.raters }, (_, i) => new Option(`${i + 1} of ${page.raters}`, i)));
$("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("name").value.trim()) begin({ name: $("name").value.trim(), number: Number($("number").value) });
});
$("choices").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) answer(button.value);
});
$("back").addEventListener("click", back);
$("save").addEventListener("click", save);
$("change").addEventListener("click", () => { // what was answered is kept under the name
  keep(place("last"), null);
  rater = null;
  $("who").textContent = "";
  show();
});
document.addEventListener("keydown", (event) => {
  if (rater === null || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const asked = at < todo.length;
  const choice = { 1: "left", ArrowLeft: "left", a: "left", 2: "same", ArrowDown: "same", s: "same", 3: "right", ArrowRight: "right", b: "right" }[event.key];
  if (choice && asked) answer(choice);
  else if (event.key === "Backspace") back();
  else return;
  event.preventDefault();
});

const last = kept(place("last"));
if (last) begin(last);
else show();
