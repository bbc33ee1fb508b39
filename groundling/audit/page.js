const CHUNK = 48;
const number = new Map(page.verdicts.map((name, i) => [name, i]));
const percent = (share) => `${(100 * share).toFixed(1)} %`;

// ---------------------------------------------------------------- one caption

/** Draw where a phrase was looked for; without a phrase, the best place of every phrase that is there, and the place that
 * the caption gives where that is wrong. */
function paint(row, svg, phrase) {
  svg.replaceChildren();
  const of = (one) => `v${number.get(one.verdict)}`;
  const give = (one) => {
    for (const box of one.given?.boxes ?? []) svg.append(rect(box, { class: "given" }));
    for (const [cx, cy] of one.given?.points ?? []) svg.append(shape("circle", { cx, cy, r: Math.max(row.width, row.height) / 80, class: "given" }));
  };
  if (!phrase) {
    for (const one of row.phrases) if (one.box) svg.append(rect(one.box, { class: `likely ${of(one)}`, "fill-opacity": 0 }));
    for (const one of row.phrases) if (one.verdict === "wrong place") give(one);
    return;
  }
  for (const place of [...phrase.likely].reverse()) svg.append(rect(place.box, { class: `likely ${of(phrase)}`, "fill-opacity": (0.35 * place.score).toFixed(3), "stroke-opacity": Math.max(0.5, place.score).toFixed(3) }));
  give(phrase);
}

/** Is it called grounded, though it is more likely not there? The bound of "not there" spares nouns that are there. */
const doubtful = (phrase) => phrase.verdict === "grounded" && phrase.evidence !== null && phrase.evidence < 0.5;

/** The verdict on a phrase, in words. */
function explain(phrase) {
  const parts = [make("b", { class: `v${number.get(phrase.verdict)}` }, phrase.verdict), ` · ${phrase.phrase}`];
  if (phrase.evidence !== null) parts.push(` · evidence ${Math.round(100 * phrase.evidence)} %${doubtful(phrase) ? ", doubtful" : ""}`);
  if (phrase.asked) parts.push(` · looked for as “${phrase.asked}”, a ${phrase.how}`);
  if (phrase.reason) parts.push(` · ${phrase.reason}`);
  if (phrase.colour && phrase.colour.verdict === "not there") parts.push(` · seems not to be ${phrase.colour.word}`);
  if (phrase.given && phrase.verdict !== "not there") parts.push(` · overlap with the given place ${phrase.given.overlap.toFixed(2)}`);
  return parts;
}

function sentence(row, light) {
  const line = make("p", { class: "caption" });
  let at = 0;
  for (const phrase of [...row.phrases].sort((a, b) => a.span[0] - b.span[0])) {
    if (phrase.span[0] < at) continue;
    line.append(row.caption.slice(at, phrase.span[0]));
    const word = make("button", { type: "button", class: `word v${number.get(phrase.verdict)}${doubtful(phrase) ? " doubtful" : ""}` }, row.caption.slice(...phrase.span));
    word.setAttribute("aria-label", `${phrase.phrase}: ${phrase.verdict}`);
    for (const [event, one] of [["mouseenter", phrase], ["focus", phrase], ["click", phrase], ["mouseleave", null], ["blur", null]]) word.addEventListener(event, () => light(one));
    line.append(word);
    at = phrase.span[1];
  }
  line.append(row.caption.slice(at));
  return line;
}

