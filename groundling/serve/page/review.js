// The review of a folder: a person decides about each phrase; the server keeps every decision.

import { Media, getBlob, getJson, postJson } from "/api.js";
import { PALETTE, Stage, make, percent } from "/draw.js";

const $ = (id) => document.getElementById(id);
const NAME = "groundling-reviewer";
const SAID = { right: "✓ right", moved: "✓ box drawn", wrong: "✗ wrong" };

export class ReviewView {
  constructor(during) {
    this.during = during;
    this.names = [];
    this.at = 0;
    this.rows = []; // {phrase, box, evidence, decision}
    this.chosen = 0;
    this.stage = new Stage($("review-stage"), {
      label: "The photo under review. Drag to draw the right box.",
      picked: () => {},
      drawn: (box) => this.decide("moved", box),
    });
    this.stage.svg.classList.add("drawing");
    $("by").value = localStorage.getItem(NAME) || "";
    $("by").addEventListener("change", () => localStorage.setItem(NAME, $("by").value));
    $("before").addEventListener("click", () => this.go(-1));
    $("after").addEventListener("click", () => this.go(1));
    $("add").addEventListener("submit", (event) => { event.preventDefault(); this.add($("phrase").value.trim()); });
    $("export").addEventListener("click", (event) => { event.preventDefault(); this.save(); });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** All names of the folder, then the first photo that has no decision. */
  async begin() {
    if (this.names.length) return;
    await this.during("Reading the folder …", async () => {
      let all = [];
      for (let total = 1; all.length < total;) {
        const part = await getJson(`/v1/photos?start=${all.length}`);
        all = all.concat(part.photos);
        total = part.photos.length ? part.total : all.length;
      }
      this.names = all.map((photo) => photo.image);
      this.at = Math.max(0, all.findIndex((photo) => !photo.decided));
    });
    await this.load();
  }

  go(step) {
    const next = this.at + step;
    if (next < 0 || next >= this.names.length) return;
    this.at = next;
    this.load();
  }

  load() {
    const name = this.names[this.at];
    this.rows = [];
    $("where").textContent = `${this.at + 1} of ${this.names.length}: ${name}`;
    return this.during("Looking …", async () => {
      const blob = await getBlob(`/v1/photos/file?image=${encodeURIComponent(name)}`);
      const media = new Media(blob);
      if (this.address) URL.revokeObjectURL(this.address);
      this.address = URL.createObjectURL(blob);
      this.stage.show(this.address, false, name);
      const said = await media.ask("caption", { beam: 3 });
      const kept = (await getJson(`/v1/reviews?image=${encodeURIComponent(name)}`)).decisions;
      const found = await media.ask("ground", { sentence: said.caption }).catch((error) => { if (error.kind === "no-phrase") return { phrases: [] }; throw error; });
      if (name !== this.names[this.at]) return;
      this.media = media;
      this.stage.size(said.image.width, said.image.height);
      this.rows = merged(found.phrases, kept);
      this.chosen = 0;
      this.list();
    });
  }

  list() {
    $("phrases").replaceChildren(...this.rows.map((row, i) => {
      const name = make("b", {}, row.phrase);
      name.style.color = PALETTE[i % PALETTE.length];
      const choose = make("button", { type: "button", class: "choose", on: { click: () => this.choose(i) } }, name, ` ${percent(row.evidence)}`);
      const act = (label, work) => make("button", { type: "button", "aria-label": `${row.phrase}: ${label}`, on: { click: () => { this.chosen = i; work(); } } }, label);
      const buttons = row.decision
        ? [make("span", { class: row.decision.verdict === "wrong" ? "bad" : "good" }, SAID[row.decision.verdict]), act("undo", () => this.decide("undone"))]
        : [act("right", () => this.decide("right")), act("wrong", () => this.decide("wrong"))];
      return make("li", { class: i === this.chosen ? "on" : "" }, choose, ...buttons);
    }));
    this.draw();
  }

  draw() {
    const marks = this.rows.map((row, i) => ({ key: i, box: row.decision?.box || row.box, colour: PALETTE[i % PALETTE.length], weak: !row.decision, hide: row.decision?.verdict === "wrong" }));
    this.stage.point(null);
    this.stage.draw(marks.filter((mark) => mark.box && !mark.hide), this.rows.length ? this.chosen : null);
  }

  choose(i) {
    this.chosen = (i + this.rows.length) % this.rows.length;
    this.list();
  }

  decide(verdict, box = null) {
    const row = this.rows[this.chosen];
    if (!row || (verdict === "undone" && !row.decision)) return;
    const decision = { image: this.names[this.at], phrase: row.phrase, verdict, by: $("by").value };
    if (box || verdict === "right") decision.box = box || row.box;
    return this.during("Keeping …", async () => {
      const { accepted } = await postJson("/v1/reviews", decision);
      row.decision = verdict === "undone" ? null : accepted;
      if (verdict !== "undone" && this.chosen < this.rows.length - 1) this.chosen += 1;
      this.list();
    });
  }

  add(phrase) {
    if (!phrase || !this.media) return;
    return this.during("Looking for it …", async () => {
      const { phrases } = await this.media.ask("ground", { phrases: [phrase] });
      this.rows.push({ ...phrases[0], decision: null });
      this.chosen = this.rows.length - 1;
      $("phrase").value = "";
      this.list();
    });
  }

  async save() {
    const address = URL.createObjectURL(await getBlob("/v1/reviews/export"));
    make("a", { href: address, download: "reviews.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  key(event) {
    if ($("view-review").hidden || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      y: () => this.decide("right"), n: () => this.decide("wrong"), u: () => this.undo(),
      j: () => this.choose(this.chosen + 1), k: () => this.choose(this.chosen - 1),
      ArrowRight: () => this.go(1), ArrowLeft: () => this.go(-1),
    };
    if (!acts[event.key] || !this.rows.length) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** The decision under the mark, or else the one before it. */
  undo() {
    if (!this.rows[this.chosen].decision && this.chosen > 0) this.chosen -= 1;
    return this.decide("undone");
  }
}

/** What the model finds, with what was decided; decided phrases that it does not find now come last. */
function merged(phrases, decisions) {
  const decided = new Map(decisions.map((d) => [d.phrase, d]));
  const rows = [...new Map(phrases.map((p) => [p.phrase, p])).values()].map((p) => ({ ...p, decision: decided.get(p.phrase) || null }));
  const names = new Set(rows.map((row) => row.phrase));
  const rest = decisions.filter((d) => !names.has(d.phrase)).map((d) => ({ phrase: d.phrase, box: d.box, evidence: null, decision: d }));
  return [...rows, ...rest];
}
