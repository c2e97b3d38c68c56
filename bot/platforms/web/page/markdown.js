// Builds an answer's elements from the blocks that the server read in its Markdown. The output
// contains only the elements named here, whatever the blocks contain; a text stays a text.

import { make } from "./dom.js";
import { colourCode, colourSoon, showFormula } from "./formatting.js";
import { say } from "./texts.js";

const MAX_COLUMNS = 50; // browsers take seconds to lay out thousands of columns
const INLINE = { strong: "strong", emphasis: "em", struck: "del" };
const BOXES = { open: "☐", done: "☑" };

/** Show blocks in `node`. Those unchanged since the last call keep their elements. */
export function showMarkdown(node, blocks) {
  const levels = headingLevels(blocks);
  blocks.forEach((block, index) => {
    const source = JSON.stringify([block, levels[index]]);
    const old = node.children[index];
    if (old && old.markdownSource === source) return;
    const shown = old && grow(old, block) ? old : blockNode(block, levels[index]);
    Object.assign(shown, { markdownSource: source, markdownBlock: block });
    if (!old) node.append(shown);
    else if (shown !== old) old.replaceWith(shown);
  });
  while (node.children.length > blocks.length) node.lastElementChild.remove();
}

/** Continue a code block, which keeps its elements. Return whether it only grew. */
function grow(node, block) {
  const before = node.markdownBlock;
  if (before?.kind !== "fence" || block.kind !== "fence" || before.value !== block.value) return false;
  if (!block.text.startsWith(before.text)) return false;
  const code = node.querySelector("code");
  code.append(block.text.slice(before.text.length));
  colourSoon(code, block.text, block.value);
  node.querySelector(".copy").copied = block.text;
  return true;
}

/** Return the level of each heading on the page, which uses h1 and h2 itself. None is skipped. */
function headingLevels(blocks) {
  const highest = Math.min(...blocks.map((block) => (block.kind === "heading" ? block.number : Infinity)));
  let last = 2;
  return blocks.map((block) => {
    if (block.kind !== "heading") return undefined;
    return (last = Math.min(block.number - highest + 3, last + 1, 6));
  });
}

/** Return the text of blocks, without formatting. */
export function blocksText(blocks) {
  return blocks.map((block) => wordsOf(block)).join("\n");
}

function wordsOf(node) {
  if (typeof node === "string") return node;
  return node.text ?? node.children.map(wordsOf).join(isAroundBlocks(node) ? "\n" : "");
}

const isAroundBlocks = (node) => ["quote", "list", "item", "table", "row"].includes(node.kind);

// ---------------------------------------------------------------- blocks

function blockNode(block, level = 6) {
  switch (block.kind) {
    case "fence":
      return codeBlock(block.text, block.value);
    case "display":
      return display(block.text);
    case "rule":
      return make("hr");
    case "quote":
      return make("blockquote", {}, ...block.children.map((child) => blockNode(child)));
    case "list":
      return list(block);
    case "table":
      return table(block);
    case "heading":
      return inline(make(`h${level}`), block.children);
    default:
      return inline(make("p"), block.children);
  }
}

function codeBlock(text, name) {
  const code = make("code", {}, text);
  colourCode(code, text, name);
  const head = make("div", { className: "code-head" }, make("span", {}, name || ""), copyButton(text));
  // A wide block scrolls, so the keyboard must be able to focus it.
  return make("div", { className: "code" }, head, make("pre", { tabIndex: 0 }, code));
}

function display(source) {
  const body = make("div", { className: "display-body", tabIndex: 0 }, make("code", {}, source));
  showFormula(body, source, true);
  return make("div", { className: "display" }, body, copyButton(source));
}

function copyButton(text) {
  const copy = make("button", { type: "button", className: "copy", textContent: say("copy") });
  copy.copied = text;
  copy.addEventListener("click", () => copyText(copy.copied, copy));
  return copy;
}

/** Copy a text, and confirm it briefly on the button. */
export async function copyText(text, button) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copySelected(text, button);
  } catch {
    return; // the browser forbids it, and no message would help
  }
  button.dataset.label ??= button.textContent;
  button.textContent = say("copied");
  setTimeout(() => (button.textContent = button.dataset.label), 1500);
}

/** Copy a text on a page without TLS, where browsers have no other way. */
function copySelected(text, button) {
  const field = make("textarea", { value: text, readOnly: true, className: "unseen" });
  button.after(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  button.focus({ preventScroll: true });
}

function list(block) {
  const node = make(block.value ? "ol" : "ul", {}, ...block.children.map(listItem));
  if (block.value) node.start = block.number;
  return node;
}

function listItem(item) {
  const node = make("li", { className: item.value ?? "" });
  const box = BOXES[item.value];
  if (box) node.append(make("span", { className: "box-mark" }, `${box} `));
  for (const block of item.children) {
    if (block.kind === "line") inline(node, block.children); // a single line needs no paragraph
    else node.append(blockNode(block));
  }
  return node;
}

function table(block) {
  const [head, ...rows] = block.children.map((row) => row.children);
  if (head.length > MAX_COLUMNS) {
    return make("p", {}, [head, ...rows].map((row) => row.map(wordsOf).join(" | ")).join("\n"));
  }
  const cell = (tag, properties) => (each) =>
    inline(make(tag, { ...properties, className: each.value ?? "" }), each.children);
  const top = make("tr", {}, ...head.map(cell("th", { scope: "col" })));
  const body = rows.map((row) => make("tr", {}, ...row.map(cell("td", {}))));
  const whole = make("table", {}, make("thead", {}, top), make("tbody", {}, ...body));
  return make("div", { className: "table", tabIndex: 0 }, whole);
}

// ---------------------------------------------------------------- inline

/** Append inline elements to `node`, and return `node`. */
function inline(node, children) {
  node.append(...children.map(piece));
  return node;
}

function piece(part) {
  if (typeof part === "string") return part;
  switch (part.kind) {
    case "code":
      return make("code", {}, part.text);
    case "formula":
      return formula(part.text);
    case "link":
      return link(part);
    case "spoiler":
      return spoiler(part);
    default:
      return inline(make(INLINE[part.kind] ?? "span"), part.children);
  }
}

function formula(source) {
  const node = make("span", { className: "formula" }, make("code", {}, source));
  showFormula(node, source, false);
  return node;
}

function link(part) {
  let url;
  try {
    url = new URL(part.value);
  } catch {
    return inline(make("span"), part.children);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return inline(make("span"), part.children);
  // The title shows the real address, whatever the label says.
  const address = { href: url.href, title: url.href, target: "_blank", rel: "noopener noreferrer nofollow" };
  return inline(make("a", address), part.children);
}

/** Return words that are hidden until the reader asks for them. */
function spoiler(part) {
  const node = inline(make("span", { className: "hidden-words", role: "button", tabIndex: 0 }), part.children);
  node.setAttribute("aria-label", say("hidden_words"));
  const show = () => {
    node.classList.add("seen");
    for (const name of ["role", "tabindex", "aria-label"]) node.removeAttribute(name);
  };
  node.addEventListener("click", show);
  node.addEventListener("keydown", (event) => event.key === "Enter" && show());
  return node;
}
