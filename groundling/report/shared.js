"use strict";
const page = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") node.className = value;
    else if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function shape(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

const rect = ([x0, y0, x1, y1], attributes) => shape("rect", { x: x0, y: y0, width: Math.max(0, x1 - x0), height: Math.max(0, y1 - y0), ...attributes });

/** The box, drawn inside of those before it that it would cover. */
function apart(box, drawn, step) {
  const covers = (other) => other.every((side, i) => Math.abs(side - box[i]) < step);
  while (drawn.some(covers) && Math.min(box[2] - box[0], box[3] - box[1]) >= 4 * step) {
    box = [box[0] + step, box[1] + step, box[2] - step, box[3] - step];
  }
  return box;
}
