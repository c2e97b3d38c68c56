// Points in time, in the reader's time zone, with a countdown that runs without messages.

import { make } from "./dom.js";
import { locale, say } from "./texts.js";

const clock = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" });
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" });
const JUST_PASSED_S = 20;

/** Return the time of day after the word `before`, or the date and time if it is not today. */
export function clockText(at, before = "") {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? before + clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export function fullText(at) {
  return full.format(new Date(at * 1000));
}

/** Return the text of a period, such as "6:31–6:34 PM". */
export function periodText({ begins, ends }) {
  if (begins === ends) return clockText(ends);
  const days = [begins, ends].map((at) => new Date(at * 1000).toDateString());
  if (days.some((each) => each !== new Date().toDateString())) return `${clockText(begins)} – ${clockText(ends)}`;
  return clock.formatRange(new Date(begins * 1000), new Date(ends * 1000));
}

/** Make an element for a period. It has no countdown. */
export function period(part) {
  return make("time", { title: `${fullText(part.begins)} – ${fullText(part.ends)}`, className: "period" }, periodText(part));
}

/** Make an element for an estimate, widened to whole minutes. */
export function range({ earliest, latest }) {
  return period({ begins: Math.floor(earliest / 60) * 60, ends: Math.ceil(latest / 60) * 60 });
}

function countdown(at, awaited) {
  const left = Math.round(at - Date.now() / 1000);
  if (left <= -JUST_PASSED_S) return "";
  if (left <= 0) return awaited ? ` (${say("now")})` : "";
  if (left >= 90 * 60) return "";
  const text = left < 90 ? say("in_seconds", { count: left }) : say("in_minutes", { count: Math.round(left / 60) });
  return ` (${text})`;
}

/** Make an element for a moment, with a countdown unless only the clock time is requested. */
export function moment({ at, clock: alone = false, before = "" }) {
  const iso = Number.isFinite(at) ? new Date(at * 1000).toISOString() : "";
  const node = make("time", { dateTime: iso, title: fullText(at), className: "moment" });
  const awaited = at > Date.now() / 1000; // a moment already past on arrival gets no countdown
  Object.assign(node.dataset, { at, before, alone: alone ? "yes" : "", awaited: awaited ? "yes" : "" });
  tick(node);
  return node;
}

function tick(node) {
  const at = Number(node.dataset.at);
  const { alone, awaited, before } = node.dataset;
  // Without a connection the moment may be outdated, so only the clock time is shown.
  const counts = !alone && document.documentElement.dataset.connection === "connected";
  const text = clockText(at, before) + (counts ? countdown(at, Boolean(awaited)) : "");
  if (node.textContent !== text) node.textContent = text;
}

setInterval(() => document.querySelectorAll("time.moment").forEach(tick), 1000);
