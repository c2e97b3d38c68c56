// A menu below a button, and a question before something is lost.

import { make } from "./dom.js";
import { icon } from "./icons.js";
import { lieOver, showOver } from "./over.js";
import { say } from "./texts.js";

const EDGE_PX = 8; // left free beside the menu

/** Make a button that opens a menu. Items have a `label`, `act(button)`, perhaps `danger`, and an icon by `name`. */
export function menuButton(label, items, className = "button") {
  const button = make("button", { type: "button", className, title: label, "aria-label": label,
    "aria-haspopup": "menu", "aria-expanded": "false" }, icon("more"));
  let closes = false; // the press that closes the menu must not open it again
  button.addEventListener("pointerdown", () => { closes = button.ariaExpanded === "true"; });
  button.addEventListener("click", () => (closes ? (closes = false) : openMenu(button, items)));
  return button;
}

/** Arrow keys move in the menu; Escape, Tab and a press outside close it, and the button has the focus again. */
function openMenu(button, items) {
  const gone = new AbortController();
  const choose = (item) => {
    menu.hidePopover(); // first, so that a question that follows gives the focus back to the button
    item.act(button);
  };
  const nodes = items.map((item) => menuItem(item, () => choose(item)));
  const menu = make("div", { className: "menu", popover: "auto", role: "menu", "aria-label": button.ariaLabel }, ...nodes);
  menu.addEventListener("keydown", (event) => moveIn(menu, nodes, event));
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    button.setAttribute("aria-expanded", "false");
    gone.abort();
    menu.remove();
    closed();
  });
  addEventListener("resize", () => menu.hidePopover(), { signal: gone.signal }); // its button is elsewhere now
  button.closest("main, nav").append(menu); // readers of the page look for everything in a landmark
  menu.showPopover();
  const closed = lieOver(() => menu.hidePopover());
  button.setAttribute("aria-expanded", "true");
  putBeside(menu, button);
  nodes[0].focus();
}

function menuItem({ name, label, danger }, choose) {
  const node = make("button", { type: "button", role: "menuitem", tabIndex: -1,
    className: danger ? "menu-item danger" : "menu-item" }, icon(name), make("span", {}, label));
  node.addEventListener("click", choose);
  return node;
}

function moveIn(menu, nodes, event) {
  const at = nodes.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: nodes.length - 1 }[event.key];
  if (to === undefined && event.key !== "Tab") return;
  event.preventDefault();
  event.stopPropagation();
  if (to === undefined) menu.hidePopover();
  else nodes.at(to % nodes.length).focus();
}

/** Put a menu below its button, or above it where there is more room. */
function putBeside(menu, button) {
  const [box, { offsetWidth: width, offsetHeight: height }] = [button.getBoundingClientRect(), menu];
  const below = box.bottom + 4 + height <= innerHeight - EDGE_PX || box.top < height;
  menu.style.left = `${Math.max(EDGE_PX, Math.min(box.left, innerWidth - width - EDGE_PX))}px`;
  menu.style.top = `${below ? Math.max(EDGE_PX, Math.min(box.bottom + 4, innerHeight - height - EDGE_PX)) : box.top - 4 - height}px`;
}

/** Ask before something is lost. Resolves to whether the person chose `yes`. */
export function ask(question, yes) {
  const keep = make("button", { type: "button", className: "button", autofocus: true }, say("ask_keep"));
  const go = make("button", { type: "button", className: "button danger" }, yes);
  const dialog = make("dialog", { className: "form ask", role: "alertdialog", "aria-label": question },
    make("p", {}, question), make("div", { className: "form-row" }, keep, go));
  keep.addEventListener("click", () => dialog.close());
  go.addEventListener("click", () => dialog.close("yes"));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  showOver(dialog);
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(dialog.returnValue === "yes");
    });
  });
}
