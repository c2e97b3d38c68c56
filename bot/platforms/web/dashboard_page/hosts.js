// Hosts: each is a GPU with a memory bar, its servers, and its running jobs.

import { drawBody } from "../../static/body.js";
import { make } from "../../static/dom.js";
import { keyed, write, writeParts } from "../../static/keyed.js";
import { moment, range } from "../../static/moments.js";
import { tell } from "../../static/texts.js";
import { share, size, when } from "../../static/units.js";
import { jobLink } from "./job.js";
import { button, hueOf, pin, swatch } from "./nodes.js";

let hostsMade = 0;
const NARROWEST = 0.09; // of the bar; narrower pieces have no room for a name

export class HostGpu {
  constructor(host, acts) {
    this.acts = acts;
    this.name = host.name;
    const id = `host-${++hostsMade}`; // a name may contain characters that an id cannot
    this.mode = make("span", { className: "chip" });
    this.used = make("span", { className: "used" });
    this.pause = button("", "", () => this.togglePause());
    this.drain = button(tell("drain"), `${tell("drain")}: ${host.name}`,
      () => acts.perform("drain", { values: { host: this.name }, said: { host: this.name } }));
    this.rest = make("div", { className: "reason" });
    this.awake = make("p", { className: "reason" });
    this.unmeasured = make("p", { className: "reason" });
    this.bar = make("div", { className: "bar-of-memory", role: "img" });
    this.copies = make("ul", { className: "rows", "aria-label": tell("copies") });
    this.running = make("ul", { className: "rows", "aria-label": tell("running_jobs") });
    this.servers = make("ul", { className: "rows servers", "aria-label": tell("servers") });
    this.nothing = make("p", { className: "dim none" }, tell("nothing_runs"));
    this.node = make("article", { className: "panel host", "aria-labelledby": id },
      make("header", {}, make("h3", { id }, host.name), this.mode, this.used,
        make("span", { className: "act-row" }, this.pause, this.drain)),
      this.rest, this.awake, this.unmeasured, this.bar, this.copies, this.running, this.nothing, this.servers);
  }

  togglePause() {
    const command = works(this.host) ? "pause" : "resume";
    this.acts.perform(command, { values: { host: this.name }, said: { what: this.name } });
  }

  draw(host) {
    this.host = host;
    this.node.dataset.mode = host.mode;
    write(this.mode, tell(host.mode));
    this.drawRest(host);
    const { unmeasured_since: since } = host;
    this.unmeasured.hidden = !since;
    writeParts(this.unmeasured, [since], ([at]) => (at ? [tell("unmeasured"), moment({ at })] : []));
    const words = tell(works(host) ? "pause" : "resume");
    write(this.pause, words);
    this.pause.setAttribute("aria-label", `${words}: ${host.name}`);
    const { memory } = host;
    const used = memory.resident_mb + memory.loading_mb + memory.foreign_mb;
    write(this.used, tell("memory", { used: size(used), total: size(memory.total_mb) }));
    this.drawBar(host);
    keyed(this.copies, host.copies, (copy) => `${copy.model} ${copy.backend}`, (copy) => new CopyRow(copy, this));
    keyed(this.running, host.running, (job) => job.job, (job) => new JobRow(job, this.acts));
    this.nothing.hidden = host.running.length > 0;
    const sleeps = host.mode === "asleep" || host.mode === "waking";
    const servers = host.servers.map((server) => ({ ...server, sleeps: sleeps && !server.up }));
    keyed(this.servers, servers, (server) => server.name, (server) => new ServerRow(server));
  }

  /** Show why the host rests although no admin paused it, or works although it would rest. */
  drawRest({ rest, awake_until: until }) {
    this.rest.hidden = rest.length === 0;
    if (this.rest.told !== JSON.stringify(rest)) drawBody(this.rest, rest);
    this.rest.told = JSON.stringify(rest);
    this.awake.hidden = !until;
    writeParts(this.awake, [until], ([at]) => (at ? [tell("awake"), moment({ at, clock: true })] : []));
  }

