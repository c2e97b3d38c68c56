// The status: one's waiting and running jobs, and the GPUs with what is in their memory.

import { drawBody } from "./body.js";
import { make } from "./dom.js";
import { keyed, write } from "./keyed.js";
import { say } from "./texts.js";

export class StatusPanel {
  constructor(on) {
    this.on = on;
    this.jobs = make("ul", { className: "panel-list" });
    this.idle = make("p", { className: "dim", hidden: true }, say("panel_no_jobs"));
    this.more = make("p", { className: "dim", hidden: true });
    this.hosts = make("ul", { className: "panel-list" });
    this.node = make("div", {},
      make("h2", {}, say("panel_jobs")), this.jobs, this.idle, this.more,
      make("h2", {}, say("panel_gpus")), this.hosts);
  }

  draw({ jobs, more, hosts }) {
    keyed(this.jobs, jobs, (job) => job.job, (job) => new JobCard(job, this.on));
    this.idle.hidden = jobs.length > 0;
    this.more.hidden = more === 0;
    write(this.more, say("panel_more_jobs", { count: more }));
    keyed(this.hosts, hosts, (host) => host.name, () => new GpuCard());
  }
}

class JobCard {
  constructor({ job, model, words }, on) {
    this.told = make("div", {});
    this.bar = make("progress", { className: "bar", max: 1, "aria-label": say("panel_progress", { job }) });
    this.answer = make("div", { className: "panel-answer refused", role: "status", hidden: true });
    const cancel = make("button", { type: "button", className: "button danger", "aria-label": say("panel_cancel", { job }) }, say("cancel"));
    cancel.addEventListener("click", async () => {
      cancel.setAttribute("aria-busy", "true");
      const { body, refused } = await on.act("cancel", { job });
      cancel.removeAttribute("aria-busy");
      drawBody(this.answer, refused ? body : []);
      on.soon();
    });
    this.node = make("li", { className: "panel-card" },
      make("div", { className: "panel-head" }, make("b", {}, `#${job}`), make("span", { className: "dim" }, model), cancel),
      make("p", {}, words), this.told, this.bar, this.answer);
  }

  draw({ told, running, fraction }) {
    const words = JSON.stringify(told);
    if (this.words !== words) drawBody(this.told, told);
    this.words = words;
    this.bar.hidden = !running;
    if (fraction === null) this.bar.removeAttribute("value");
    else this.bar.value = fraction;
  }
}

class GpuCard {
  constructor() {
    this.told = make("div", {});
    this.used = make("span", {});
    this.budget = make("i", {});
    this.copies = make("ul", { className: "panel-copies" });
    this.servers = make("div", { className: "dim panel-servers" });
    this.node = make("li", { className: "panel-card" }, this.told,
      make("div", { className: "panel-memory", "aria-hidden": "true" }, this.used, this.budget), this.copies, this.servers);
  }

  draw(host) {
    const words = JSON.stringify([host.told, host.servers]);
    if (this.words !== words) {
      drawBody(this.told, host.told);
      drawBody(this.servers, host.servers.flat());
    }
    this.words = words;
    const most = Math.max(host.total_mb, host.used_mb, 1);
    this.used.style.width = `${(100 * host.used_mb) / most}%`;
    this.budget.style.left = `${(100 * host.usable_mb) / most}%`;
    keyed(this.copies, host.copies, (copy) => `${copy.model} ${copy.backend}`, (copy) => new Copy(copy));
  }
}

class Copy {
  constructor({ model }) {
    this.state = make("span", { className: "dim" });
    this.node = make("li", {}, make("span", { className: "dot", "aria-hidden": "true" }), make("b", {}, model), this.state);
  }

  draw({ state, ahead, running, pinned }) {
    this.node.dataset.memory = state === "unloading" ? "absent" : state;
    const words = { loading: ahead ? say("panel_loading_ahead") : say("model_loading"), unloading: say("panel_unloading"), ready: say("model_ready") }[state];
    write(this.state, [words, pinned ? say("panel_pinned") : "", running ? say("panel_running", { count: running }) : ""].filter(Boolean).join(" · "));
  }
}
