// The view of one photo: caption, phrases, audit, regions.

import { Media, getBlob } from "/api.js";
import { PALETTE, Stage, bar, make, percent, sentence } from "/draw.js";

const $ = (id) => document.getElementById(id);
const search = (options) => ($("twice").checked ? { ...options, repeat_nouns: true } : options);
const DECODING = {
  beam3: () => search({}),
  greedy: () => search({ beam: 1 }),
  beam5: () => search({ beam: 5 }),
  long: () => search({ beam: 3, min_length: 12, no_repeat: 2 }),
  sample: () => ({ sample: true, temperature: Number($("temperature").value) || 1, seed: Math.floor(Math.random() * 1e9) }),
};
const VERDICTS = { grounded: ["✓ grounded", "good"], "wrong place": ["⚠ wrong place", "bad"], "not there": ["✗ not there", "bad"], "cannot tell": ["? cannot tell", "unsure"] };
const RESULTS = { found: ["✓ found", "good"], unsure: ["? unsure", "unsure"], "not found": ["✗ not there", "bad"], unknown: ["? cannot tell", "unsure"] };
const NEEDS_SIZE = "qwen2.5-vl"; // a format whose boxes are in pixels of the photo as the model saw it

export class PhotoView {
  /** `during(message, work)` shows that work is under way and what went wrong; `reveal()` opens this view. */
  constructor(during, reveal) {
    this.during = during;
    this.reveal = reveal;
    this.media = null;
    this.regions = [];
    this.chosen = -1;
    this.stage = new Stage($("stage"), {
      label: "The photo. Arrow keys step through its regions.",
      picked: (x, y) => this.pick(x, y),
      drawn: (box) => this.box(box),
    });
    this.stage.svg.addEventListener("keydown", (event) => this.step(event));
    this.forms();
    this.receive();
  }

