// Formats sizes, durations, shares and times of day in the reader's locale.

import { locale } from "./texts.js";

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat(locale, { hour: "numeric", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(locale, { weekday: "short", hour: "numeric", minute: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "numeric", minute: "2-digit" });
const NARROW = "\u00a0"; // keeps a number and its unit on one line

export const number = (value) => whole.format(value);
export const share = (value) => percent.format(value);

/** Return a size in megabytes as text: "17 GB", "9.5 GB", "640 MB". */
export function size(mb) {
  if (mb < 1000) return `${whole.format(mb)}${NARROW}MB`;
  const gb = mb / 1024;
  return `${gb < 10 ? tenth.format(gb) : whole.format(gb)}${NARROW}GB`;
}

/** Return a duration: "0.4 s", "12 s", "3 min 20 s", "1 h 5 min", "2 d 3 h". */
export function duration(seconds) {
  if (seconds < 9.95) return `${seconds < 0.05 ? "0" : tenth.format(seconds)}${NARROW}s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s}${NARROW}s`;
  if (s < 3600) return two(s, 60, "min", 1, "s");
  return s < 86_400 ? two(s, 3600, "h", 60, "min") : two(s, 86_400, "d", 3600, "h");
}

function two(seconds, large, name, small, rest) {
  const left = Math.floor((seconds % large) / small);
  const first = `${Math.floor(seconds / large)}${NARROW}${name}`;
  return left ? `${first} ${left}${NARROW}${rest}` : first;
}

/** Return how long ago a moment was, in whole seconds while it is recent. */
export function elapsed(at) {
  const seconds = Math.max(0, Date.now() / 1000 - at);
  return seconds < 60 ? `${Math.floor(seconds)}${NARROW}s` : duration(seconds);
}

/** Return a time for a chart of that span, with the day if it is not today or the span is a week. */
export function moment(at, span) {
  const date = new Date(at * 1000);
  return (span === "week" || !isToday(date) ? weekday : clock).format(date);
}

/** Return a past time, with the date if it is not today. */
export function when(at) {
  const date = new Date(at * 1000);
  return (isToday(date) ? clock : dayAndTime).format(date);
}

const isToday = (date) => date.toDateString() === new Date().toDateString();

/** Return a time range: "14:32 – 14:33", "Sun 23:45 – 00:00". */
export function between(begins, ends, span) {
  const last = new Date(ends * 1000);
  const near = ends - begins < 86_400; // the end needs no day
  return `${moment(begins, span)} – ${(near ? clock : weekday).format(last)}`;
}
