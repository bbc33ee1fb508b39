// The view of one photo: caption, sentence, audit, regions.

import { Media, getBlob } from "/api.js";
import { PALETTE, Stage, bar, make, percent, sentence } from "/draw.js";

const $ = (id) => document.getElementById(id);
const MANNERS = {
  greedy: () => ({}),
  beam3: () => ({ beam: 3 }),
  beam5: () => ({ beam: 5 }),
  long: () => ({ beam: 3, min_length: 12, no_repeat: 2 }),
  sample: () => ({ sample: true, temperature: Number($("temperature").value) || 1, seed: Math.floor(Math.random() * 1e9) }),
};
const VERDICTS = { grounded: "good", "wrong place": "bad", "not there": "bad", "cannot tell": "unsure" };
const RESULTS = { found: ["found", "good"], "not found": ["not there", "bad"], unknown: ["cannot tell", "unsure"] };

export class PhotoView {
  constructor(during) {
    this.during = during; // (message, work): shows the message while the work lasts, then what went wrong
    this.media = null;
    this.regions = [];
    this.chosen = -1;
    this.stage = new Stage($("stage"), {
      label: "The photo. Arrow keys walk through its regions.",
      picked: (x, y) => this.pick(x, y),
      drawn: (box) => this.what(box),
    });
    this.stage.svg.addEventListener("keydown", (event) => this.walk(event));
    this.forms();
    this.receive();
  }

  forms() {
    const act = (id, work) => $(id).addEventListener("submit", (event) => { event.preventDefault(); work(); });
    act("choice", () => this.caption());
    act("ground", () => this.ground(false));
    act("audit", () => this.audit());
    $("compare").addEventListener("click", () => this.ground(true));
    $("manner").addEventListener("change", () => { $("warmth").hidden = $("manner").value !== "sample"; if (this.media) this.caption(); });
    $("another").addEventListener("click", () => this.clear());
    $("draw").addEventListener("click", () => {
      const on = $("draw").getAttribute("aria-pressed") !== "true";
      $("draw").setAttribute("aria-pressed", String(on));
      this.stage.svg.classList.toggle("drawing", on);
      if (on && this.media.clip) this.stage.media.pause();
    });
  }