  forms() {
    const submit = (id, work) => $(id).addEventListener("submit", (event) => { event.preventDefault(); work(); });
    submit("decoding-form", () => this.media && this.caption());
    submit("ground", () => this.ground(false));
    submit("audit", () => this.audit());
    for (const id of ["sentence", "text"]) {
      $(id).addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        if (this.media) event.target.form.requestSubmit();
      });
    }
    $("compare").addEventListener("click", () => this.ground(true));
    for (const id of ["decoding", "twice"]) $(id).addEventListener("change", () => {
      const sampling = $("decoding").value === "sample";
      for (const id of ["temperature-field", "again"]) $(id).hidden = !sampling;
      $("twice-field").hidden = sampling; // what is drawn at random may repeat anything
      if (this.media) this.caption();
    });
    $("format").addEventListener("change", () => { $("resized").hidden = $("format").value !== NEEDS_SIZE; });
    $("another").addEventListener("click", () => { this.clear(); $("file").focus(); });
    $("draw").addEventListener("click", () => this.drawing($("draw").getAttribute("aria-pressed") !== "true"));
  }

  drawing(on) {
    $("draw").setAttribute("aria-pressed", String(on));
    this.stage.svg.classList.toggle("drawing", on);
    const idle = this.media?.clip ? "Point at a noun: the clip stops where it is." : "Click or tap the photo to see which words fit there.";
    $("hint").textContent = on ? "Drag a box around something." : idle;
    if (on && this.media.clip) this.stage.media.pause();
  }

  /** Photos come by file, drop or paste. */
  receive() {
    $("file").addEventListener("change", () => { const [file] = $("file").files; $("file").value = ""; if (file) this.open(file); });
    let inside = 0; // dragenter and dragleave come for every element on the way
    const over = (change) => (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      inside = change ? Math.max(0, inside + change) : 0;
      $("dropping").hidden = !inside;
    };
    document.addEventListener("dragenter", over(1));
    document.addEventListener("dragleave", over(-1));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => { over(0)(event); const [file] = event.dataTransfer.files; if (file) this.open(file); });
    document.addEventListener("paste", (event) => { const file = [...event.clipboardData.files].find((f) => /^(image|video)\//.test(f.type)); if (file) this.open(file); });
  }

  examples(paths) {
    $("examples").replaceChildren(...paths.map((path) => {
      const name = path.split("/").pop().split(".")[0];
      const children = [make("img", { src: path, alt: "" }), make("span", {}, name)];
      return make("button", { type: "button", "aria-label": `Example photo: ${name}`, on: { click: () => this.during("", async () => this.open(await getBlob(path))) } }, ...children);
    }));
  }

  /** Formats in which models write boxes into their text. */
  formats(names) {
    $("format").append(...names.map((name) => make("option", { value: name }, name === "plain" ? "plain text" : name)));
  }

  async open(blob) {
    this.clear();
    const media = new Media(blob);
    this.media = media;
    this.address = URL.createObjectURL(blob);
    this.reveal();
    document.body.classList.remove("empty");
    for (const id of ["drop", "more"]) $(id).hidden = true;
    for (const id of ["stage", "tools", "results"]) $(id).hidden = false;
    const name = media.clip ? "Your clip" : "Your photo";
    this.stage.show(this.address, media.clip, name);
    this.drawing(false);
    $("caption").replaceChildren(make("span", { class: "loading" }), make("span", { class: "loading short" }));
    this.stage.svg.focus({ preventScroll: true }); // what had the focus is hidden now
    window.scrollTo({ top: 0 });
    await this.caption();
    if (this.media !== media) return;
    if (!media.id) return this.clear(); // the photo could not be read: the message says why
    await this.during("", async () => {
      const { regions } = await media.request("regions", { words: 6 });
      if (this.media === media) this.regions = regions;
    });
  }

  /** Back to the beginning: no photo, no results. */
  clear() {
    this.media?.close();
    if (this.address) URL.revokeObjectURL(this.address);
    this.media = this.address = this.result = null;
    this.regions = [];
    this.chosen = -1;
    for (const id of ["caption", "nouns", "found", "verdicts", "region"]) $(id).replaceChildren();
    for (const id of ["region", "nouns-help", "stage", "tools", "results"]) $(id).hidden = true;
    for (const id of ["drop", "more"]) $(id).hidden = false;
    document.body.classList.add("empty");
    this.drawing(false);
    this.enable(false);
  }

  enable(on) {
    for (const button of document.querySelectorAll("#ground button, #audit button")) button.disabled = !on;
  }

  caption() {
    const media = this.media;
    return this.during("Captioning …", async () => {
      const row = await media.request("caption", DECODING[$("decoding").value]());
      if (this.media !== media) return;
      this.result = row;
      this.enable(true);
      this.stage.size(row.image.width, row.image.height, row.image.frames);
      this.show($("caption"), row.caption, nouns(row));
      const best = new Map(row.links.map((link) => [link.word, link]));
      $("nouns").replaceChildren(...[...best.values()].map((link) => bar(link.word, link.evidence, "", link.weak ? "bad" : "good")));
      $("nouns-help").hidden = !row.links.length;
    });
  }

  /** A sentence in an element of the page, its boxes on the photo. */
  show(element, text, parts) {
    const draw = () => this.stage.draw(parts.filter((p) => p.boxes.length).flatMap((p) => p.boxes.map((one) => ({ ...p, ...one }))));
    draw();
    element.replaceChildren(...sentence(text, parts, (key) => { draw(); this.stage.light(key); }));
  }

  ground(compare) {
    const text = $("sentence").value.trim();
    if (!text) return $("sentence").focus();
    const media = this.media;
    return this.during("Finding it …", async () => {
      const requests = [media.request("ground", { sentence: text })];
      if (compare && this.result) requests.push(media.request("ground", { sentence: this.result.caption }));
      const [yours, model] = await Promise.all(requests);
      if (this.media !== media) return;
      for (const p of yours.phrases) if (p.result === "not found" && p.evidence >= yours.not_there_below) p.result = "unsure";
      const line = make("p", { class: "caption" });
      const rows = yours.phrases.map((p) => bar(p.phrase, p.result === "unknown" ? null : p.evidence, ...RESULTS[p.result]));
      const parts = [line, make("ul", { class: "bars", "aria-label": "Phrases" }, ...rows)];
      const unknown = yours.phrases.flatMap((p) => p.unknown);
      if (unknown.length) parts.push(make("p", { class: "help" }, `The model does not know: ${unknown.join(", ")}`));
      if (model) parts.push(...comparison(yours, model));
      $("found").replaceChildren(make("div", { class: "result" }, ...parts));
      this.show(line, yours.sentence, phrases(yours.phrases));
    });
  }

  audit() {
    const text = $("text").value.trim();
    if (!text) return $("text").focus();
    const media = this.media;
    const format = $("format").value;
    const size = [$("resized-width"), $("resized-height")].map((field) => Number(field.value));
    const resized = format === NEEDS_SIZE && size.every((side) => side > 0) ? { resized: size } : {};
    return this.during("Auditing …", async () => {
      const row = await media.request("audit", { text, format, ...resized }).catch((error) => {
        if (error.kind === "needs-size") this.askForSize();
        throw error;
      });
      if (this.media !== media) return;
      const line = make("p", { class: "caption" });
      const rows = row.phrases.map((p) => bar(p.phrase, p.evidence, ...VERDICTS[p.verdict]));
      const counts = Object.entries(row.counts).filter(([, n]) => n).map(([name, n]) => `${n} ${name}`).join(", ");
      const summary = make("p", { class: "summary" }, make("b", {}, counts || "The text names no thing that could have a box."));
      const notes = [boxesRead(row), ...row.phrases.map(explanation), ...(row.problems || []).map((p) => `${p.reason}: ${p.piece}`)];
      const helps = notes.filter(Boolean).map((note) => make("p", { class: "help" }, note));
      $("verdicts").replaceChildren(make("div", { class: "result" }, summary, line, make("ul", { class: "bars", "aria-label": "Verdicts" }, ...rows), ...helps));
      this.show(line, row.text, verdicts(row.phrases));
    });
  }

  /** The text is of a format whose boxes need a size: show the fields for it. */
  askForSize() {
    $("format").value = NEEDS_SIZE;
    $("resized").hidden = false;
    $("resized-width").focus();
  }

  // ---------------------------------------------------------------- regions

  /** The smallest region under the pointer. */
  pick(x, y) {
    const under = this.regions
      .map((region, index) => ({ index, area: area(region.box), box: region.box }))
      .filter(({ index }) => !this.media.clip || this.regions[index].frame === this.stage.now())
      .filter(({ box }) => box[0] <= x && x <= box[2] && box[1] <= y && y <= box[3])
      .sort((a, b) => a.area - b.area);
    if (under.length) this.choose(under[0].index);
  }

  step(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by || !this.regions.length) return;
    event.preventDefault();
    this.choose((this.chosen + by + this.regions.length) % this.regions.length);
  }

  choose(index) {
    this.chosen = index;
    const region = this.regions[index];
    this.stage.seek(region.frame);
    this.stage.point(region.box, "region");
    this.words(`Region ${index + 1} of ${this.regions.length}`, region);
  }

  /** The words that fit a box that was drawn by hand. */
  box(box) {
    const media = this.media;
    return this.during("What is this? …", async () => {
      const frame = media.clip ? `&frame=${this.stage.now()}` : "";
      const { regions } = await media.regions(`words=6&box=${box}${frame}`);
      if (this.media !== media) return;
      this.stage.point(box, "drawn");
      this.words("What is this?", regions[0]);
    });
  }

  words(title, region) {
    const words = region.words.map((w) => bar(w.word, Math.max(0, w.similarity), "", "", (value) => value.toFixed(2)));
    const named = region.labels.filter((l) => l.score >= 0.05 && !l.label.startsWith("word:")); // words are no classes
    const labels = named.slice(0, 3).map((l) => `${l.label} ${percent(l.score)}`).join(", ");
    $("region").hidden = false;
    $("region").replaceChildren(
      make("h2", {}, title),
      make("p", { class: "help" }, "The words that fit this box best, by their similarity to it (1 is the most; it is no probability):"),
      make("ul", { class: "bars", "aria-label": "Words that fit" }, ...words),
      make("p", { class: "help" }, labels ? `Object detector: ${labels}` : "The object detector knows nothing like it."),
    );
    $("region").scrollIntoView({ block: "nearest" });
  }
}

