// A photo or clip with boxes over it, and sentences whose words light them.

// each has a contrast of 4.5 with white, the colour of names, and of 3 with both papers
export const PALETTE = ["#d81b60", "#1976d2", "#23833f", "#b85c00", "#9b4dca", "#00806f", "#c0392b", "#697700"];
const SVG = "http://www.w3.org/2000/svg";
const SMALLEST = 8; // pixels on the screen; less is a click
const UNPLAYABLE = "This browser cannot play this clip, so its boxes cannot be shown. It can play MP4 (H.264) and WebM.";

export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const percent = (p) => (p === null || p === undefined ? "unknown" : `${Math.round(100 * p)} %`);

/** The photo under an empty drawing. Where it is more than a picture, `picked(x, y)` and `drawn(box)` are called with
 * pixels of the photo. */
export class Stage {
  constructor(parent, { label, picked, drawn }) {
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("role", picked ? "application" : "img");
    this.svg.setAttribute("aria-label", label);
    if (picked) this.svg.setAttribute("tabindex", "0");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.tags = make("div", { class: "tags", "aria-hidden": "true" });
    this.frame = make("div", { class: "frame" });
    parent.replaceChildren(this.frame);
    this.marks = [];
    this.extra = null;
    if (picked) this.listen(picked, drawn);
  }

  /** Show a photo, or a clip whose boxes follow the time. */
  show(address, clip, alt) {
    this.media = clip
      ? make("video", { src: address, controls: true, muted: true, playsInline: true, "aria-label": alt })
      : make("img", { src: address, alt, draggable: false });
    this.clip = clip;
    this.frames = 1;
    this.marks = [];
    this.extra = null;
    this.svg.classList.toggle("over-video", clip);
    if (clip) {
      this.media.addEventListener("timeupdate", () => this.paint());
      this.media.addEventListener("error", () => this.frame.replaceChildren(make("p", { class: "unplayable" }, UNPLAYABLE)));
    }
    this.media.addEventListener(clip ? "loadedmetadata" : "load", () => this.fit());
    this.frame.replaceChildren(this.media, this.svg, this.tags);
    this.paint();
  }

  /** As large as there is room with the text about a region below it, at most twice its size. */
  fit() {
    const [width, height] = this.clip ? [this.media.videoWidth, this.media.videoHeight] : [this.media.naturalWidth, this.media.naturalHeight];
    this.frame.style.width = `min(100%, ${(60 * width) / height}vh, ${2 * width}px)`;
    this.paint();
  }

