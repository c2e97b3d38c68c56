// The queue of each model, drawn as a row of figures, and the form that loads a model.

import { drawBody } from "../../static/body.js";
import { byId, make } from "../../static/dom.js";
import { keyed, write, writeParts } from "../../static/keyed.js";
import { moment, range } from "../../static/moments.js";
import { tell } from "../../static/texts.js";
import { cancelButton } from "./hosts.js";
import { jobLink } from "./job.js";
import { button, hueOf, since, swatch } from "./nodes.js";

const DRAWN = 48; // figures per queue; more are shown as a number

export class QueueRow {
  constructor(queue, acts) {
    this.acts = acts;
    this.model = queue.model;
    this.chip = make("span", { className: "chip" });
    this.figures = make("span", { className: `figures ${hueOf(queue.model)}`, "aria-hidden": "true" });
    this.counts = make("span", { className: "counts" });
    this.times = make("dl", { className: "times" });
    this.reason = make("div", { className: "reason" });
    this.troubles = make("ul", { className: "troubles" });
    this.summary = make("summary", {});
    this.jobs = make("ul", { className: "rows" });
    this.more = make("p", { className: "dim none" });
    this.waiting = make("details", { className: "waiting" }, this.summary, this.jobs, this.more);
    this.pause = button("", "", () => this.togglePause());
    this.node = make("li", { className: "panel queue-of-model" },
      make("div", { className: "queue-head" }, swatch(queue.model), make("b", {}, queue.model), this.chip,
        this.counts, make("span", { className: "act-row" }, this.pause)),
      this.figures, this.times, this.reason, this.troubles, this.waiting);
  }

  togglePause() {
    const command = this.queue.paused ? "resume" : "pause";
    this.acts.perform(command, { values: { model: this.model }, said: { what: this.model } });
  }

  draw(queue) {
    this.queue = queue;
    const words = tell(queue.paused ? "resume" : "pause");
    write(this.pause, words);
    this.pause.setAttribute("aria-label", `${words}: ${queue.model}`);
    this.chip.hidden = !queue.paused;
    write(this.chip, tell("paused"));
    write(this.counts, isQuiet(queue) ? tell("no_work") : tell("line_counts", queue));
    this.drawFigures(queue);
    this.drawTimes(queue);
    this.reason.hidden = queue.because.length === 0;
    const told = JSON.stringify(queue.because);
    if (this.reason.told !== told) drawBody(this.reason, queue.because);
    this.reason.told = told;
    keyed(this.troubles, queue.troubles, (each) => each.backend, () => new TroubleRow());
    this.drawJobs(queue);
  }

  /** Draw a filled figure for each running job and an outlined one for each waiting job. */
  drawFigures({ running, waiting }) {
    const kinds = [...Array(running).fill("runs"), ...Array(waiting).fill("waits")].slice(0, DRAWN);
    this.figures.hidden = kinds.length === 0;
    const over = running + waiting - kinds.length;
    writeParts(this.figures, [...kinds, over], () => [
      ...kinds.map((kind) => make("i", { className: kind })),
      ...(over ? [make("em", {}, `+${over}`)] : []),
    ]);
  }

  drawTimes(queue) {
    const parts = [queue.waiting ? queue.oldest_at : null, queue.next_ends];
    writeParts(this.times, parts, ([oldest, ends]) => [
      ...fact(tell("oldest"), oldest && since(oldest)),
      ...fact(tell("next_done"), ends && range(ends)),
    ]);
    this.times.hidden = isQuiet(queue) || !parts.some(Boolean);
  }

  drawJobs(queue) {
    const { jobs, more } = queue;
    this.waiting.hidden = jobs.length === 0;
    write(this.summary, tell("waiting_jobs", { count: jobs.length + more }));
    keyed(this.jobs, jobs, (job) => job.job, (job) => new WaitingRow(job, this.acts));
    this.more.hidden = more === 0;
    write(this.more, tell("more_jobs", { count: more }));
  }
}

const fact = (name, value) => (value ? [make("div", {}, make("dt", {}, name), make("dd", {}, value))] : []);

/** Return whether a model has no jobs and no troubles. */
export const isQuiet = (queue) => queue.running + queue.waiting === 0 && queue.troubles.length === 0;

class TroubleRow {
  constructor() {
    this.node = make("li", {});
  }

  draw(trouble) {
    writeParts(this.node, [trouble], () => [
      tell("troubled", trouble), moment({ at: trouble.again_at }), ` · ${trouble.cause}`]);
  }
}

class WaitingRow {
  constructor(job, acts) {
    const said = { job: job.job };
    const first = button(tell("move_first"), `${tell("move_first")}: ${tell("job", said)}`,
      () => acts.perform("move", { job: job.job, values: { to: "first" }, said }));
    const lane = job.lane === "normal" ? "" : ` · ${tell("lane", job)}`;
    this.node = make("li", {}, jobLink(job.job),
      make("span", { className: "grow" }, `${job.name}${lane} · `, since(job.since)),
      first, cancelButton(job, acts));
  }

  draw() {} // a waiting job's row never changes
}

// ---------------------------------------------------------------- loading a model

export class Preload {
  constructor(acts) {
    write(byId("preload-model-label"), tell("preload_model"));
    write(byId("preload-host-label"), tell("preload_host"));
    write(byId("preload-go"), tell("preload"));
    byId("preload").addEventListener("submit", (event) => {
      event.preventDefault();
      const values = { model: byId("preload-model").value, host: byId("preload-host").value };
      acts.perform("preload", { values, said: { ...values, host: values.host || tell("any_host") } });
    });
  }

  draw(models, hosts) {
    choose(byId("preload-model"), models.map((name) => [name, name]));
    choose(byId("preload-host"), [["", tell("any_host")], ...hosts.map((name) => [name, name])]);
  }
}

/** Replace the choices, and keep the selected one. */
function choose(select, choices) {
  const told = JSON.stringify(choices);
  if (select.told === told) return;
  select.told = told;
  const chosen = select.value;
  select.replaceChildren(...choices.map(([value, words]) => make("option", { value }, words)));
  if (choices.some(([value]) => value === chosen)) select.value = chosen;
}
