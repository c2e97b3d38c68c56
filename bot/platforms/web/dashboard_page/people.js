// People: GPU time, open jobs and limits by person, and the newest admin actions.

import { byId, make } from "../../static/dom.js";
import { keyed, write, writeParts } from "../../static/keyed.js";
import { moment } from "../../static/moments.js";
import { tell } from "../../static/texts.js";
import { duration, number, when } from "../../static/units.js";
import { button, choices, fetched } from "./nodes.js";

const SHOWN = 10;
const ACTS_SHOWN = 12;
const REFRESH_MS = 10_000;

export class People {
  constructor(acts) {
    this.acts = acts;
    this.all = false;
    write(byId("acts-title"), tell("acts"));
    this.span = "today";
    write(byId("people-spans-title"), tell("span"));
    const spans = { today: tell("today"), day: tell("day"), two_days: tell("two_days") };
    byId("people-spans").append(...choices("people-span", spans, this.span, (span) => {
      this.span = span;
      this.read();
    }));
    document.addEventListener("visibilitychange", () => this.read());
    write(byId("people-none"), tell("people_none"));
    write(byId("acts-none"), tell("acts_none"));
    byId("people-all").addEventListener("click", () => {
      this.all = true;
      this.drawPeople(this.last);
      byId("people-list").parts.get(this.last.people[SHOWN].user)?.act.focus();
    });
  }

  /** Draw what the server sends by itself: today, and the admin log. */
  draw(body) {
    this.today = body;
    if (this.span === "today") this.drawPeople(body);
    const acts = body.acts.slice(0, ACTS_SHOWN).map((act) => ({ ...act, key: `${act.at} ${act.actor} ${act.action} ${act.subject}` }));
    keyed(byId("act-list"), acts, (act) => act.key, (act) => new ActRow(act));
    byId("acts-none").hidden = acts.length > 0;
  }

  /** Stop reading. */
  stop() {
    this.over = true;
    clearTimeout(this.timer);
  }

  /** Read and draw another span than today, and again later while the page is visible. */
  async read() {
    clearTimeout(this.timer);
    const span = this.span;
    if (this.over || document.hidden) return;
    if (span === "today") return this.today && this.drawPeople(this.today);
    this.timer = setTimeout(() => this.read(), REFRESH_MS);
    const body = await fetched(`operator/people/${span}`);
    if (body && span === this.span && !this.over) this.drawPeople(body);
  }

  drawPeople(body) {
    this.last = body;
    const { people, more } = body;
    const most = Math.max(1, ...people.map((person) => person.gpu_s));
    const shown = this.all ? people : people.slice(0, SHOWN);
    const rows = shown.map((person) => ({ ...person, part: person.gpu_s / most }));
    keyed(byId("people-list"), rows, (person) => person.user, (person) => new PersonRow(person, this.acts));
    byId("people-none").hidden = people.length > 0;
    byId("people-all").hidden = shown.length === people.length && more === 0;
    byId("people-all").disabled = shown.length === people.length;
    write(byId("people-all"), shown.length < people.length
      ? tell("show_all_people", { count: number(people.length + more) })
      : tell("more_people", { count: number(more) }));
  }
}

class PersonRow {
  constructor(person, acts) {
    this.acts = acts;
    this.bar = make("span", { className: "gpu-bar", "aria-hidden": "true" });
    this.time = make("span", { className: "gpu-time" });
    this.facts = make("span", { className: "dim facts" });
    this.act = button("", "", () => this.press());
    const named = person.name === person.user ? [] : [make("span", { className: "dim" }, ` ${person.user}`)];
    this.node = make("li", {},
      make("span", { className: "person-name" }, make("b", {}, person.name), ...named),
      this.time, this.act, make("span", { className: "gpu-track" }, this.bar), this.facts);
  }

  draw(person) {
    this.person = person;
    this.bar.style.width = `${100 * person.part}%`;
    const limit = person.limits.gpu_seconds_per_day;
    write(this.time, limit === null ? tell("gpu_time", { time: duration(person.gpu_s) })
      : tell("gpu_time_of", { time: duration(person.gpu_s), limit: duration(limit) }));
    const words = tell(person.banned ? "unban" : "ban");
    write(this.act, words);
    this.act.setAttribute("aria-label", `${tell(person.banned ? "unban" : "ban")}: ${person.name}`);
    this.act.classList.toggle("danger", !person.banned);
    this.act.hidden = !person.bannable && !person.banned;
    this.node.classList.toggle("banned", person.banned);
    writeParts(this.facts, [facts(person), person.banned, person.banned_until, person.ban_reason], () => [
      facts(person).join(" · "),
      ...(person.banned ? bannedWords(person) : []),
    ]);
  }

  press() {
    const { user, name, banned } = this.person;
    if (banned) return this.acts.perform("unban", { values: { person: user }, said: { person: name } });
    return this.acts.ask({
      title: tell("confirm_ban", { name }),
      text: tell("confirm_ban_text"),
      yes: tell("ban"),
      fields: [
        { name: "reason", label: tell("reason"), input: { maxLength: 200 } },
        { name: "hours", label: tell("ban_hours"), input: { inputMode: "decimal", pattern: "[0-9]+([.,][0-9]+)?", maxLength: 8 } },
      ],
    }, "ban", { values: { person: user }, said: { person: name } });
  }
}

function facts(person) {
  const { limits } = person;
  const told = [tell("jobs_today", { count: number(person.jobs) })];
  told.push(tell("open_of", { open: person.waiting + person.running, limit: limits.open_per_person }));
  if (limits.per_hour !== null) told.push(tell("per_hour", { count: limits.per_hour }));
  if (limits.lane !== "normal") told.push(tell("lane", limits));
  if (person.admin) told.push(tell("admin"));
  return told;
}

function bannedWords(person) {
  const until = person.banned_until
    ? [moment({ at: person.banned_until, clock: true, before: tell("banned_until") })] : [tell("banned")];
  const reason = person.ban_reason ? [` (${person.ban_reason})`] : [];
  return [" · ", make("strong", { className: "bad" }, ...until), ...reason];
}

class ActRow {
  constructor(act) {
    const detail = act.detail ? ` (${act.detail})` : "";
    this.node = make("li", {}, make("time", { className: "dim", dateTime: new Date(act.at * 1000).toISOString() }, when(act.at)),
      make("span", {}, make("b", {}, act.actor), ` ${act.action} ${act.subject}${detail}`));
  }

  draw() {} // an act never changes
}
