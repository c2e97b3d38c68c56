// Converts a model's Markdown to elements. The output contains only the elements named here, whatever
// the text contains; HTML stays text. All patterns are bounded, so that even hostile text takes only
// linear time.

import { make } from "./dom.js";
import { say } from "./texts.js";

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const MAX_DEPTH = 8;
const MAX_COLUMNS = 50; // browsers take seconds to lay out thousands of columns

/** Show Markdown in `node`. Blocks unchanged since the last call keep their elements. */
export function showMarkdown(node, text) {
  const blocks = splitBlocks(text.replace(/\r\n?/g, "\n").split("\n"));
  blocks.forEach((block, index) => {
    const source = `${block.kind}\n${block.lines.join("\n")}`;
    const old = node.children[index];
    if (old && old.markdownSource === source) return;
    const fresh = buildBlock(block, 0);
    fresh.markdownSource = source;
    if (old) old.replaceWith(fresh);
    else node.append(fresh);
  });
  while (node.children.length > blocks.length) node.lastElementChild.remove();
}

// ---------------------------------------------------------------- blocks

/** Split lines into blocks: { kind, lines, … }. */
function splitBlocks(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const block = blockAt(lines, at);
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenceAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { kind: `h${heading[1].length}`, lines: [heading[2]], end: at + 1 };
  if (RULE.test(line)) return { kind: "rule", lines: [line], end: at + 1 };
  if (QUOTE.test(line)) return runOf(lines, at, "quote", (next) => QUOTE.test(next));
  if (ITEM.test(line)) return listAt(lines, at);
  if (isTable(lines, at)) return runOf(lines, at, "table", (next) => next.includes("|"));
  return runOf(lines, at, "text", (next, index) => !startsBlock(lines, index));
}

function fenceAt(lines, at, [, , mark, name]) {
  const inside = [];
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], mark)) inside.push(lines[end++]);
  return { kind: `code ${name}`, lines: inside, end: Math.min(end + 1, lines.length) };
}

function closesFence(line, mark) {
  const text = line.trim();
  return text.length >= mark.length && text === mark[0].repeat(text.length);
}

function runOf(lines, at, kind, belongs) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && belongs(lines[end], end)) end += 1;
  return { kind, lines: lines.slice(at, end), end };
}

function listAt(lines, at) {
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end];
    const goesOn = line.trim() ? ITEM.test(line) || /^ {2,}/.test(line) : indentedAfter(lines, end);
    if (!goesOn) break;
    end += 1;
  }
  return { kind: "list", lines: lines.slice(at, end), end };
}

function indentedAfter(lines, at) {
  const next = lines[at + 1];
  return next !== undefined && next.trim() !== "" && (ITEM.test(next) || /^ {2,}/.test(next));
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  if (!lines[at].includes("|") || !rule?.includes("|") || !TABLE_RULE.test(rule)) return false;
  return cells(lines[at]).length <= MAX_COLUMNS;
}

function startsBlock(lines, at) {
  const line = lines[at];
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((start) => start.test(line)) || isTable(lines, at);
}

function buildBlock(block, depth) {
  const [kind, name] = block.kind.split(" ");
  switch (kind) {
    case "code":
      return codeBlock(block.lines.join("\n"), name);
    case "rule":
      return make("hr");
    case "quote":
      return inner("blockquote", block.lines.map((line) => QUOTE.exec(line)?.[1] ?? line), depth);
    case "list":
      return list(block.lines, depth);
    case "table":
      return table(block.lines);
    case "text":
      return inline(make("p"), block.lines.join("\n"));
    default: {
      // The page already uses h1 and h2.
      const level = Math.min(Number(kind[1]) + 2, 6);
      return inline(make(`h${level}`), block.lines[0]);
    }
  }
}

function inner(tag, lines, depth) {
  const node = make(tag);
  if (depth >= MAX_DEPTH) return inline(node, lines.join("\n"));
  node.append(...splitBlocks(lines).map((block) => buildBlock(block, depth + 1)));
  return node;
}

