// The timeline of a host: when it ran jobs, loaded models, was idle, rested, slept or was down.

import { make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { between, duration, moment, number, share } from "../../static/units.js";
import { Explorer, axis, table } from "./explore.js";
import { draw, hueOf, swatch } from "./nodes.js";

const HEIGHT = 44;
const WHOLE = 0.95; // of a span, because the record ends with the last full minute
export const KINDS = ["run", "load", "idle", "quiet", "yielding", "paused", "asleep", "down"];
// The heights of the activities, so that they can be distinguished without colours.
const TALL = { run: 44, load: 26, idle: 5, quiet: 9, yielding: 18, paused: 14, asleep: 9, down: 12 };

export class HostTime {
  constructor(host) {
    this.name = host.name;
    const label = tell("timeline_of", { host: host.name });
    this.chart = new Explorer(label, HEIGHT);
    this.busy = make("b", { className: "busy" });
    this.facts = make("span", { className: "dim facts" });
    this.table = table(label, [tell("time"), tell("state"), tell("model")], () => this.cells());
    this.axis = make("div", {});
    this.node = make("li", { className: "host-time" },
      make("div", { className: "chart-head" }, make("b", { className: "host-name" }, host.name), this.busy, this.facts, this.chart.told),
      this.chart.stage, this.axis, this.table.node);
  }

  draw(host) {
    const { hours } = host;
    write(this.busy, tell("busy", { share: share(host.busy) }));
    const facts = [tell("host_facts", { loads: number(host.loads), evictions: number(host.evictions) })];
    // Show the recorded time, because two busy minutes after a start are not a busy hour.
    if (host.recorded_s < WHOLE * (hours.ends - hours.begins)) facts.unshift(tell("recorded", { time: duration(host.recorded_s) }));
    if (host.failed_loads) facts.push(tell("failed_loads", { count: number(host.failed_loads) }));
    write(this.facts, facts.join(" · "));
    this.axis.replaceChildren(axis(hours.begins, hours.ends, (at) => moment(at, hours.span)));
    if (host.segments.length) this.drawSegments(host.segments, hours);
    else this.drawShares(host.shares, hours);
    this.table.fill();
  }

  drawSegments(segments, { begins, ends, span }) {
    const at = (moment) => (1000 * (moment - begins)) / (ends - begins);
    const nodes = segments.flatMap((segment) => {
      const x = Math.max(0, at(segment.begins));
      const width = Math.max(0.6, Math.min(1000, at(segment.ends)) - x);
      const tall = TALL[segment.kind];
      const models = segment.kind === "run" && segment.models.length ? segment.models : [null];
      return models.map((model, row) => draw("rect", {
        x, width, y: HEIGHT - tall + (row * tall) / models.length, height: tall / models.length,
        class: model === null ? segment.kind : `run ${hueOf(model)}`,
      }));
    });
    nodes.unshift(...recorded(segments).map((each) => ground(at(each.begins), at(each.ends))));
    const stepS = (ends - begins) / 120;
    const kindsAt = (place) => segments.filter((each) => each.begins < begins + (place + 1) * stepS && each.ends > begins + place * stepS);
    this.chart.fill(nodes, 120, (place) => {
      const told = [...new Set(kindsAt(place).map(segmentWords))];
      const time = between(begins + place * stepS, begins + (place + 1) * stepS, span);
      return `${time} · ${told.join(", ") || tell("unrecorded")}`;
    });
    this.cells = () => segments.map((each) => [between(each.begins, each.ends, span), tell(kindWord(each.kind)), each.models.join(", ")]).reverse();
  }

  drawShares(shares, { begins, ends, step_s: stepS, span }) {
    const count = Math.max(1, Math.round((ends - begins) / stepS));
    const byPlace = new Map(shares.map((each) => [Math.round((each.at - begins) / stepS), each]));
    const nodes = [...byPlace].flatMap(([place, each]) => {
      let foot = HEIGHT;
      const parts = KINDS.filter((kind) => each[kind] > 0).map((kind) => {
        const height = each[kind] * HEIGHT;
        foot -= height;
        return draw("rect", { x: (1000 * place) / count, width: 1000 / count + 0.3, y: foot, height, class: kind });
      });
      return [ground((1000 * place) / count, (1000 * (place + 1)) / count), ...parts];
    });
    const words = (each) => KINDS.filter((kind) => each[kind] >= 0.005).map((kind) => `${share(each[kind])} ${tell(kindWord(kind))}`).join(", ");
    const time = (place) => between(begins + place * stepS, begins + (place + 1) * stepS, span);
    this.chart.fill(nodes, count, (place) => `${time(place)} · ${byPlace.has(place) ? words(byPlace.get(place)) : tell("unrecorded")}`);
    this.cells = () => [...byPlace].map(([place, each]) => [time(place), words(each), ""]).reverse();
  }
}

/** Return the ranges that the segments cover without gaps. */
function recorded(segments) {
  const found = [];
  for (const { begins, ends } of segments) {
    if (found.length && begins - found.at(-1).ends < 1) found.at(-1).ends = ends;
    else found.push({ begins, ends });
  }
  return found;
}

/** Cover the marks of unrecorded time. */
function ground(from, to) {
  const x = Math.max(0, from);
  return draw("rect", { x, width: Math.max(0, Math.min(1000, to) - x) + 0.3, y: 0, height: HEIGHT, class: "recorded" });
}

const kindWord = (kind) => (kind === "down" ? "offline" : kind);

/** Return the kinds that a host's hours contain. */
export const kindsOf = ({ segments, shares }) =>
  KINDS.filter((kind) => segments.some((each) => each.kind === kind) || shares.some((each) => each[kind] > 0));

const segmentWords = ({ kind, models }) => [tell(kindWord(kind)), models.join(", ")].filter(Boolean).join(" ");

/** Make the legend: the activities, and the models that ran. */
export function legend(models, kinds = [...KINDS, "unrecorded"]) {
  const ofKind = (kind) => make("li", {}, make("span", { className: `swatch kind-${kind}`, "aria-hidden": "true" }), tell(kindWord(kind)));
  const ofModel = (model) => make("li", {}, swatch(model), model);
  return make("ul", { className: "legend" }, ...kinds.map(ofKind), ...models.map(ofModel));
}
