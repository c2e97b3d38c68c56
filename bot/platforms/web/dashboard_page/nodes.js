// Elements that stay the same while their data changes, so that focus and selection survive redraws.

import { make } from "../../static/dom.js";
import { elapsed } from "./units.js";

const SVG = "http://www.w3.org/2000/svg";
const PIN = "M9 3h6l-1 6 4 4v2h-5v6l-1 1-1-1v-6H6v-2l4-4z";

/** Make an SVG element. */
export function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Show each item as one part, in order, and remove the parts of missing items.
 *  `create(item)` returns a part: an object with a `node` and a method `draw(item)`. */
export function keyed(list, items, keyOf, create) {
  const parts = (list.parts ??= new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, part] of parts) {
    if (wanted.has(key)) continue;
    keepFocus(list, part.node);
    part.node.remove();
    parts.delete(key);
  }
  let before = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (!parts.has(key)) parts.set(key, create(item));
    const part = parts.get(key);
    part.draw(item);
    if (part.node === before) before = before.nextElementSibling;
    else moveTo(list, part.node, before);
  }
}

function moveTo(list, node, before) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  list.insertBefore(node, before);
  if (focused) focused.focus({ preventScroll: true });
}

/** Move the focus before its element is removed, so that keyboard users keep their place. */
function keepFocus(list, node) {
  if (!node.contains(document.activeElement)) return;
  const next = [node.nextElementSibling, node.previousElementSibling]
    .map((other) => other?.querySelector("button, summary")).find(Boolean);
  (next ?? list.closest("section").querySelector("h2")).focus({ preventScroll: true });
}

/** Set an element's text if it changed. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replace the nodes of a text that contains moments, if its parts changed. */
export function writeParts(node, parts, drawn) {
  const told = JSON.stringify(parts);
  if (node.told === told) return;
  node.told = told;
  node.replaceChildren(...drawn(parts));
}

/** Make an element that shows how long ago a moment was, and keeps it up to date. */
export function since(at) {
  const node = make("span", { className: "since", "data-at": at });
  node.textContent = elapsed(at);
  return node;
}

setInterval(() => {
  for (const node of document.querySelectorAll(".since")) write(node, elapsed(Number(node.dataset.at)));
}, 1000);

export const pin = () =>
  draw("svg", { viewBox: "0 0 24 24", class: "pin", "aria-hidden": "true" }, draw("path", { d: PIN }));

/** Make a button for an act. `label` is for screen readers, because several buttons have the same text. */
export function button(words, label, press, danger = false) {
  const node = make("button", { type: "button", className: danger ? "act danger" : "act", "aria-label": label }, words);
  node.addEventListener("click", press);
  return node;
}

// ---------------------------------------------------------------- one hue for each model, everywhere

const HUES = 16;
let order = [];

/** Set the list of models. A model's position in it determines its hue. */
export function nameModels(names) {
  order = names;
}

export function hueOf(model) {
  const at = order.indexOf(model);
  return `hue-${(at < 0 ? 0 : at) % HUES}`;
}

export const swatch = (model) => make("span", { className: `swatch ${hueOf(model)}`, "aria-hidden": "true" });
