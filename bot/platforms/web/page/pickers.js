// The controls of what is made: a row of pickers, and the options behind "more".

import { make } from "./dom.js";
import { showOver } from "./over.js";
import { say } from "./texts.js";

export const NAMES = {
  size: say("making_size"),
  count: say("making_count"),
  style: say("making_style"),
  seconds: say("making_seconds"),
  voice: say("making_voice"),
  speed: say("making_speed"),
  lyrics: say("making_lyrics"),
  guidance: say("making_guidance"),
  strength: say("making_strength"),
  steps: say("making_steps"),
  seed: say("making_seed"),
  negative: say("making_negative"),
};
const LONG = new Set(["lyrics", "negative"]);

/** Return a picker: [value, label] rows, of which one is chosen. `take` gets the value picked. */
export function picker(name, label, rows, value, take) {
  const select = make("select", { "aria-label": label, title: label },
    ...rows.map(([each, text]) => make("option", { value: each }, text)));
  select.value = value;
  select.addEventListener("change", () => take(select.value));
  return make("span", { className: value && name !== "kind" && name !== "model" ? "pick set" : "pick",
    "data-pick": name }, select);
}

/** Show pickers in a row. Those that have only other texts keep their nodes, focus and open list. */
export function update(row, pickers) {
  const before = new Map([...row.children].map((node) => [node.dataset.pick, node]));
  const focused = document.activeElement?.closest?.("[data-pick]")?.dataset.pick;
  const nodes = pickers.map((node) => renewed(before.get(node.dataset.pick), node));
  if (nodes.length === row.children.length && nodes.every((node, at) => node === row.children[at])) return;
  row.replaceChildren(...nodes);
  if (focused) row.querySelector(`[data-pick="${focused}"]`)?.firstElementChild.focus();
}

/** Return the node shown before with the texts of the new one, or the new one if it has other rows. */
function renewed(old, node) {
  const rows = (shown) => [...shown.querySelectorAll("option")].map((option) => option.value).join("\n");
  if (!old || rows(old) !== rows(node)) return node;
  old.className = node.className;
  const [kept, control] = [old.firstElementChild, node.firstElementChild];
  const pairs = kept.options ? [...kept.options].map((option, at) => [option, control.options[at]]) : [[kept, control]];
  for (const [shown, now] of pairs) {
    if (shown.textContent !== now.textContent) shown.textContent = now.textContent;
  }
  if (kept.options) kept.value = control.value;
  return old;
}

/** The options behind "more", as a form whose values are kept as they are typed. */
export class MoreDialog {
  constructor() {
    this.fields = make("div", { className: "sheet-fields" });
    const done = make("button", { type: "submit", className: "button main" }, say("making_done"));
    const clear = make("button", { type: "button", className: "button" }, say("making_clear"));
    const form = make("form", { noValidate: true },
      make("h2", { id: "making-title" }, say("making_options")), this.fields,
      make("div", { className: "form-row" }, clear, done));
    this.dialog = make("dialog", { className: "form sheet", "aria-labelledby": "making-title" }, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.reportValidity()) this.dialog.close();
    });
    clear.addEventListener("click", () => this.clear());
    document.body.append(this.dialog);
  }

  show(options, valueOf, take) {
    this.take = take;
    const ordered = [...options].sort((one, other) => LONG.has(one.name) - LONG.has(other.name));
    this.fields.replaceChildren(...ordered.map((option) => this.field(option, valueOf(option))));
    showOver(this.dialog);
  }

  clear() {
    for (const input of this.fields.querySelectorAll("input, textarea")) {
      input.value = "";
      this.take(input.name, "");
    }
  }

  field(option, value) {
    const id = `making-${option.name}`;
    const input = make(LONG.has(option.name) ? "textarea" : "input", {
      id, name: option.name, value, autocomplete: "off", "aria-describedby": `${id}-help` });
    if (option.kind === "whole" || option.kind === "decimal") {
      input.type = "number";
      if (option.least !== null) input.min = option.least;
      if (option.most !== null) input.max = option.most;
      input.step = option.kind === "whole" ? 1 : "any";
    }
    input.addEventListener("input", () => input.validity.valid && this.take(option.name, input.value.trim()));
    return make("div", { className: "field" },
      make("label", { htmlFor: id }, NAMES[option.name]), input,
      make("small", { id: `${id}-help` }, option.help));
  }
}
