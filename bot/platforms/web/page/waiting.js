// The card of an open job: what happens, its place or step, when it is ready, and its progress.

import { partNodes } from "./body.js";
import { make } from "./dom.js";
import { say } from "./texts.js";

const BETWEEN = " · "; // what the bot's texts have between two facts
const SIGN = /^\p{Extended_Pictographic}\p{M}?\s*/u;
const FACT_MOST = 32; // characters of a fact that stands apart
const isTime = ({ kind }) => kind === "moment" || kind === "period";

/**
 * Show the status of an open job in `node`. Its parts stay in their places while the facts change.
 * Without another reason, a waiting job says what its model's queue of `queues` does now.
 */
export function drawCard(node, body, queues) {
  if (!node.querySelector(".card-head")) node.replaceChildren(...emptyCard());
  const [head, time, note, bar] = node.children;
  const { title, facts, times, notes, share } = readStatus(body);
  node.hidden = false;
  head.dataset.runs = share === null ? "" : "yes";
  head.lastElementChild.textContent = title;
  time.replaceChildren(...facts.flatMap((fact) => [make("span", { className: "fact" }, fact), " "]), ...times.flatMap((part) => partNodes(part)));
  time.style.minHeight = `${time.offsetHeight}px`; // it keeps the most room it has had
  const queue = share === null && queues.find(({ model }) => title === model);
  const reason = queue && notes.length === 0 ? [say("card_now", queue)] : notes.flatMap((part) => partNodes(part));
  note.replaceChildren(...reason);
  bar.value = share ?? 0;
  bar.classList.toggle("none", share === null); // it keeps its room
}

function emptyCard() {
  const dot = make("span", { className: "dot", "aria-hidden": "true" });
  return [make("div", { className: "card-head" }, dot, make("strong")),
    make("div", { className: "card-time" }), make("div", { className: "card-note" }),
    make("progress", { className: "card-bar", max: 1, "aria-label": say("card_progress") })];
}

/** Sort the parts of a status: the first line has the title, facts and a time, the others are notes. */
function readStatus(body) {
  const [first, notes] = firstLine(body);
  const pieces = [[]]; // of the first line, each a fact
  for (const part of first) {
    const [start, ...rest] = part.kind === "text" ? part.text.split(BETWEEN) : [null];
    if (start === null) pieces.at(-1).push(part);
    else pieces.at(-1).push({ kind: "text", text: start });
    pieces.push(...rest.map((text) => [{ kind: "text", text }]));
  }
  const words = (piece) => piece.map((part) => part.text ?? "").join("").trim();
  const [title, ...others] = pieces.filter((piece) => !piece.some(isTime)).map(words).filter(Boolean);
  const long = others.filter((fact) => fact.length > FACT_MOST).map((text) => ({ kind: "text", text }));
  return {
    title: (title ?? "").replace(SIGN, ""),
    facts: others.filter((fact) => fact.length <= FACT_MOST),
    times: pieces.find((piece) => piece.some(isTime)) ?? [],
    notes: [...long, ...notes],
    share: body.find((part) => part.kind === "bar")?.share ?? null,
  };
}

/** Return the parts of the first line, and those of all others. */
function firstLine(body) {
  const at = body.findIndex((part) => part.text?.includes("\n"));
  if (at < 0) return [body, []];
  const [start, ...rest] = body[at].text.split("\n");
  const part = (text) => ({ ...body[at], text });
  return [[...body.slice(0, at), part(start)], [part(rest.join("\n")), ...body.slice(at + 1)].filter(({ text }) => text !== "")];
}

/** Return what is announced of a status: not its times and steps, which change all the time. */
export function spoken(body) {
  const { title, facts, share } = readStatus(body);
  return share === null ? [title, ...facts].join(", ") : title;
}