  /** Photos come by file, drop or paste. */
  receive() {
    $("file").addEventListener("change", () => { const [file] = $("file").files; $("file").value = ""; if (file) this.open(file); });
    const over = (on) => (event) => { event.preventDefault(); $("drop").classList.toggle("over", on); };
    document.addEventListener("dragover", over(true));
    document.addEventListener("dragleave", over(false));
    document.addEventListener("drop", (event) => { over(false)(event); const [file] = event.dataTransfer.files; if (file) this.open(file); });
    document.addEventListener("paste", (event) => { const file = [...event.clipboardData.files].find((f) => /^(image|video)\//.test(f.type)); if (file) this.open(file); });
  }

  examples(paths) {
    $("examples").replaceChildren(...paths.map((path) => {
      const name = path.split("/").pop().split(".")[0];
      const image = make("img", { src: path, alt: `Example photo: ${name}` });
      return make("button", { type: "button", on: { click: () => this.during("", async () => this.open(await getBlob(path))) } }, image);
    }));
  }

  /** Formats in which models write boxes into their text. */
  formats(names) {
    $("format").append(...names.filter((name) => name !== "plain").map((name) => make("option", { value: name }, name)));
  }

  async open(blob) {
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = URL.createObjectURL(blob);
    const media = new Media(blob);
    this.media = media;
    this.clear(false);
    $("drop").hidden = true;
    for (const id of ["stage", "tools"]) $(id).hidden = false;
    this.stage.show(this.address, media.clip, media.clip ? "Your clip" : "Your photo");
    await this.caption();
    if (this.media !== media || !media.id) return;
    await this.during("", async () => {
      const { regions } = await media.ask("regions", { words: 6 });
      if (this.media === media) this.regions = regions;
    });
  }

  /** Forget the answers and, unless another photo is already there, the photo. */
  clear(all = true) {
    for (const id of ["nouns", "found", "verdicts", "fitting"]) $(id).replaceChildren();
    $("fitting").hidden = true;
    $("caption").replaceChildren(make("span", { class: "help" }, all ? "Choose a photo to begin." : "Looking …"));
    this.regions = [];
    this.chosen = -1;
    this.said = null;
    this.enable(false);
    if (!all) return;
    this.media = null;
    $("drop").hidden = false;
    for (const id of ["stage", "tools"]) $(id).hidden = true;
  }

  enable(on) {
    for (const button of document.querySelectorAll("#view-photo form button, #compare")) button.disabled = !on;
  }

  caption() {
    const media = this.media;
    return this.during("Captioning …", async () => {
      const row = await media.ask("caption", MANNERS[$("manner").value]());
      if (this.media !== media) return;
      this.said = row;
      this.enable(true);
      this.stage.size(row.image.width, row.image.height, row.image.frames);
      this.show($("caption"), row.caption, linked(row));
      const seen = new Map(row.links.map((link) => [link.word, link]));
      $("nouns").replaceChildren(...[...seen.values()].map((link) => bar(link.word, link.evidence, link.weak ? "weak" : "", link.weak ? "bad" : "good")));
    });
  }

  /** A sentence in a place, its boxes on the photo. */
  show(place, text, parts) {
    const all = () => this.stage.draw(parts.filter((p) => p.box).flatMap((p) => (p.boxes || [p]).map((b) => ({ ...p, ...b }))));
    all();
    place.replaceChildren(...sentence(text, parts, (key) => { all(); this.stage.light(key); }));
  }

  ground(compare) {
    const text = $("sentence").value.trim();
    if (!text) return $("sentence").focus();
    return this.during("Looking for it …", async () => {
      const asked = [this.media.ask("ground", { sentence: text })];
      if (compare && this.said) asked.push(this.media.ask("ground", { sentence: this.said.caption }));
      const [yours, model] = await Promise.all(asked);
      const line = make("p", { class: "caption" });
      const rows = yours.phrases.map((p) => bar(p.phrase, p.result === "unknown" ? null : p.evidence, ...RESULTS[p.result]));
      const parts = [line, make("ul", { class: "bars" }, ...rows)];
      const strange = yours.phrases.flatMap((p) => p.unknown);
      if (strange.length) parts.push(make("p", { class: "help" }, `Never seen by the model: ${strange.join(", ")}`));
      if (model) parts.push(...compared(yours, model));
      $("found").replaceChildren(...parts);
      this.show(line, yours.sentence, placed(yours.phrases, (p) => p.found));
    });
  }

  audit() {
    const text = $("answer").value.trim();
    if (!text) return $("answer").focus();
    return this.during("Auditing …", async () => {
      const row = await this.media.ask("audit", { text, format: $("format").value });
      const line = make("p", { class: "caption" });
      const rows = row.phrases.map((p) => bar(p.phrase, p.probability, p.verdict, VERDICTS[p.verdict]));
      const counts = Object.entries(row.counts).filter(([, n]) => n).map(([name, n]) => `${n} ${name}`).join(", ");
      const notes = [...row.phrases.map(noted), ...(row.problems || []).map((p) => `${p.reason}: ${p.piece}`)].filter(Boolean);
      const summary = make("p", { class: "summary" }, counts || "There is no noun in it that has a place.");
      $("verdicts").replaceChildren(line, make("ul", { class: "bars" }, ...rows), summary, ...notes.map((note) => make("p", { class: "help" }, note)));
      this.show(line, row.text, audited(row.phrases));
    });
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

  walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.regions.length) return;
    event.preventDefault();
    this.choose((this.chosen + step + this.regions.length) % this.regions.length);
  }

  choose(index) {
    this.chosen = index;
    const region = this.regions[index];
    this.stage.seek(region.frame);
    this.stage.point(region.box, "region");
    this.tell(`Region ${index + 1} of ${this.regions.length}`, region);
  }

  /** The words that fit a box that was drawn by hand. */
  what(box) {
    const media = this.media;
    return this.during("What is this? …", async () => {
      const frame = media.clip ? `&frame=${this.stage.now()}` : "";
      const { regions } = await media.regions(`words=6&box=${box}${frame}`);
      if (this.media !== media) return;
      this.stage.point(box, "drawn");
      this.tell("What is this?", regions[0]);
    });
  }

  tell(title, region) {
    const words = region.words.map((w) => bar(w.word, w.evidence, "", ""));
    const named = region.labels.filter((l) => l.score >= 0.05 && !l.label.startsWith("word:")); // words are no classes
    const labels = named.slice(0, 3).map((l) => `${l.label} ${percent(l.score)}`).join(", ");
    $("fitting").hidden = false;
    $("fitting").replaceChildren(
      make("h2", {}, title),
      make("ul", { class: "bars", "aria-label": "Words that fit" }, ...words),
      make("p", { class: "help" }, labels ? `The detector: ${labels}` : "The detector has no name for it."),
    );
  }
}

const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);

/** The nouns of a caption; those of a clip have a box in several frames. */
function linked(row) {
  const tokens = [...new Set(row.links.map((link) => link.token))];
  return tokens.map((token, i) => {
    const links = row.links.filter((link) => link.token === token);
    const best = links.reduce((a, b) => (b.score > a.score ? b : a));
    const title = best.weak ? `${percent(best.evidence)} likely to be there: weak, perhaps made up` : `${percent(best.evidence)} likely to be there`;
    const boxes = links.map((link) => ({ box: link.box, frame: link.frame }));
    return { span: best.span, key: token, box: best.box, frame: best.frame, boxes, weak: best.weak, colour: PALETTE[i % PALETTE.length], title };
  });
}

/** The phrases of a text that was audited: where each is, and dashed where the text says that it is. */
function audited(phrases) {
  return phrases.map((p, i) => {
    const wrong = p.verdict !== "grounded";
    const said = p.verdict === "wrong place" ? p.given.boxes.map((box) => ({ box, weak: true })) : [];
    const boxes = [...(p.box ? [{ box: p.box, frame: p.frame, weak: false }] : []), ...said];
    return { span: p.span, key: i, weak: wrong, colour: PALETTE[i % PALETTE.length], title: p.verdict, box: p.box, boxes };
  });
}

/** What there is to say of a verdict beyond its name. */
function noted(p) {
  if (p.verdict === "wrong place") return `${p.phrase}: the box of the text is dashed, the likely place is not.`;
  if (p.asked) return `${p.phrase}: looked for as ${p.asked}, a ${p.how}.`;
  return p.reason ? `${p.phrase}: ${p.reason}.` : "";
}

/** The phrases of a sentence that stand in it. Those that are not there get no box. */
function placed(phrases, there) {
  return phrases
    .map((p, i) => ({ ...p, key: i, weak: !there(p), colour: PALETTE[i % PALETTE.length], title: `${percent(p.evidence)} likely to be there`, box: there(p) ? p.box : null }))
    .filter((p) => p.span[1] > p.span[0]);
}

/** Two sentences beside each other: which things both name, and how much of each was found. */
function compared(yours, model) {
  const heads = (row) => [...new Set(row.phrases.map((p) => p.head).filter(Boolean))];
  const [mine, its] = [heads(yours), heads(model)];
  const told = [
    ["Both name", mine.filter((word) => its.includes(word))],
    ["Only you name", mine.filter((word) => !its.includes(word))],
    ["Only the model names", its.filter((word) => !mine.includes(word))],
  ];
  const lines = told.filter(([, words]) => words.length).map(([name, words]) => make("p", { class: "help" }, `${name}: ${words.join(", ")}`));
  return [make("p", { class: "summary" }, "The model says: ", make("i", {}, model.sentence)), ...lines, summary(yours.phrases, model.phrases)];
}

function summary(yours, model) {
  const about = (phrases) => {
    const mean = phrases.reduce((sum, p) => sum + (p.evidence ?? 0), 0) / Math.max(1, phrases.length);
    return [`${phrases.filter((p) => p.found).length} of ${phrases.length}`, percent(mean)];
  };
  const line = (name, phrases) => make("tr", {}, make("th", { scope: "row" }, name), ...about(phrases).map((text) => make("td", {}, text)));
  const head = make("tr", {}, ...["", "phrases found", "mean evidence"].map((text) => make("th", { scope: "col" }, text)));
  return make("table", { class: "summary" }, head, line("your sentence", yours), line("model's caption", model));
}
