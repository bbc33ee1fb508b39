"use strict";
// A person decides about labels. Where the page is served, `groundlingStore` keeps the decisions; else this browser does.
const $ = (id) => document.getElementById(id);
const canvas = $("picture"), pen = canvas.getContext("2d");
const store = window.groundlingStore || inThisBrowser();
let rows = [];      // labels, the least certain first
let done = [];      // decisions in the order in which they were made: undo takes the last
let at = 0, drawing = false, drawn = [], from = null, to = null;
let picture = new Image();
let work = Promise.resolve();  // what was asked for last; the next thing waits for it

function inThisBrowser() {
  const data = JSON.parse($("data").textContent);
  const KEY = `groundling-review-${data.name}`;
  const kept = () => { try { return JSON.parse(localStorage.getItem(KEY) || "[]"); } catch { return []; } };
  const keep = (all) => {
    try { localStorage.setItem(KEY, JSON.stringify(all)); }
    catch { $("note").textContent = "This browser keeps nothing here: save review.json before you close the page."; }
  };
  return { load: () => ({ rows: data.rows, decisions: kept() }), picture: (image) => data.pictures[image], keep };
}

const name = (row) => row.image + "\u0000" + row.label;
const decisions = () => new Map(done.map((one) => [name(one), one]));
const decided = (row) => decisions().get(name(row));
const next = (act) => { work = work.then(act).catch((error) => { $("state").textContent = error.message; }); };

/** All decisions as they shall be; `changed` is what to tell the store. They count once the store has them. */
async function keep(all, changed) {
  await store.keep(all, changed);
  done = all;
}

async function decide(action, more = {}) {
  const row = rows[at];
  const decision = { image: row.image, label: row.label, action, ...more };
  await keep([...done, decision], decision);
  stopDrawing();
  const map = decisions();
  const open = rows.findIndex((one, i) => i > at && !map.has(name(one)));
  show(open < 0 ? Math.min(at + 1, rows.length - 1) : open);
}

async function undo() {
  const last = done.at(-1);
  if (!last) return;
  const rest = done.slice(0, -1);
  const before = rest.findLast((one) => name(one) === name(last));
  await keep(rest, before || { image: last.image, label: last.label, action: "undo" });
  show(rows.findIndex((row) => name(row) === name(last)));
}

function show(i) {
  at = Math.max(0, Math.min(i, rows.length - 1));
  stopDrawing();
  $("rename").style.display = "none";
  const n = decisions().size;
  $("bar").max = Math.max(1, rows.length);
  $("bar").value = n;
  $("count").textContent = `${n} of ${rows.length} reviewed`;
  const row = rows[at];
  if (!row) { $("state").textContent = "There is nothing to review."; return; }
  const was = decided(row);
  $("phrase").textContent = row.phrase;
  $("sure").textContent = `confidence ${row.confidence.toFixed(2)}, label ${at + 1}`;
  $("state").textContent = was ? `Your decision: ${was.action}${was.phrase ? " → " + was.phrase : ""}` : "";
  $("captions").replaceChildren(...row.captions.map((text, c) => caption(text, row.mentions.filter((m) => m[0] === c))));
  load(row.image).catch((error) => { $("state").textContent = error.message; });
}

async function load(image) {
  const coming = picture = new Image();
  pen.clearRect(0, 0, canvas.width, canvas.height);
  coming.onload = () => { if (coming === picture) paint(); };
  coming.src = await store.picture(image);
  if (rows[at + 1]) await store.picture(rows[at + 1].image); // so that it is there when it is asked for
}

function caption(text, mentions) {
  const item = document.createElement("li");
  let end = 0;
  for (const [, start, stop] of mentions.sort((a, b) => a[1] - b[1])) {
    item.append(text.slice(end, start));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, stop);
    item.append(mark);
    end = stop;
  }
  item.append(text.slice(end));
  return item;
}

