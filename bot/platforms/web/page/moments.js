// Points in time: shown in the reader's own time, with a countdown that needs no message to move.

import { make } from "./dom.js";
import { locale, say } from "./texts.js";

const clock = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" });
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" });
const JUST_PASSED_S = 20;

/** Return the time of day, after the word `before`; or with the date where it is not today's. */
export function clockText(at, before = "") {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? before + clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export function fullText(at) {
  return full.format(new Date(at * 1000));
}

/** Return "20–40 s" or "1–2 min": where a moment probably is that may be that far off. */
function band(left, spread) {
  const [unit, step, name] = left + spread < 90 ? [1, 10, "s"] : [60, 1, "min"];
  const first = Math.max(step, Math.floor((left - spread) / unit / step) * step);
  const last = Math.max(step, Math.ceil((left + spread) / unit / step) * step);
  return first === last ? `${last}\u00a0${name}` : `${first}–${last}\u00a0${name}`;
}

function countdown(at, spread, awaited) {
  const left = Math.round(at - Date.now() / 1000);
  if (left <= -JUST_PASSED_S) return "";
  if (left <= 0) return awaited ? ` (${say("now")})` : "";
  if (left >= 90 * 60) return "";
  if (spread > 0) return ` (in ${band(left, spread)})`; // "in" is the word in both languages
  return left < 90 ? ` (in ${left}\u00a0s)` : ` (in ${Math.round(left / 60)}\u00a0min)`;
}

/** Make an element that shows a moment and, unless the clock alone is asked for, counts down to it. */
export function moment({ at, spread = 0, clock: alone = false, before = "" }) {
  const iso = Number.isFinite(at) ? new Date(at * 1000).toISOString() : "";
  const node = make("time", { dateTime: iso, title: fullText(at), className: "moment" });
  const awaited = at > Date.now() / 1000; // what had passed when it arrived is no countdown
  Object.assign(node.dataset, { at, spread, before, alone: alone ? "yes" : "", awaited: awaited ? "yes" : "" });
  tick(node);
  return node;
}

function tick(node) {
  const at = Number(node.dataset.at);
  const { alone, awaited, before, spread } = node.dataset;
  // Without a connection nothing says whether it still holds: the clock alone stays true.
  const counts = !alone && document.documentElement.dataset.connection === "connected";
  const text = clockText(at, before) + (counts ? countdown(at, Number(spread), Boolean(awaited)) : "");
  if (node.textContent !== text) node.textContent = text;
}

setInterval(() => document.querySelectorAll("time.moment").forEach(tick), 1000);
