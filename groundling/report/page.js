const PALETTE = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00", "#000000"];
const CHUNK = 48;
const FRAME_MS = 400;
const byId = new Map(page.items.map((item) => [item.id, item]));

function canvas(item) {
  return shape("svg", { viewBox: `0 0 ${item.size[0]} ${item.size[1]}`, preserveAspectRatio: "none", "aria-hidden": "true" });
}

// ---------------------------------------------------------------- one image with its captions

function colours(caption) {
  const tokens = [...new Set(caption.links.map((link) => link.token))];
  return new Map(tokens.map((token, i) => [token, PALETTE[i % PALETTE.length]]));
}

/** The picture, or the frames of a clip, each under an empty drawing of its own. */
function figure(item, alt) {
  const [width, height] = item.size;
  const svgs = item.pictures.map(() => canvas(item));
  const frames = item.pictures.map((src, i) => make("div", { class: "frame" }, make("img", { src, width, height, alt: i ? "" : alt, decoding: "async" }), svgs[i]));
  const across = svgs.length > 6 ? 5 : svgs.length === 4 ? 4 : 3;
  return [make("figure", { style: `--across:${across}` }, ...frames), svgs];
}

/** A button that shows a clip in one place, boxes and all: its film, or else its frames in turn; again: side by side. */
function player(item, shape, repaint) {
  const button = make("button", { type: "button", class: "play" }, "play");
  let stop = null;
  button.addEventListener("click", () => {
    const playing = shape.classList.toggle("playing");
    button.textContent = playing ? "stop" : "play";
    stop?.();
    stop = !playing ? null : item.film ? film(item, shape, repaint, () => { stop = inTurn(shape); }) : inTurn(shape);
  });
  return button;
}

/** Show one frame after the other; what is returned stops it. */
function inTurn(shape) {
  const frames = [...shape.children];
  let number = 0;
  const show = () => frames.forEach((frame, i) => frame.classList.toggle("now", i === number));
  show();
  const timer = setInterval(() => { number = (number + 1) % frames.length; show(); }, FRAME_MS);
  return () => clearInterval(timer);
}

/** Play the video file under boxes that move; `failed` is called where the browser cannot. What is returned stops it. */
function film(item, shape, repaint, failed) {
  const video = make("video", { src: item.film.src, muted: true, controls: true, playsInline: true });
  const svg = canvas(item);
  const frame = make("div", { class: "frame now film" }, video, svg);
  const [from, to] = item.film.segment ?? [0, Infinity];
  let drawing = 0;
  const stop = () => { cancelAnimationFrame(drawing); video.pause(); frame.remove(); };
  const draw = () => {
    const end = Math.min(to, video.duration);
    if (video.currentTime >= end || video.ended) { video.currentTime = from; video.play().catch(() => {}); }
    const part = (video.currentTime - from) / (end - from);
    repaint(moment(item, part * item.pictures.length - 0.5), [svg]);
    drawing = requestAnimationFrame(draw);
  };
  const giveUp = () => { stop(); failed(); };
  video.addEventListener("error", giveUp);
  video.addEventListener("loadedmetadata", () => {
    if (!video.videoWidth) { giveUp(); return; }
    video.currentTime = from;
    video.play().catch(() => {});
    draw();
  });
  for (const other of shape.children) other.classList.remove("now");
  shape.append(frame);
  return stop;
}

/** The item as it is between two frames, as one picture; `at` counts frames: 1.5 is halfway from the second to the third. */
function moment(item, at) {
  const near = Math.min(item.pictures.length - 1, Math.max(0, Math.round(at)));
  const here = (boxes, frames) => tracks(boxes, frames).map((track) => between(track, at)).filter(Boolean);
  const captions = item.captions.map((caption) => caption && {
    ...caption,
    links: [...new Set(caption.links.map((link) => link.token))].flatMap((token) => {
      const links = caption.links.filter((link) => link.token === token);
      return here(links.map((link) => link.box), links.map((link) => link.frame)).map((box) => ({ ...links[0], frame: 0, box }));
    }),
    attention: caption.attention.map((attended) => {
      const now = attended.boxes.map((_, i) => i).filter((i) => attended.frames[i] === near);
      return { token: attended.token, boxes: now.map((i) => attended.boxes[i]), weights: now.map((i) => attended.weights[i]), frames: [] };
    }),
  });
  const phrases = item.phrases.map((phrase) => ({ ...phrase, boxes: here(phrase.boxes, phrase.frames), frames: [] }));
  return { ...item, captions, phrases, palette: item.captions };
}

