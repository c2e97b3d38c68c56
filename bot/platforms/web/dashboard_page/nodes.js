// Buttons, times and hues of the operator's page, and answers of its server.

import { make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { elapsed } from "../../static/units.js";

const SVG = "http://www.w3.org/2000/svg";
const PIN = "M9 3h6l-1 6 4 4v2h-5v6l-1 1-1-1v-6H6v-2l4-4z";

/** Make an SVG element. */
export function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
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

/** Make radio buttons for the values of `words`. `choose` gets the value that is chosen. */
export function choices(name, words, chosen, choose) {
  return Object.entries(words).map(([value, text]) => {
    const input = make("input", { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => choose(value));
    return make("label", {}, input, make("span", {}, text));
  });
}

/** Return the server's answer, or null if there is none. */
export async function fetched(address) {
  try {
    const answer = await fetch(address);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
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
