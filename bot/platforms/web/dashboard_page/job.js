// What happened to one job, in a dialog. The address names it, so that it can be linked.

import { byId, make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { when } from "../../static/units.js";

const NAMED = /^#job\/(\d{1,15})$/;

/** Make a link to a job. */
export const jobLink = (job) => make("a", { href: `#job/${job}`, className: "job-link" }, `#${job}`);

export class JobDialog {
  constructor() {
    this.dialog = byId("job");
    write(byId("job-close"), tell("close"));
    byId("job-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => NAMED.test(location.hash) && history.replaceState(null, "", "#now"));
    addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  /** Show the job that the address names. */
  async follow() {
    const job = NAMED.exec(location.hash)?.[1];
    if (!job) return this.dialog.close();
    const answer = await fetch(`operator/jobs/${job}`).catch(() => null);
    const found = answer?.ok ? await answer.json().catch(() => null) : null;
    if (NAMED.exec(location.hash)?.[1] !== job) return undefined; // another one was named meanwhile
    write(byId("job-title"), tell("job_title", { job }));
    byId("job-facts").replaceChildren(...(found ? facts(found) : []));
    write(byId("job-told"), found ? found.told : tell(answer?.status === 404 ? "job_gone" : "job_unread"));
    byId("job-told").classList.toggle("bad", Boolean(found?.told));
    if (!this.dialog.open) this.dialog.showModal();
    return byId("job-close").focus();
  }
}

function facts(job) {
  const told = [
    [tell("model"), job.model], [tell("job_person"), job.name], [tell("state"), tell(`job_state.${job.state}`)],
    [tell("job_lane"), job.lane], [tell("job_accepted"), when(job.since)],
    [tell("job_began"), job.began && when(job.began)], [tell("job_ended"), job.ended && when(job.ended)],
    [tell("job_server"), job.backend], [tell("job_attempts"), job.attempt > 1 && String(job.attempt)],
  ];
  return told.filter(([, value]) => value).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
}