  drawBar({ name, memory, copies }) {
    const whole = Math.max(memory.total_mb, memory.resident_mb + memory.loading_mb + memory.foreign_mb, 1);
    const parts = copies.filter((copy) => copy.mb > 0).map((copy) => ({
      key: `${copy.model} ${copy.backend}`, mb: copy.mb, kind: copy.state, hue: hueOf(copy.model),
      name: copy.model, pinned: copy.pinned, told: `${copy.model} ${size(copy.mb)}, ${copyState(copy)}`,
    }));
    for (const kind of ["foreign", "free"]) {
      const mb = memory[`${kind}_mb`];
      const told = `${tell(kind)} ${size(mb)}`;
      if (mb > 0) parts.push({ key: `/${kind}`, mb, kind, hue: "", name: tell(kind), told });
    }
    const limit = tell("usable", { size: size(memory.usable_mb) });
    this.bar.setAttribute("aria-label", tell("memory_of", { host: name, parts: [...parts.map((part) => part.told), limit].join("; ") }));
    keyed(this.bar, parts.map((part) => ({ ...part, wide: part.mb / whole })), (part) => part.key, () => new Piece());
    this.mark ??= this.bar.parentNode.insertBefore(make("div", { className: "limit", "aria-hidden": "true" }), this.bar.nextSibling);
    this.mark.style.setProperty("--at", `${(100 * memory.usable_mb) / whole}%`);
    write(this.mark, limit);
    this.mark.dataset.side = memory.usable_mb / whole > 0.5 ? "left" : "right";
  }
}

/** Return whether jobs may start on a host. */
const works = (host) => host.mode === "open" || host.mode === "asleep" || host.mode === "waking";

/** A piece of the bar: a model, other programs' memory, or free memory. */
class Piece {
  constructor() {
    this.words = make("span", {});
    this.node = make("span", {}, this.words);
  }

  draw(part) {
    this.node.className = `piece ${part.hue}`;
    this.node.dataset.kind = part.kind;
    this.node.title = part.told;
    this.node.style.flexGrow = String(part.mb);
    write(this.words, part.wide < NARROWEST ? "" : part.name);
    this.node.classList.toggle("pinned", Boolean(part.pinned));
  }
}

class CopyRow {
  constructor(copy, gpu) {
    const said = { model: copy.model, host: gpu.name };
    this.state = make("span", { className: "grow dim" });
    this.pin = make("span", { className: "pin-place", title: tell("pinned") }, pin());
    this.unload = button(tell("unload"), tell("said.unload", said),
      () => gpu.acts.perform("unload", { values: said, said }));
    this.node = make("li", {}, swatch(copy.model), make("b", {}, copy.model), this.pin, this.state, this.unload);
  }

  draw(copy) {
    this.pin.hidden = !copy.pinned;
    const words = [size(copy.mb), copyState(copy)];
    if (copy.running) words.push(tell("copy_running", { count: copy.running }));
    const parts = [words.join(" · "), copy.state === "loading" ? copy.ready_at : null];
    writeParts(this.state, parts, ([text, at]) =>
      at ? [text, " · ", tell("ready_at"), moment({ at })] : [text]);
    this.unload.hidden = copy.state === "unloading";
  }
}

const copyState = (copy) => [tell(copy.ahead ? "loading_ahead" : copy.state), copy.pinned ? tell("pinned") : ""].filter(Boolean).join(", ");

class JobRow {
  constructor(job, acts) {
    this.bar = make("progress", { className: "bar", max: 1, "aria-label": tell("progress_of", { job: job.job }) });
    this.share = make("span", { className: "dim share" });
    this.done = make("span", { className: "dim" });
    this.node = make("li", { className: "job" }, swatch(job.model),
      make("span", { className: "grow" }, jobLink(job.job), ` ${job.model} · ${job.name}`),
      cancelButton(job, acts), make("span", { className: "advance" }, this.bar, this.share, this.done));
  }

  draw(job) {
    if (job.fraction === null) this.bar.removeAttribute("value");
    else this.bar.value = job.fraction;
    write(this.share, job.fraction === null ? "" : share(job.fraction));
    writeParts(this.done, [job.ends], ([ends]) => (ends ? [tell("done_at"), range(ends)] : []));
  }
}

/** Make the button that cancels a job. It asks first, because the job's work is lost. */
export function cancelButton(job, acts) {
  const { job: number, model, name } = job;
  const ask = () => acts.ask({
    title: tell("confirm_cancel", { job: number }),
    text: tell("confirm_cancel_text", { model, name }),
    yes: tell("cancel_job"),
  }, "cancel", { job: number, said: { job: number } });
  return button(tell("cancel"), tell("said.cancel", { job: number }), ask, true);
}

class ServerRow {
  constructor(server) {
    this.state = make("span", { className: "grow dim" });
    this.node = make("li", {}, make("span", { className: "dot", "aria-hidden": "true" }),
      make("b", {}, server.name), this.state);
  }

  draw(server) {
    const away = server.error === null ? "unasked" : "down";
    const state = server.sleeps ? "asleep" : server.up ? "up" : away;
    this.node.dataset.state = state;
    const since = tell(state) + (state === "up" || state === "down" ? when(server.since) : "");
    const told = [server.description || server.kind, since];
    if (state === "down" && server.error) told.push(server.error);
    write(this.state, told.join(" · "));
  }
}