function codeBlock(text, name) {
  const copy = make("button", { type: "button", className: "copy", textContent: say("copy") });
  copy.addEventListener("click", () => copyText(text, copy));
  const head = make("div", { className: "code-head" }, make("span", {}, name || ""), copy);
  // A wide block scrolls, so the keyboard must be able to focus it.
  const body = make("pre", { tabIndex: 0 }, make("code", {}, text));
  return make("div", { className: "code" }, head, body);
}

/** Copy a text, and confirm it briefly on the button. */
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return; // not allowed on insecure pages, and no message would help
  }
  button.textContent = say("copied");
  setTimeout(() => (button.textContent = say("copy")), 1500);
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const indent = first[1].length;
  const numbered = /\d/.test(first[2]);
  const node = make(numbered ? "ol" : "ul");
  if (numbered) node.start = Number.parseInt(first[2], 10);
  let item = [];
  const flush = () => {
    if (item.length) node.append(listItem(item, depth));
    item = [];
  };
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent + 1) {
      flush();
      item.push(found[3]);
    } else {
      item.push(line.replace(new RegExp(`^ {0,${indent + 3}}`), ""));
    }
  }
  flush();
  return node;
}

function listItem(lines, depth) {
  const node = inner("li", lines, depth);
  const only = node.firstElementChild;
  // A single line needs no paragraph, whether or not a nested list follows.
  if (only?.tagName === "P") only.replaceWith(...only.childNodes);
  return node;
}

function table(lines) {
  const rows = lines.filter((_, index) => index !== 1).map(cells);
  const head = make("tr", {}, ...rows[0].map((cell) => inline(make("th", { scope: "col" }), cell)));
  const body = rows.slice(1).map((row) =>
    make("tr", {}, ...rows[0].map((_, index) => inline(make("td"), row[index] ?? ""))),
  );
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { className: "table", tabIndex: 0 }, whole);
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

// ---------------------------------------------------------------- inline

const INLINE = new RegExp(
  [
    String.raw`\\([!-/:-@[-\`{-~])`, // 1: an escaped character
    "(`{1,3})(?!`)([^`]{1,2000})\\2(?!`)", // 3: code
    String.raw`\[([^\[\]\n]{1,300})\]\((https?:\/\/[^\s()<>"]{1,1500})\)`, // 4, 5: a link
    String.raw`(https?:\/\/[^\s<>"'\`*]{1,1500}[^\s<>"'\`*.,:;!?)\]}])`, // 6: a bare address
    String.raw`(\*\*|(?<!\w)__)(?=\S)([^]{1,1000}?)(?<=\S)\7(?:(?<=\*)|(?!\w))`, // 8: bold
    String.raw`(~~)(?=\S)([^~]{1,1000}?)\9`, // 10: strikethrough
    String.raw`\*(?=[^\s*])([^*\n]{0,1000}?[^\s*])\*(?!\*)`, // 11: italic
    String.raw`(?<![\w_])_(?=[^\s_])([^_\n]{0,1000}?[^\s_])_(?![\w_])`, // 12: italic
  ].join("|"),
  "g",
);

/** Append text with inline formatting to `node`, and return `node`. */
function inline(node, text, depth = 0) {
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    node.append(text.slice(end, found.index), piece(found, depth));
    end = found.index + found[0].length;
  }
  node.append(text.slice(end));
  return node;
}

function piece(found, depth) {
  const [whole, escaped, , code, label, target, bare, , bold, , struck, starred, scored] = found;
  const nested = (tag, text) =>
    depth >= MAX_DEPTH ? make(tag, {}, text) : inline(make(tag), text, depth + 1);
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return make("code", {}, code);
  if (target !== undefined) return link(target, label);
  if (bare !== undefined) return link(bare, bare);
  if (bold !== undefined) return nested("strong", bold);
  if (struck !== undefined) return nested("del", struck);
  if (starred !== undefined) return nested("em", starred);
  if (scored !== undefined) return nested("em", scored);
  return whole;
}

function link(address, label) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return label;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return label;
  // The title shows the real address, whatever the label says.
  return make("a", { href: url.href, title: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, label);
}