  size(width, height, frames = 1) {
    this.width = width;
    this.height = height;
    this.frames = frames || 1;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  /** Boxes to draw: {box, colour, weak, key, frame, name}; `lit` is the key of the one that matters now. */
  draw(marks, lit = null) {
    this.marks = marks;
    this.light(lit);
  }

  light(key) {
    this.lit = key;
    const mark = key === null ? null : this.marks.find((m) => m.key === key);
    if (mark) this.seek(mark.frame || 0);
    this.paint();
  }

  /** Show the frame of a clip, and stay there. */
  seek(frame) {
    if (!this.clip || !this.media.duration || this.now() === frame) return;
    this.media.pause();
    this.media.currentTime = ((frame + 0.5) / this.frames) * this.media.duration;
  }

  /** One more box, of a region that was chosen or of what was drawn by hand. */
  point(box, kind) {
    this.extra = box && { box, kind };
    this.paint();
  }

  now() {
    if (!this.clip || !this.media.duration) return 0;
    return Math.min(this.frames - 1, Math.floor((this.media.currentTime / this.media.duration) * this.frames));
  }

  paint() {
    const now = this.now();
    const shown = this.marks.filter((mark) => !this.clip || (mark.frame || 0) === now);
    const lit = this.lit !== null && this.lit !== undefined;
    const step = (5 * this.width) / (this.svg.getBoundingClientRect().width || this.width); // 5 pixels of the screen
    const drawn = [];
    const rects = shown.map((mark) => {
      const on = mark.key === this.lit;
      drawn.push(apart(mark.box, drawn, step));
      const node = rectangle(drawn[drawn.length - 1], ["box", mark.weak && "weak", lit && !on && "faint", on && "on"]);
      node.setAttribute("stroke", mark.colour);
      node.setAttribute("color", mark.colour);
      node.dataset.key = mark.key;
      return node;
    });
    if (this.extra) rects.push(rectangle(this.extra.box, [this.extra.kind]));
    this.svg.replaceChildren(...rects);
    this.tags.replaceChildren(...this.names(shown, lit));
  }

  /** The names of boxes at their upper left corners, none on another. */
  names(marks, lit) {
    const step = 2200 / (this.svg.getBoundingClientRect().height || 400); // percent that a name is high, about
    const taken = [];
    return marks.filter((mark) => mark.name && this.width).map((mark) => {
      const left = (100 * Math.max(0, mark.box[0])) / this.width;
      let top = (100 * Math.max(0, mark.box[1])) / this.height;
      for (const [x, y] of taken) if (Math.abs(x - left) < 18 && Math.abs(y - top) < step) top = y + step;
      taken.push([left, top]);
      taken.sort((one, other) => one[1] - other[1]);
      const node = make("span", { class: `tag${lit && mark.key !== this.lit ? " faint" : ""}` }, mark.name);
      Object.assign(node.style, { left: `min(${left}%, 100% - 4rem)`, top: `${Math.min(top, 100 - step)}%`, background: mark.colour });
      return node;
    });
  }

  at(event) {
    const box = this.svg.getBoundingClientRect();
    const inside = (value, most) => Math.max(0, Math.min(most, value));
    return [
      inside(((event.clientX - box.left) / box.width) * this.width, this.width),
      inside(((event.clientY - box.top) / box.height) * this.height, this.height),
    ];
  }

  listen(picked, drawn) {
    let start = null;
    const far = (event) => Math.hypot(event.clientX - start.x, event.clientY - start.y) >= SMALLEST;
    const box = (event) => {
      const [x, y] = this.at(event);
      const [a, b] = start.at;
      return [Math.min(a, x), Math.min(b, y), Math.max(a, x), Math.max(b, y)].map((v) => Math.round(v * 10) / 10);
    };
    const may = (event) => event.pointerType === "mouse" || this.svg.classList.contains("drawing");
    this.svg.addEventListener("pointerdown", (event) => {
      if (!this.width || event.button) return;
      start = { x: event.clientX, y: event.clientY, at: this.at(event) };
      if (may(event)) this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => start && may(event) && far(event) && this.point(box(event), "drawn"));
    this.svg.addEventListener("pointerup", (event) => {
      if (!start) return;
      const [x0, y0, x1, y1] = box(event);
      if (may(event) && far(event) && x1 > x0 && y1 > y0) drawn([x0, y0, x1, y1]);
      else if (!far(event)) picked(...this.at(event));
      start = null;
    });
    this.svg.addEventListener("pointercancel", () => { start = null; });
  }
}

/** The box, drawn inside of those before it that it would cover. */
function apart(box, drawn, step) {
  const near = (other) => other.every((side, i) => Math.abs(side - box[i]) < step);
  while (drawn.some(near) && Math.min(box[2] - box[0], box[3] - box[1]) >= 4 * step)
    box = [box[0] + step, box[1] + step, box[2] - step, box[3] - step];
  return box;
}

function rectangle([x0, y0, x1, y1], classes) {
  const node = document.createElementNS(SVG, "rect");
  node.setAttribute("class", classes.filter(Boolean).join(" "));
  const sides = { x: x0, y: y0, width: Math.max(0, x1 - x0), height: Math.max(0, y1 - y0) };
  for (const [name, value] of Object.entries(sides)) node.setAttribute(name, value);
  return node;
}

/** A sentence; `parts` are {span, key, colour, weak, title}. `light(key)` is called as a part is pointed at or left. */
export function sentence(text, parts, light) {
  const nodes = [];
  let end = 0;
  for (const part of [...parts].sort((a, b) => a.span[0] - b.span[0])) {
    if (part.span[0] < end) continue;
    nodes.push(text.slice(end, part.span[0]));
    const word = make("button", { type: "button", class: `word${part.weak ? " weak" : ""}`, title: part.title }, make("span", { class: "text" }, text.slice(...part.span)));
    word.setAttribute("aria-label", `${text.slice(...part.span)}: ${part.title}`);
    word.style.color = part.colour;
    word.dataset.key = part.key;
    for (const event of ["mouseenter", "focus", "click"]) word.addEventListener(event, () => { light(part.key); word.classList.add("on"); });
    for (const event of ["mouseleave", "blur"]) word.addEventListener(event, () => { light(null); word.classList.remove("on"); });
    nodes.push(word);
    end = part.span[1];
  }
  nodes.push(text.slice(end));
  return nodes;
}

/** A line of a list of probabilities, or of other numbers from 0 to 1 that `say` writes; `kind` is the class of the note:
 * good, bad, unsure, or none. */
export function bar(name, evidence, note, kind, say = percent) {
  const known = evidence !== null && evidence !== undefined;
  const fill = make("span");
  fill.style.width = `${100 * (evidence ?? 0)}%`;
  const colour = !kind ? "plain" : kind === "bad" && evidence < 0.65 ? "low" : kind === "unsure" ? "middle" : "";
  const meter = make("span", { class: `bar ${colour}` }, fill);
  const values = { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * (evidence ?? 0)), "aria-valuetext": say(evidence) };
  for (const [attribute, value] of Object.entries(values)) meter.setAttribute(attribute, value);
  const text = known ? `${note} ${say(evidence)}`.trim() : note;
  return make("li", {}, make("span", { class: "name" }, name), meter, make("span", { class: `note ${kind}` }, text));
}
