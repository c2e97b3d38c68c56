// The history of the last hour, day or week, refreshed while it is visible.

import { byId, make } from "../../static/dom.js";
import { keyed, write, writeParts } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { duration, number, share } from "../../static/units.js";
import { Columns } from "./columns.js";
import { jobLink } from "./job.js";
import { choices, fetched, swatch } from "./nodes.js";
import { HostTime, KINDS, kindsOf, legend } from "./timeline.js";

const REFRESH_MS = { hour: 10_000, day: 60_000, week: 300_000 };
const RETRY_MS = 5_000; // while the history can't be read
const MODELS_SHOWN = 6;

export class History {
  constructor() {
    this.span = "hour";
    this.all = false;
    write(byId("spans-title"), tell("span"));
    const spans = { hour: tell("hour"), day: tell("day"), week: tell("week") };
    byId("spans").append(...choices("span", spans, this.span, (span) => {
      this.span = span;
      this.read();
    }));
    document.addEventListener("visibilitychange", () => this.read());
  }

  /** Stop refreshing. */
  stop() {
    this.over = true;
    clearTimeout(this.timer);
  }

  /** Read and draw the history, and schedule the next read while the page is visible. */
  async read() {
    clearTimeout(this.timer);
    if (document.hidden || this.over) return;
    const span = this.span;
    this.timer = setTimeout(() => this.read(), REFRESH_MS[span]);
    const hours = await fetched(`operator/hours/${span}`);
    if (span !== this.span || this.over) return;
    byId("hours-trouble").hidden = hours !== null;
    write(byId("hours-trouble"), hours === null ? tell("hours_trouble") : "");
    if (hours !== null) return this.draw(hours);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), RETRY_MS);
  }

  draw(hours) {
    this.hours = hours;
    byId("charts").dataset.begins = hours.begins;
    this.parts ??= this.build();
    const { hosts, models } = hours;
    const empty = models.length === 0 && hosts.every((host) => !host.segments.length && !host.shares.length);
    this.parts.empty.hidden = !empty;
    this.parts.body.hidden = empty;
    keyed(this.parts.hosts, hosts.map((host) => ({ ...host, hours })), (host) => host.name, (host) => new HostTime(host));
    this.drawLegend(hosts);
    const shown = this.all ? models : models.slice(0, MODELS_SHOWN);
    const withHours = shown.map((model) => ({ ...model, hours }));
    keyed(this.parts.models, withHours, (model) => model.name, (model) => new ModelTime(model));
    this.parts.more.hidden = shown.length === models.length;
    write(this.parts.more, tell("show_all_models", { all: number(models.length) }));
    this.drawLoads(hours);
    this.drawPromises(hours);
    this.drawErrors(hours.errors);
  }

  build() {
    const parts = {
      empty: make("p", { className: "panel dim" }, tell("hours_empty")),
      hosts: make("ul", { className: "panel host-times" }),
      legend: make("div", {}),
      models: make("ul", { className: "model-times" }),
      more: make("button", { type: "button", className: "plain" }),
      loads: new Columns(tell("loads_title"), tell("loads_over"), [["pale", tell("loads_head")], ["strong", tell("evictions_head")], ["bad", tell("failed_loads_head")]]),
      promised: make("p", { className: "big-share" }),
      promises: new Columns(tell("promises"), tell("promises_over"), [["pale", tell("given")], ["strong", tell("kept")]]),
      byModel: make("ul", { className: "met-by-model", "aria-label": tell("estimates_by_model") }),
      errors: make("ul", { className: "errors" }),
      noErrors: make("p", { className: "dim" }, tell("no_errors")),
    };
    parts.more.addEventListener("click", () => {
      this.all = true;
      this.draw(this.hours);
      parts.models.children[MODELS_SHOWN]?.querySelector(".stage").focus();
    });
    parts.body = make("div", {},
      make("h3", { className: "sub" }, tell("timeline")), parts.legend, parts.hosts,
      make("h3", { className: "sub" }, tell("models")), parts.models, parts.more,
      make("div", { className: "three" },
        make("div", { className: "panel" }, parts.loads.node),
        make("div", { className: "panel" }, parts.promised, parts.promises.node, parts.byModel),
        make("div", { className: "panel" }, make("h3", { className: "chart-title" }, tell("errors")), parts.errors, parts.noErrors)));
    byId("charts").append(parts.empty, parts.body);
    return parts;
  }

  drawLegend(hosts) {
    const ran = hosts.flatMap((host) => host.segments.filter((each) => each.kind === "run").flatMap((each) => each.models));
    const models = [...new Set(ran)].sort();
    const seen = new Set(hosts.flatMap(kindsOf));
    // If models have their own colours, running needs none.
    const kinds = KINDS.filter((kind) => seen.has(kind) && !(kind === "run" && models.length));
    const told = [...kinds, "", ...models].join("\n");
    if (this.legendOf === told) return;
    this.legendOf = told;
    this.parts.legend.replaceChildren(legend(models, [...kinds, "unrecorded"]));
  }

  drawLoads(hours) {
    const byTime = new Map();
    for (const step of hours.models.flatMap((model) => model.steps)) {
      const sum = byTime.get(step.at) ?? { at: step.at, loads: 0, evictions: 0, failed: 0 };
      sum.loads += step.loads;
      sum.evictions += step.evictions;
      sum.failed += step.failed_loads;
      byTime.set(step.at, sum);
    }
    this.parts.loads.draw(hours, [...byTime.values()].sort((one, other) => one.at - other.at), {
      bars: (step) => [{ height: step.loads, kind: "pale" }, { height: step.evictions, kind: "strong" }, { height: step.failed, kind: "bad" }],
      words: (step) => tell("step_loads", step),
      cells: (step) => [number(step.loads), number(step.evictions), number(step.failed)],
      scale: number,
    });
  }

  drawPromises(hours) {
    const { given, kept, steps } = hours.promises;
    const facts = given ? tell("promises_facts", { kept: number(kept), given: number(given) }) : tell("no_promises");
    this.parts.promised.replaceChildren(...(given ? [make("b", {}, share(kept / given)), " "] : []), make("span", { className: "dim" }, facts));
    const models = hours.models.filter((model) => model.given > 0);
    keyed(this.parts.byModel, models, (model) => model.name, (model) => new MetRow(model));
    this.parts.promises.draw(hours, steps, {
      bars: (step) => [{ height: step.given, kind: "pale" }, { height: step.kept, kind: "strong" }],
      words: (step) => tell("step_promises", step),
      cells: (step) => [number(step.given), number(step.kept)],
      scale: number,
    });
  }

  drawErrors(errors) {
    const most = Math.max(1, ...errors.map((error) => error.count));
    const rows = errors.map((error) => ({ ...error, part: error.count / most }));
    keyed(this.parts.errors, rows, (error) => `${error.cause} ${error.model}`, (error) => new ErrorRow(error));
    this.parts.noErrors.hidden = errors.length > 0;
  }
}