/** Boxes in frames as things that move, each a map from frame to box: the first box of every frame is one, the second another. */
function tracks(boxes, frames) {
  const found = [];
  boxes.forEach((box, i) => {
    const free = found.find((track) => !track.has(frames[i]));
    if (free) free.set(frames[i], box);
    else found.push(new Map([[frames[i], box]]));
  });
  return found;
}

/** Where a thing is: on the straight way from its box in one frame to that in the next; else in the nearer frame, if it is there. */
function between(track, at) {
  const first = Math.floor(at);
  const share = at - first;
  const [a, b] = [track.get(first), track.get(first + 1)];
  if (a && b) return a.map((v, i) => v + share * (b[i] - v));
  return share < 0.5 ? a : b;
}

/** What is known of a word: how likely it is in the image, or else how much attention its box got, all frames of a clip together. */
function tooltip(item, links) {
  const known = links[0].evidence;
  return known === null ? `attention ${(Math.max(...links.map((link) => link.score)) * item.pictures.length).toFixed(2)}` : `evidence ${Math.round(100 * known)} %`;
}

/** Draw the boxes of one system's caption; `token` >= 0 lights up one word. */
function paint(item, svgs, system, token) {
  const caption = item.captions[system];
  for (const svg of svgs) {
    svg.replaceChildren();
    svg.classList.toggle("lit", token >= 0);
  }
  const put = (frame, box, attributes) => svgs[frame ?? 0]?.append(rect(box, attributes));
  if ($("truth").checked) {
    for (const phrase of item.phrases) phrase.boxes.forEach((box, i) => put(phrase.frames[i], box, { class: "gold" }));
  }
  if (!caption) return;
  const colour = colours((item.palette ?? item.captions)[system]);
  const attended = token >= 0 && $("attention").checked ? caption.attention.find((word) => word.token === token) : null;
  if (attended) {
    const most = Math.max(...attended.weights, 1e-6);
    attended.boxes.forEach((box, i) => {
      const c = colour.get(token) || "#888888";
      put(attended.frames[i], box, { class: "attended", style: `stroke:${c};fill:${c};fill-opacity:${((0.6 * attended.weights[i]) / most).toFixed(3)}` });
    });
  }
  const drawn = svgs.map(() => []);
  for (const link of caption.links) {
    const kind = `box${link.token === token ? " on" : ""}${link.weak ? " weak" : ""}`;
    const before = drawn[link.frame ?? 0] ?? [];
    const box = token >= 0 ? link.box : apart(link.box, before, Math.max(...item.size) / 80);
    before.push(box);
    put(link.frame, box, { class: kind, style: `stroke:${colour.get(link.token)}` });
  }
}

function captionLine(item, system, light) {
  const caption = item.captions[system];
  const line = make("p", { class: "caption" });
  if (page.systems.length > 1) line.append(make("span", { class: "system" }, page.systems[system]));
  if (!caption) { line.append(make("i", {}, "no caption")); return line; }
  const colour = colours(caption);
  let end = 0;
  caption.spans.forEach(([from, to], token) => {
    line.append(caption.text.slice(end, from));
    end = to;
    const links = caption.links.filter((link) => link.token === token);
    const word = make("button", { type: "button", class: "word" }, caption.text.slice(from, to));
    if (links.length) {
      word.classList.add("link");
      const weak = links.every((link) => link.weak);
      word.classList.toggle("weak", weak);
      word.style.setProperty("--c", colour.get(token));
      word.title = `${tooltip(item, links)}${weak ? ": weak evidence, perhaps made up" : ""}`;
    } else word.tabIndex = $("attention").checked ? 0 : -1;
    word.addEventListener("mouseenter", () => light(system, token));
    word.addEventListener("focus", () => light(system, token));
    word.addEventListener("click", () => light(system, token));
    word.addEventListener("mouseleave", () => light(system, -1));
    word.addEventListener("blur", () => light(system, -1));
    line.append(word);
  });
  line.append(caption.text.slice(end));
  return line;
}