function card(row) {
  const svg = shape("svg", { viewBox: `0 0 ${row.width} ${row.height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const picture = page.pictures[row.image];
  const frame = make("div", { class: picture ? "frame" : "frame empty" });
  if (picture) frame.append(make("img", { src: picture, width: row.width, height: row.height, alt: row.caption, decoding: "async" }));
  else frame.style.aspectRatio = `${row.width} / ${row.height}`;
  frame.append(svg);
  const says = make("p", { class: "says" });
  const worst = [...row.phrases].sort((a, b) => (b.verdict === "not there") - (a.verdict === "not there") || (b.verdict === "wrong place") - (a.verdict === "wrong place") || (a.evidence ?? 2) - (b.evidence ?? 2))[0];
  const light = (phrase) => {
    paint(row, svg, phrase);
    says.replaceChildren(...explain(phrase ?? worst));
  };
  light(null);
  const text = make("div", { class: "text" }, sentence(row, light), says);
  if (row.fixed !== undefined && row.fixed !== row.caption) text.append(make("p", { class: "fixed" }, row.fixed || "(nothing is left of it)"));
  const problems = row.problems?.length ? ` · ${row.problems.length} parts could not be read` : "";
  text.append(make("div", { class: "meta" }, `${row.image} · row ${row.row}${problems}`));
  return make("article", { "data-row": row.row }, make("figure", {}, frame), text);
}

// ---------------------------------------------------------------- the list

let shown = [];
let drawn = 0;
let verdict = null;
const tail = make("div");
const sentinel = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && more(), { rootMargin: "1200px" });

function more() {
  const next = shown.slice(drawn, drawn + CHUNK);
  drawn += next.length;
  $("captions").append(...next.map(card), tail);
  sentinel.unobserve(tail);
  if (drawn < shown.length) sentinel.observe(tail);
}

function refresh() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = $("kind").value;
  const fits = (phrase) => (verdict === null || phrase.verdict === verdict) && (!kind || phrase.class === kind);
  shown = page.rows.filter((row) => row.phrases.some(fits) && words.every((word) => `${row.image} ${row.caption}`.toLowerCase().includes(word)));
  if ($("sort").value === "given") shown.sort((a, b) => a.row - b.row);
  $("count").textContent = `${shown.length} of ${page.rows.length} captions shown; ${page.summary.captions} audited`;
  $("captions").replaceChildren(...(shown.length ? [] : [make("p", { class: "none" }, "No caption has this.")]));
  drawn = 0;
  more();
}

function choose(name) {
  verdict = verdict === name ? null : name;
  for (const button of $("shares").children) button.setAttribute("aria-pressed", String(button.value === verdict));
  refresh();
}

function step(by) {
  const cards = [...document.querySelectorAll("#captions article")];
  const now = cards.findIndex((c) => c.classList.contains("here") || c.contains(document.activeElement));
  const next = cards[Math.min(cards.length - 1, Math.max(0, now + by))];
  cards[now]?.classList.remove("here");
  if (!next) return;
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest" });
  next.querySelector(".word")?.focus({ preventScroll: true });
}

function stepWord(by) {
  const words = [...(document.activeElement?.closest("article")?.querySelectorAll(".word") ?? [])];
  words[words.indexOf(document.activeElement) + by]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input[type=search], select") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const keys = { j: () => step(1), k: () => step(-1), ArrowRight: () => stepWord(1), ArrowLeft: () => stepWord(-1), "/": () => $("find").focus() };
  page.verdicts.forEach((name, i) => { keys[String(i + 1)] = () => choose(name); });
  if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
});

// ---------------------------------------------------------------- start

document.querySelector("h1").textContent = page.title;
page.verdicts.forEach((name, i) => {
  const share = page.summary.shares[name];
  const button = make("button", { type: "button", value: name, class: `v${i}` }, `${name} ${share === null ? "" : percent(share)}`);
  const ends = page.summary.intervals[name];
  if (ends) button.title = `95 % interval ${percent(ends[0])} to ${percent(ends[1])}`;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => choose(name));
  $("shares").append(button);
});
$("kind").append(make("option", { value: "" }, "all"), ...page.summary.classes.map((row) => make("option", { value: row.class }, row.class)));
const head = make("tr", {}, ...["class", "nouns", ...page.verdicts].map((name, i) => make("th", { class: i ? "num" : "" }, name)));
const body = page.summary.classes.map((row) => make("tr", {}, make("td", {}, row.class), make("td", { class: "num" }, String(row.nouns)), ...page.verdicts.map((name) => make("td", { class: "num" }, percent(row[name])))));
$("classes").append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))));
for (const id of ["find", "kind", "sort"]) $(id).addEventListener("input", refresh);
refresh();