class ModelTime {
  constructor({ name }) {
    this.facts = make("p", { className: "dim facts" });
    this.jobs = new Columns(tell("done"), tell("throughput_of", { model: name }), [["strong", tell("done")], ["bad", tell("failed_head")], ["pale", tell("cancelled_head")]]);
    this.waits = new Columns(tell("waits"), tell("waits_of", { model: name }), [["strong", tell("median")], ["pale", tell("p95")]]);
    this.swatch = swatch(name);
    this.node = make("li", { className: "panel" },
      make("h4", {}, this.swatch, name), this.facts, this.jobs.node, this.waits.node);
  }

  draw(model) {
    const { hours } = model;
    this.swatch.className = swatch(model.name).className;
    this.node.className = `panel ${this.swatch.className.replace("swatch", "")}`;
    write(this.facts, modelFacts(model));
    write(this.jobs.heading, tell(`throughput.${hours.span}`));
    const ended = model.steps.filter((step) => step.done + step.failed + step.cancelled > 0);
    this.jobs.draw(hours, ended, {
      bars: (step) => [
        { height: step.done + step.cancelled + step.failed, kind: "bad" },
        { height: step.done + step.cancelled, kind: "pale" },
        { height: step.done, kind: "strong" },
      ],
      words: (step) => endedWords(step),
      cells: (step) => [number(step.done), number(step.failed), number(step.cancelled)],
      scale: number,
    });
    this.waits.draw(hours, model.steps.filter((step) => step.wait_median_s !== null), {
      bars: (step) => [{ height: step.wait_p95_s, kind: "pale" }, { height: step.wait_median_s, kind: "strong" }],
      words: (step) => tell("step_waits", { median: duration(step.wait_median_s), p95: duration(step.wait_p95_s) }),
      cells: (step) => [duration(step.wait_median_s), duration(step.wait_p95_s)],
      scale: duration,
    });
  }
}

/** Return the numbers of ended jobs; failed and cancelled ones only if there are any. */
function endedWords({ done, failed, cancelled }) {
  const told = [tell("done_jobs", { count: number(done) })];
  if (failed) told.push(tell("failed", { count: number(failed) }));
  if (cancelled) told.push(tell("cancelled", { count: number(cancelled) }));
  return told.join(", ");
}

function modelFacts(model) {
  const told = [endedWords(model)];
  if (model.wait_median_s !== null) {
    told.push(tell("wait_facts", { median: duration(model.wait_median_s), p95: duration(model.wait_p95_s) }));
    if (model.service_median_s !== null) told.push(tell("service_facts", { median: duration(model.service_median_s) }));
  }
  return told.join(" · ");
}

/** How often results of a model came within the time first said. */
class MetRow {
  constructor({ name }) {
    this.share = make("b", {});
    this.counts = make("span", { className: "dim" });
    this.node = make("li", {}, swatch(name), make("span", { className: "grow" }, name), this.counts, this.share);
  }

  draw({ given, kept }) {
    write(this.share, share(kept / given));
    write(this.counts, tell("step_promises", { kept: number(kept), given: number(given) }));
  }
}

class ErrorRow {
  constructor(error) {
    this.bar = make("span", { className: "error-bar", "aria-hidden": "true" });
    this.count = make("b", {});
    this.newest = make("span", { className: "dim" });
    this.told = make("span", { className: "error-told dim" });
    this.node = make("li", {}, make("span", { className: "grow" }, tell(`cause.${error.cause}`, {}, error.cause)),
      make("span", { className: "dim" }, error.model), this.newest, this.count, make("span", { className: "error-track" }, this.bar), this.told);
  }

  draw(error) {
    this.bar.style.width = `${100 * error.part}%`;
    write(this.count, number(error.count));
    writeParts(this.newest, [error.newest], ([job]) => (job ? [tell("newest_error"), jobLink(job)] : []));
    this.told.hidden = !error.told;
    write(this.told, error.told);
  }
}