function card(item) {
  const [shape, svgs] = figure(item, item.captions.find(Boolean)?.text ?? item.id);
  const text = make("div", { class: "text" });
  let lit = [0, -1];
  const repaint = (now, where) => paint(now, where, ...lit);
  const light = (system, token) => { lit = [system, token]; repaint(item, svgs); };
  page.systems.forEach((_, system) => text.append(captionLine(item, system, light)));
  const numbers = Object.entries(item.numbers).map(([name, value]) => `${name} ${value}`);
  text.append(make("div", { class: "meta" }, [item.id, ...numbers].join(" · ")));
  if ($("truth").checked && item.references.length) {
    text.append(make("ul", { class: "refs" }, ...item.references.map((r) => make("li", {}, r))));
  }
  if (item.pictures.length > 1) text.prepend(player(item, shape, repaint));
  light(0, -1);
  return make("article", { "data-id": item.id, class: item.pictures.length > 1 ? "clip" : "" }, shape, text);
}

// ---------------------------------------------------------------- the list

let shown = [];
let drawn = 0;
const sentinel = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && more(), { rootMargin: "1200px" });
const tail = make("div");

function more() {
  const next = shown.slice(drawn, drawn + CHUNK);
  drawn += next.length;
  $("captions").append(...next.map(card), tail);
  sentinel.unobserve(tail);
  if (drawn < shown.length) sentinel.observe(tail);
}

function matches(item, words) {
  const text = [item.id, ...item.captions.map((s) => s?.text ?? ""), ...($("truth").checked ? item.references : [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function refresh() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const by = $("sort").value;
  shown = page.items.filter((item) => matches(item, words));
  if (by) shown.sort((a, b) => (b.numbers[by] ?? -Infinity) - (a.numbers[by] ?? -Infinity));
  if ($("reverse").checked) shown.reverse();
  $("count").textContent = `${shown.length} of ${page.items.length} images`;
  $("captions").replaceChildren();
  drawn = 0;
  more();
}

function show(view) {
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", String(tab.dataset.view === view));
  $("captions").hidden = view !== "captions";
  $("evaluation").hidden = view !== "evaluation";
  document.querySelector("form").hidden = view !== "captions";
}

/** From anywhere on the page to one image among the captions. */
function go(id) {
  show("captions");
  $("find").value = id;
  refresh();
  document.querySelector("article")?.querySelector(".word")?.focus();
}

// ---------------------------------------------------------------- evaluation

function table(head, rows) {
  const body = make("tbody");
  const fill = (sorted) => body.replaceChildren(...sorted.map((row) => make("tr", {}, ...row.map((cell) => {
    const number = typeof cell === "number";
    return make("td", { class: number ? "num" : "" }, cell instanceof Node ? cell : number ? String(Math.round(cell * 1e4) / 1e4) : cell ?? "–");
  }))));
  const header = make("tr", {}, ...head.map((name, i) => {
    const button = make("button", { type: "button", title: "sort" }, name);
    let up = false;
    button.addEventListener("click", () => {
      up = !up;
      const key = (row) => (row[i] instanceof Node ? row[i].textContent : row[i]);
      const order = (a, b) => (typeof key(a) === "number" || typeof key(b) === "number" ? (key(a) ?? -1) - (key(b) ?? -1) : String(key(a)).localeCompare(String(key(b))));
      fill([...rows].sort((a, b) => (up ? -order(a, b) : order(a, b))));
    });
    return make("th", { class: typeof rows[0]?.[i] === "number" ? "num" : "" }, button);
  }));
  fill(rows);
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, header), body));
}

const KINDS = { corr_grd: "right place", part_grd: "only a part of it", other_err: "wrong place", hallu_cls: "word not in the reference", mis_cls: "word not in the caption" };
const named = (kind) => KINDS[kind] ?? kind;

function errorCard(error) {
  const item = byId.get(error.id);
  const text = make("div", { class: "text" }, make("b", {}, error.label), ` · ${named(error.kind)}${error.shape ? `, ${error.shape}` : ""}`);
  const open = make("button", { type: "button", class: "word" }, error.id);
  open.addEventListener("click", () => go(error.id));
  text.append(make("div", { class: "meta" }, open));
  if (!item) return make("article", {}, text);
  const [shape, svgs] = figure(item, error.label);
  error.truth.forEach((box, i) => svgs[error.frames?.[i] ?? 0]?.append(rect(box, { class: "gold" })));
  error.predicted.forEach((box, frame) => {
    if (!box.includes(null)) svgs[frame]?.append(rect(box, { class: "box", style: `stroke:${PALETTE[0]}` }));
  });
  return make("article", { class: item.pictures.length > 1 ? "clip" : "" }, shape, text);
}

