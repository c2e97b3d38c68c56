// Explores a chart step by step, by pointer or arrow keys, and shows the text of each step.

import { make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { draw } from "./nodes.js";

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

/** A chart with a cursor. For screen readers it is a slider that announces each step. */
export class Explorer {
  /** `height` is in pixels. The width is 1000 units, stretched to the available space. */
  constructor(label, height) {
    this.image = draw("svg", { viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", class: "chart" });
    this.image.style.height = `${height}px`;
    this.cursor = make("span", { className: "cursor", hidden: true });
    this.told = make("span", { className: "told" });
    this.stage = make("div", {
      className: "stage", role: "slider", tabIndex: 0, "aria-label": `${label}; ${tell("explore")}`,
      "aria-valuemin": 0, "aria-orientation": "horizontal",
    }, this.image, this.cursor);
    this.label = label;
    this.stage.addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("pointermove", (event) => this.point(event));
    this.stage.addEventListener("pointerdown", (event) => this.point(event));
    this.stage.addEventListener("pointerleave", () => this.leave());
    this.stage.addEventListener("blur", () => this.leave());
    this.stage.addEventListener("focus", () => this.at ?? this.go(this.count - 1));
    this.at = null;
  }

  /** Replace the content: the nodes, the number of steps, and the function for each step's text. */
  fill(nodes, count, wordsOf) {
    this.image.replaceChildren(...nodes);
    this.count = count;
    this.wordsOf = wordsOf;
    this.stage.setAttribute("aria-valuemax", Math.max(0, count - 1));
    const at = this.at === null ? count - 1 : Math.min(this.at, count - 1);
    this.stage.setAttribute("aria-valuenow", Math.max(0, at));
    if (this.at === null) this.stage.setAttribute("aria-valuetext", count ? wordsOf(at) : "");
    else this.go(at);
  }

  key(event) {
    const from = this.at ?? this.count - 1;
    const to = { Home: 0, End: this.count - 1 }[event.key] ?? (event.key in STEPS ? from + STEPS[event.key] : null);
    if (to === null || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.go(to);
  }

  point(event) {
    const box = this.stage.getBoundingClientRect();
    this.go(Math.floor(((event.clientX - box.left) / box.width) * this.count));
  }

  go(to) {
    if (!this.count) return;
    this.at = Math.min(Math.max(0, to), this.count - 1);
    const words = this.wordsOf(this.at);
    write(this.told, words);
    this.stage.setAttribute("aria-valuenow", this.at);
    this.stage.setAttribute("aria-valuetext", words);
    this.cursor.hidden = false;
    this.cursor.style.left = `${(100 * this.at) / this.count}%`;
    this.cursor.style.width = `${100 / this.count}%`;
  }

  leave() {
    if (this.stage === document.activeElement) return;
    this.at = null;
    this.cursor.hidden = true;
    write(this.told, "");
  }
}

/** Make the time axis of a chart: the first, the last, and some times between. */
export function axis(begins, ends, words, marks = 4) {
  const labels = Array.from({ length: marks + 1 }, (_, at) => {
    const label = make("span", {}, words(begins + ((ends - begins) * at) / marks));
    label.style.left = `${(100 * at) / marks}%`;
    return label;
  });
  return make("div", { className: "axis", "aria-hidden": "true" }, ...labels);
}

/** Make a table with a chart's data. Its rows are created when it is opened. */
export function table(caption, heads, rows) {
  const body = make("tbody");
  const details = make("details", { className: "as-table" }, make("summary", { "aria-label": `${tell("as_table")}: ${caption}` }, tell("as_table")),
    make("div", { className: "table-room", tabIndex: 0, role: "region", "aria-label": caption }, make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), body)));
  const part = { node: details, rows, fill: () => details.open && body.replaceChildren(...part.rows().map((row) =>
    make("tr", {}, ...row.map((cell, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, cell))))) };
  details.addEventListener("toggle", () => part.fill());
  return part;
}
