// Column charts over time: each step has a pale column behind a strong one, such as p95 and median.

import { make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { moment } from "../../static/units.js";
import { Explorer, table } from "./explore.js";
import { draw } from "./nodes.js";

const HEIGHT = 64;
const ROOM = 4; // space above the highest column

export class Columns {
  /** `title` is shown above the chart, and `label` is for screen readers. `heads` are the columns of
   *  the table, as pairs of the bars' class and a name. */
  constructor(title, label, heads) {
    this.chart = new Explorer(label, HEIGHT);
    this.most = make("span", { className: "most dim" });
    this.table = table(label, [tell("time"), ...heads.map(([, words]) => words)], () => this.cells());
    this.heading = make("span", { className: "chart-title" }, title);
    const keys = heads.map(([kind, words]) => make("span", {}, make("i", { className: kind }), words));
    this.node = make("div", { className: "columns" },
      make("div", { className: "chart-head" }, this.heading, make("span", { className: "keys", "aria-hidden": "true" }, ...keys),
        this.most, this.chart.told), this.chart.stage, this.table.node);
  }

  /** Draw the steps of a history. `bars(step)` returns heights with classes from back to front,
   *  `words(step)` its text, and `cells(step)` its row in the table. */
  draw({ begins, ends, step_s: stepS, span }, steps, { bars, words, cells, scale }) {
    const count = Math.max(1, Math.round((ends - begins) / stepS));
    const byPlace = new Map(steps.map((step) => [Math.round((step.at - begins) / stepS), step]));
    const most = Math.max(0, ...steps.flatMap((step) => bars(step).map((bar) => bar.height)));
    const nodes = [draw("line", { x1: 0, x2: 1000, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5, class: "ground" })];
    for (const [place, step] of byPlace) {
      for (const bar of bars(step)) {
        if (!(bar.height > 0)) continue;
        const height = Math.max(1.5, (bar.height / most) * (HEIGHT - ROOM));
        nodes.push(draw("rect", {
          x: ((place + 0.12) * 1000) / count, width: 760 / count, y: HEIGHT - height, height, class: bar.kind,
        }));
      }
    }
    write(this.most, most > 0 ? tell("at_most", { value: scale(most) }) : "");
    const timeOf = (place) => moment(begins + place * stepS, span);
    this.chart.fill(nodes, count, (place) => {
      const step = byPlace.get(place);
      return `${timeOf(place)} · ${step ? words(step) : tell("step_none")}`;
    });
    this.cells = () => [...byPlace].map(([place, step]) => [timeOf(place), ...cells(step)]).reverse();
    this.table.fill();
  }
}