const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
const colour = (i) => PALETTE[i % PALETTE.length];

/** The nouns of a caption as parts of a sentence; those of a clip have a box in several frames. */
function nouns(row) {
  const tokens = [...new Set(row.links.map((link) => link.token))];
  return tokens.map((token, i) => {
    const links = row.links.filter((link) => link.token === token);
    const best = links.reduce((a, b) => (b.score > a.score ? b : a));
    const title = `evidence ${percent(best.evidence)}${best.weak ? ": perhaps made up" : ""}`;
    const boxes = links.map((link) => ({ box: link.box, frame: link.frame }));
    return { span: best.span, key: token, boxes, weak: best.weak, colour: colour(i), title, name: best.word };
  });
}

/** The phrases of a sentence that stand in it. Unsure ones have a dashed box, those that are not there have none. */
function phrases(rows) {
  const shown = (p) => ["found", "unsure"].includes(p.result);
  return rows
    .map((p, i) => ({ span: p.span, key: i, weak: !p.found, colour: colour(i), title: `evidence ${percent(p.evidence)}`, name: p.phrase, boxes: shown(p) ? [{ box: p.box, frame: p.frame }] : [] }))
    .filter((p) => p.span[1] > p.span[0]);
}

/** The phrases of an audited text: likely boxes, and dashed the boxes of the text where these are wrong. */
function verdicts(rows) {
  return rows.map((p, i) => {
    const likely = p.box && p.verdict !== "not there" ? [{ box: p.box, frame: p.frame, weak: false }] : [];
    const given = p.verdict === "grounded" ? [] : (p.given?.boxes || []).map((box) => ({ box, weak: true, name: `text: ${p.phrase}` }));
    return { span: p.span, key: i, weak: p.verdict !== "grounded", colour: colour(i), title: p.verdict, name: p.phrase, boxes: [...likely, ...given] };
  });
}