function errorsView(errors) {
  const counts = new Map();
  for (const error of errors) counts.set(error.kind, (counts.get(error.kind) ?? 0) + 1);
  const list = make("div", { class: "errors" });
  const button = make("button", { type: "button", class: "more" }, "more");
  let kind = null;
  let at = 0;
  const chosen = () => errors.filter((e) => kind === null || e.kind === kind);
  const next = () => {
    const all = chosen();
    list.append(...all.slice(at, at + 24).map(errorCard));
    at += 24;
    button.hidden = at >= all.length;
  };
  button.addEventListener("click", next);
  const most = Math.max(...counts.values(), 1);
  const bars = make("div", { class: "bars" });
  for (const [name, count] of [...counts].sort((a, b) => b[1] - a[1])) {
    const pick = make("button", { type: "button", "aria-pressed": "false", title: name, value: name }, named(name));
    pick.addEventListener("click", () => {
      kind = kind === name ? null : name;
      for (const other of bars.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other.value === kind));
      list.replaceChildren();
      at = 0;
      next();
    });
    bars.append(pick, make("div", { class: "bar", style: `width:${(100 * count) / most}%` }), make("span", {}, `${count} (${((100 * count) / errors.length).toFixed(1)} %)`));
  }
  next();
  return [bars, make("p", { class: "help" }, "Red: where the caption points. White dashes: the truth. Choose a kind to see only it; the id leads to the image."), list, button];
}

function evaluationView(evaluation) {
  const section = $("evaluation");
  section.append(make("h2", {}, "Scores"));
  section.append(table(["score", "value", "n", "signature"], evaluation.scores.map((s) => [s.name, s.value, s.n, make("code", {}, s.signature)])));
  const classes = Object.entries(evaluation.per_class ?? {});
  if (classes.length) {
    const head = ["class", "F1 all", "F1 loc", "in captions", "right", "annotated", "found"];
    const row = ([name, { all, loc }]) => [name, all.f1, loc.f1, all.precision[1], all.precision[0], all.recall[1], all.recall[0]];
    section.append(make("h2", {}, "Classes"), table(head, classes.map(row).sort((a, b) => b[5] - a[5])));
  }
  if (evaluation.by_frequency?.length) {
    const rows = evaluation.by_frequency.map((g) => [Math.round(g.frequency), g.f1_all, g.f1_loc, g.classes.slice(0, 8).join(", ") + (g.classes.length > 8 ? ", …" : "")]);
    section.append(make("h2", {}, "By frequency in training"), table(["boxes in training", "F1 all", "F1 loc", "classes"], rows));
  }
  if (evaluation.records?.length) section.append(make("h2", {}, "Words and their places"), ...errorsView(evaluation.records));
}

// ---------------------------------------------------------------- start

function step(by) {
  const cards = [...document.querySelectorAll("#captions article")];
  const now = cards.findIndex((c) => c.classList.contains("here") || c.contains(document.activeElement));
  const next = cards[Math.min(cards.length - 1, Math.max(0, now + by))];
  cards[now]?.classList.remove("here");
  if (!next) return;
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest" });
  (next.querySelector(".word.link") ?? next.querySelector(".word"))?.focus({ preventScroll: true });
}

function stepWord(by) {
  const words = [...(document.activeElement?.closest("article")?.querySelectorAll(".word") ?? [])];
  const next = words[words.indexOf(document.activeElement) + by];
  next?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input[type=search], select") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const tick = (id) => { $(id).checked = !$(id).checked; $(id).dispatchEvent(new Event("change")); };
  const keys = { j: () => step(1), k: () => step(-1), ArrowRight: () => stepWord(1), ArrowLeft: () => stepWord(-1), a: () => tick("attention"), t: () => tick("truth"), "/": () => $("find").focus() };
  if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
});

document.querySelector("h1").textContent = page.title;
const numbers = [...new Set(page.items.flatMap((item) => Object.keys(item.numbers)))];
$("sort").append(make("option", { value: "" }, "as given"), ...numbers.map((n) => make("option", { value: n }, n)));
$("truth").closest("label").hidden = !page.items.some((item) => item.phrases.length || item.references.length);
$("find").addEventListener("input", refresh);
for (const id of ["sort", "reverse", "attention", "truth"]) $(id).addEventListener("change", refresh);
for (const tab of document.querySelectorAll("nav button")) tab.addEventListener("click", () => show(tab.dataset.view));
refresh();
if (page.evaluation) { document.querySelector("nav").hidden = false; evaluationView(page.evaluation); }