function paint() {
  const row = rows[at];
  const [width, height] = row.size;
  canvas.width = picture.naturalWidth;
  canvas.height = picture.naturalHeight;
  canvas.style.width = `min(100%, ${62 * (width / height)}vh)`; // so that the buttons below are seen, too
  pen.drawImage(picture, 0, 0);
  const x = canvas.width / width, y = canvas.height / height;
  pen.lineWidth = 3;
  const was = decided(row);
  const boxes = drawing ? drawn : was && was.action === "redraw" ? was.boxes : row.boxes;
  pen.strokeStyle = getComputedStyle(document.body).getPropertyValue(drawing || boxes !== row.boxes ? "--cool" : "--hot");
  for (const [a, b, c, d] of boxes) pen.strokeRect(a * x, b * y, (c - a) * x, (d - b) * y);
  if (from && to) {
    const [a, b, c, d] = corners();
    pen.setLineDash([6, 4]);
    pen.strokeRect(a * x, b * y, (c - a) * x, (d - b) * y);
    pen.setLineDash([]);
  }
}

function place(event) {
  const area = canvas.getBoundingClientRect(), [width, height] = rows[at].size;
  const clip = (v, most) => Math.round(10 * Math.max(0, Math.min(v, most))) / 10;
  return [clip((event.clientX - area.left) / area.width * width, width), clip((event.clientY - area.top) / area.height * height, height)];
}

function corners() {
  return [Math.min(from[0], to[0]), Math.min(from[1], to[1]), Math.max(from[0], to[0]), Math.max(from[1], to[1])];
}

function startDrawing() {
  drawing = true; drawn = [];
  canvas.classList.add("drawing");
  $("redraw").setAttribute("aria-pressed", "true");
  $("state").textContent = "Drag a box around it, one for each if there are several; Enter keeps them, Esc does not.";
  paint();
}

function stopDrawing() {
  drawing = false; from = to = null;
  canvas.classList.remove("drawing");
  $("redraw").setAttribute("aria-pressed", "false");
}

canvas.addEventListener("pointerdown", (e) => { if (drawing) { from = to = place(e); canvas.setPointerCapture(e.pointerId); } });
canvas.addEventListener("pointermove", (e) => { if (drawing && from) { to = place(e); paint(); } });
canvas.addEventListener("pointerup", (e) => {
  if (!drawing || !from) return;
  to = place(e);
  const box = corners();
  from = to = null;
  if (box[2] - box[0] >= 1 && box[3] - box[1] >= 1) drawn.push(box);
  paint();
});

function relabel() {
  $("rename").style.display = "block";
  $("name").value = rows[at].phrase;
  $("name").focus();
  $("name").select();
}

$("rename").addEventListener("submit", (e) => {
  e.preventDefault();
  const phrase = $("name").value.trim();
  $("name").blur();
  if (phrase) next(() => decide("relabel", { phrase }));
});

function review() { return JSON.stringify({ format: 1, decisions: [...decisions().values()] }, null, 1); }

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([review()], { type: "application/json" }));
  link.download = "review.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

const acts = {
  accept: () => decide("accept"), reject: () => decide("reject"), undo, relabel, export: save,
  redraw: () => (drawing ? (stopDrawing(), show(at)) : startDrawing()),
  back: () => show(at - 1), next: () => show(at + 1),
};
for (const [id, act] of Object.entries(acts)) $(id).addEventListener("click", () => next(act));

const keys = { a: "accept", r: "reject", d: "redraw", l: "relabel", u: "undo", s: "export", arrowleft: "back", arrowright: "next" };
document.addEventListener("keydown", (e) => {
  if (e.target.tagName === "INPUT") { if (e.key === "Escape") show(at); return; }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (drawing && e.key === "Enter") { e.preventDefault(); if (drawn.length) next(() => decide("redraw", { boxes: drawn })); return; }
  if (drawing && e.key === "Escape") { show(at); return; }
  const act = acts[keys[e.key.toLowerCase()]];
  if (act && rows.length) { e.preventDefault(); next(act); }
});

next(async () => {
  ({ rows, decisions: done } = await store.load());
  const open = rows.findIndex((row) => !decided(row));
  show(open < 0 ? 0 : open);
});
