// Draws the body of a message: plain text, moments and answers, into existing elements.

import { make } from "./dom.js";
import { blocksText, copyText, showMarkdown } from "./markdown.js";
import { clockText, moment, period, periodText } from "./moments.js";
import { pastRow } from "./past.js";
import { say } from "./texts.js";

const ADDRESS = /(https?:\/\/[^\s<>"'“”]+[^\s<>"'“”.,:;!?)])/;
const UNIT = /(\d) (GB|MB|kB|min|s|%)(?!\w)/g; // keeps a number and its unit on one line

/** Show a message's body in `node`, block by block. */
export function drawBody(node, body, copies = false) {
  const blocks = [];
  for (const part of body) {
    const joins = part.kind !== "markdown" && blocks.at(-1)?.[0].kind !== "markdown";
    if (joins && blocks.length) blocks.at(-1).push(part);
    else blocks.push([part]);
  }
  const tails = takeTails(blocks);
  blocks.forEach((block, index) => {
    const markdown = block[0].kind === "markdown";
    const name = markdown ? "markdown" : "line";
    let child = node.children[index];
    if (child?.className !== name) {
      const fresh = make("div", { className: name });
      if (child) child.replaceWith(fresh);
      else node.append(fresh);
      child = fresh;
    }
    if (markdown) showAnswer(child, block[0].blocks, tails.get(block));
    else child.replaceChildren(...blockNodes(block, index > 0, copies));
  });
  while (node.children.length > blocks.length) node.lastElementChild.remove();
  node.hidden = blocks.length === 0;
}

/** Remove texts that continue the last line of Markdown, such as a cursor, from the blocks; return them. */
function takeTails(blocks) {
  const tails = new Map();
  for (let index = blocks.length - 1; index > 0; index -= 1) {
    const [first, ...rest] = blocks[index];
    const before = blocks[index - 1];
    if (before[0].kind !== "markdown" || first.kind !== "text" || first.text.includes("\n") || rest.length) continue;
    tails.set(before, first.text);
    blocks.splice(index, 1);
  }
  return tails;
}

function showAnswer(node, answer, tail) {
  node.querySelector(".tail")?.remove();
  showMarkdown(node, answer);
  if (tail === undefined) return;
  const ends = node.querySelectorAll("p, li, h3, h4, h5, h6, code, .display, td, th");
  (ends[ends.length - 1] ?? node.appendChild(make("p"))).append(make("span", { className: "tail" }, tail));
}

/** Return the nodes of a block; each line about a past job is a row. */
function blockNodes(block, afterMarkdown, copies) {
  const nodes = [];
  let row = null;
  block.forEach((part, at) => {
    if (part.job) {
      row = pastRow(part);
      nodes.push(row.node);
    }
    const made = partNodes(row && part.kind === "text" ? { ...part, text: part.text.replace(/\n$/, "") } : part,
      at === 0 && afterMarkdown, copies);
    if (row) row.words.append(...made);
    else nodes.push(...made);
  });
  return nodes;
}

export function partNodes(part, afterMarkdown, copies) {
  switch (part.kind) {
    case "moment": return [moment(part)];
    case "period": return [period(part)];
    case "strong": return [make("strong", {}, part.text)];
    case "typed": return [make("button", { type: "button", className: "typed", "data-typed": part.text }, part.text)];
    case "bar": return [make("progress", { className: "bar", max: 1, value: part.share })];
    default: return textNodes(afterMarkdown ? part.text.trimStart() : part.text, copies);
  }
}

/** Return the nodes of a text, with its URLs as links and, if `copies`, a copy button for each. */
function textNodes(text, copies) {
  return text.split(ADDRESS).flatMap((piece, at) => {
    if (at % 2 === 0) return piece ? [piece.replace(UNIT, "$1\u00a0$2")] : [];
    const link = make("a", { href: piece, target: "_blank", rel: "noopener noreferrer" }, piece);
    if (!copies) return [link];
    const copy = make("button", { type: "button", className: "plain copy-link" }, say("copy"));
    copy.addEventListener("click", () => copyText(piece, copy));
    return [link, copy];
  });
}

export const hasMarkdown = (shown) => shown.body.some((part) => part.kind === "markdown");

/** Return the Markdown source of a body. */
export function markdownText(body) {
  return body.filter((part) => part.kind === "markdown").map((part) => part.text).join("\n\n");
}

/** Return a body as plain text, without formatting. */
export function bodyText(body) {
  return body.map(partText).join("");
}

/** Return the start of a message's text on one line, to name it by. */
export const shortText = (shown) => bodyText(shown.body).replace(/\s+/g, " ").slice(0, 80) || say("image");

function partText(part) {
  if (part.kind === "moment") return clockText(part.at, part.before);
  if (part.kind === "period") return periodText(part);
  if (part.kind === "bar") return "";
  return part.kind === "markdown" ? blocksText(part.blocks) : part.text;
}
