// Completion of the text being written: the choices, and the list that shows them.

import { announce, byId, make } from "./dom.js";
import { say } from "./texts.js";

// ---------------------------------------------------------------- which parameter is being typed

/** Return a command's usage. */
export const usage = (command) =>
  [`/${command.name}`, ...command.params.filter((param) => param.positional).map(slot)].join(" ");

function slot(param) {
  const own = param.kind === "choice" ? [] : [param.name];
  const named = [...own, ...param.choices].join("|");
  if (!param.required) return `[${named}]`;
  return !own.length && param.choices.length === 1 ? named : `<${named}>`;
}

/** Return the parameter at the end of a text, the part typed so far, and where that part starts. */
export function paramAt(text, commands) {
  const words = text.split(/\s+/);
  const command = commands.find((known) => `/${known.name}` === words[0]);
  if (!command || words.length < 2) return null;
  const typed = words.at(-1);
  const from = text.length - typed.length;
  if (typed.startsWith("--")) return { command, typed, from, param: { kind: "option" } };
  const named = /^--([\w-]+)$/.exec(words.at(-2))?.[1];
  const param = named
    ? command.params.find((known) => known.name === named)
    : command.params.filter((known) => known.positional)[words.length - 2];
  return param ? { command, typed, from, param } : null;
}

/** Return the choices for the name of an option. */
export function optionChoices({ command, typed }, from) {
  return command.params
    .filter((param) => !param.positional && !["image", "sound"].includes(param.kind) && `--${param.name}`.startsWith(typed))
    .filter((param) => `--${param.name}` !== typed)
    .map((param) => ({ value: `--${param.name}`, help: param.help, from, after: " " }));
}

// ---------------------------------------------------------------- the list of choices

/** A listbox above the text field. The field keeps the focus and points to the active choice. */
export class Choices {
  constructor(text, take) {
    this.text = text;
    this.take = take;
    this.list = byId("choices");
    this.list.setAttribute("aria-label", say("commands"));
    this.list.tabIndex = 0; // the arrow keys scroll it; Tab in the text field takes a choice instead
    this.rows = [];
    // Pressing a choice must not move the focus out of the text field.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  /** Show rows. The marked row stays marked, because suggestions may arrive between two key presses. */
  show(rows, choose) {
    const marked = this.rows[this.at]?.value;
    // A multi-line field cannot announce that a list has opened, so the page does.
    if (rows.length && !this.rows.length) announce(say("choices", { count: rows.length }));
    this.rows = rows;
    this.list.hidden = rows.length === 0;
    this.list.replaceChildren(...rows.map((row, index) => this.rowNode(row, index)));
    const kept = rows.findIndex((row) => row.value === marked);
    this.mark(kept < 0 && choose && rows.length ? 0 : kept);
  }

  hide() {
    if (!this.list.hidden) this.show([], false);
  }

  rowNode(row, index) {
    const node = make("li", { role: "option", id: `choice-${index}`, "aria-selected": "false" },
      make("span", { className: "value" }, row.value), make("span", { className: "help" }, row.help));
    node.addEventListener("click", () => this.take(row));
    return node;
  }

  mark(index) {
    this.at = index;
    [...this.list.children].forEach((node, at) => node.setAttribute("aria-selected", String(at === index)));
    if (index >= 0) {
      this.text.setAttribute("aria-activedescendant", `choice-${index}`);
      this.list.children[index].scrollIntoView({ block: "nearest" });
    } else {
      this.text.removeAttribute("aria-activedescendant");
    }
  }

  /** Handle a key; return false if it is not for the list. Enter is only if a choice is marked. */
  key(event) {
    const count = this.rows.length;
    if (!count) return false;
    if (event.key === "ArrowDown") this.mark((this.at + 1) % count);
    else if (event.key === "ArrowUp") this.mark(this.at <= 0 ? count - 1 : this.at - 1);
    else if (event.key === "Escape") this.hide();
    else if (event.key === "Tab" && !event.shiftKey) this.take(this.rows[Math.max(this.at, 0)]);
    else if (event.key === "Enter" && !event.shiftKey && this.at >= 0) this.take(this.rows[this.at]);
    else return false;
    return true;
  }
}
