// The actions under a message and on its images. A result has two main ones and a menu with the rest.

import { hasMarkdown, markdownText, shortText } from "./body.js";
import { make } from "./dom.js";
import { icon } from "./icons.js";
import { isImage } from "./images.js";
import { copyText } from "./markdown.js";
import { ask, menuButton } from "./menu.js";
import { placeShowButtons } from "./past.js";
import { say } from "./texts.js";

const DELETE = "delete"; // under each result: last in its menu, and asked for
const MAIN = ["copy", "show", "again", "vary", "video", "edit"]; // the first of these that a result has
const MAIN_COUNT = 2;
const SIGN = /^\p{Extended_Pictographic}\p{M}?\s*(?=\p{L})/u; // shown by platforms without icons

/** Return whether a message is a result. */
export const isResult = (shown) => shown.buttons.flat().some((button) => button.command === DELETE);

/** Return the rows of actions under a message. Buttons of a past job go to its line in `body`. */
export function actionRows(body, entry, on) {
  if (isResult(entry.shown)) return [resultRow(entry, on)];
  const draw = (button) => actionNode(actionOf(button, entry.message, on));
  return placeShowButtons(body, entry.shown.buttons, draw).map((row) => rowNode(row.map(draw)));
}

const rowNode = (nodes) => make("div", { className: "button-row" }, ...nodes);

function resultRow({ shown, message }, on) {
  const buttons = shown.buttons.flat().filter((button) => !button.number || button.number > imagesOf(shown));
  const actions = buttons.map((button) => actionOf(button, message, on));
  if (hasMarkdown(shown)) actions.push(copyAction(shown));
  actions.push({ name: "reply", label: say("reply"), act: () => on.reply(message, shortText(shown)) });
  const main = MAIN.map((name) => actions.find((action) => action.name === name)).filter(Boolean).slice(0, MAIN_COUNT);
  const rest = actions.filter((action) => !main.includes(action));
  rest.sort((a, b) => (a.name === DELETE) - (b.name === DELETE));
  return rowNode([...main.map((action) => actionNode(action)), menuButton(say("act_more"), rest)]);
}

/** Return how many images have actions of their own: none if there is only one. */
function imagesOf(shown) {
  const images = shown.files.filter(isImage).length;
  return images > 1 ? images : 0;
}

/** Return the bar of actions on the image of a number, or null. A finger gets them as a menu. */
export function imageActions({ shown, message }, number, on) {
  const buttons = shown.buttons.flat();
  if (!isResult(shown)) return null;
  const actions = buttons.filter((button) => button.number === number).map((button) => actionOf(button, message, on));
  if (actions.length === 0) return null;
  const signs = actions.map((action) => {
    const node = actionNode({ ...action, label: "" }, "sign-button");
    Object.assign(node, { title: action.label, ariaLabel: action.label });
    return node;
  });
  const more = menuButton(say("act_image", { number }), actions, "sign-button as-menu");
  return make("div", { className: "image-actions" }, ...signs, more);
}

/** Return what a button does, with the words that name it. `act` gets the control that was pressed. */
function actionOf(button, message, on) {
  const press = (node) => {
    if (node.getAttribute("aria-busy")) return;
    node.setAttribute("aria-busy", "true");
    on.press(message, button);
  };
  const label = button.number && button.hint ? button.hint : button.label.replace(SIGN, "");
  const asked = async (node) => (await ask(say("act_delete_sure"), label)) && press(node);
  const deletes = button.command === DELETE;
  return { name: button.command, label, hint: button.hint, danger: button.danger || deletes, act: deletes ? asked : press };
}

function copyAction(shown) {
  const act = (node) => copyText(markdownText(shown.body), node.querySelector("span"));
  return { name: "copy", label: say("copy"), act };
}

function actionNode({ name, label, hint, danger, act }, className = "button") {
  const words = label ? make("span", {}, label) : null;
  const node = make("button", { type: "button", className: danger ? `${className} danger` : className }, icon(name), words);
  if (hint) Object.assign(node, { title: hint, ariaLabel: hint });
  node.addEventListener("click", () => act(node));
  return node;
}