/** How many boxes and points were read from an audited text, and in which format. */
function boxesRead(row) {
  if (row.format === "plain") return "";
  const count = (kind) => row.phrases.reduce((sum, p) => sum + (p.given?.[kind].length || 0), 0);
  const parts = [[count("boxes"), "box", "boxes"], [count("points"), "point", "points"]].filter(([n]) => n).map(([n, one, many]) => `${n} ${n === 1 ? one : many}`);
  return `Read as ${row.format}: ${parts.join(" and ") || "no box"}. If that is wrong, choose another format.`;
}

/** What there is to explain of a verdict. */
function explanation(p) {
  if (p.verdict === "wrong place") return `${p.phrase}: the text’s box is dashed, the likely box is solid.`;
  if (p.colour?.verdict === "not there") return `${p.phrase}: seems not to be ${p.colour.word}.`;
  if (p.asked) return `${p.phrase}: looked for as ${p.asked}, a ${p.how}.`;
  return p.reason ? `${p.phrase}: ${p.reason}.` : "";
}

/** Two sentences beside each other: which things both name, and how much of each is there. */
function comparison(yours, model) {
  const heads = (row) => [...new Set(row.phrases.map((p) => p.head).filter(Boolean))];
  const [mine, its] = [heads(yours), heads(model)];
  const groups = [
    ["Both name", mine.filter((word) => its.includes(word))],
    ["Only you name", mine.filter((word) => !its.includes(word))],
    ["Only the caption names", its.filter((word) => !mine.includes(word))],
  ];
  const lines = groups.filter(([, words]) => words.length).map(([name, words]) => make("p", { class: "help" }, make("b", {}, `${name}: `), words.join(", ")));
  return [make("p", { class: "summary" }, "The caption: ", make("i", {}, model.sentence)), ...lines, table(yours.phrases, model.phrases)];
}

function table(yours, model) {
  const cells = (rows) => {
    const mean = rows.reduce((sum, p) => sum + (p.evidence ?? 0), 0) / Math.max(1, rows.length);
    return [`${rows.filter((p) => p.found).length} of ${rows.length}`, percent(mean)];
  };
  const line = (name, rows) => make("tr", {}, make("th", { scope: "row" }, name), ...cells(rows).map((text) => make("td", {}, text)));
  const head = make("tr", {}, make("td"), ...["phrases found", "mean evidence"].map((text) => make("th", { scope: "col" }, text)));
  return make("table", { class: "summary" }, head, line("your sentence", yours), line("the caption", model));
}
