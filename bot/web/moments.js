// Points in time: shown in the reader's own time, with a countdown that needs no message to move.

import { make } from "./dom.js";
import { locale, say } from "./texts.js";

const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(locale, { style: "short" });
const JUST_PASSED_S = 20;

/** Return the time of day, with the date where it is not today's. */
export function clockText(at) {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export function fullText(at) {
  return full.format(new Date(at * 1000));
}

function countdown(at) {
  const left = Math.round(at - Date.now() / 1000);
  if (left <= -JUST_PASSED_S) return "";
  if (left <= 0) return ` (${say("now")})`;
  if (left < 90) return ` (${relative.format(left, "second")})`;
  if (left < 90 * 60) return ` (${relative.format(Math.round(left / 60), "minute")})`;
  return "";
}

/** Make an element that shows a moment and keeps counting down to it. */
export function moment(at) {
  const iso = Number.isFinite(at) ? new Date(at * 1000).toISOString() : "";
  const node = make("time", { dateTime: iso, title: fullText(at), className: "moment" });
  node.dataset.at = at;
  tick(node);
  return node;
}

function tick(node) {
  const at = Number(node.dataset.at);
  const text = clockText(at) + countdown(at);
  if (node.textContent !== text) node.textContent = text;
}

setInterval(() => document.querySelectorAll("time.moment").forEach(tick), 1000);
