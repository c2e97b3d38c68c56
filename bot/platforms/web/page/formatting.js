// Colours code and typesets formulas, with libraries that are loaded when an answer needs them.
// Until then, and where a library fails, the source text stays.

import { make } from "./dom.js";

const AT_ONCE = 2_000; // characters; longer code is coloured a little later
const SOON_MS = 300;
const MOST_CODE = 30_000;
const MOST_FORMULA = 4_000;

const due = new WeakMap(); // the newest texts of the code elements that are coloured soon

/** Colour code within `node`, which contains `text`. */
export function colourCode(node, text, language) {
  if (text.length > AT_ONCE) colourSoon(node, text, language);
  else if (language) withColours((library) => colour(library, node, text, language));
}

/** Colour code that grows, but not at each change: the longer it is, the more seldom. */
export function colourSoon(node, text, language) {
  if (!language || text.length > MOST_CODE) return;
  const waits = due.has(node);
  due.set(node, text);
  if (waits) return;
  setTimeout(() => {
    const newest = due.get(node);
    due.delete(node);
    if (node.isConnected) withColours((library) => colour(library, node, newest, language));
  }, SOON_MS + text.length / 10);
}

/** Replace a formula's source within `node` by the formula. */
export function showFormula(node, source, displayMode) {
  if (source.length <= MOST_FORMULA) withMaths((library) => typeset(library, node, source, displayMode));
}

const withColours = once(async () => (await import("./highlight/highlight.min.js")).default);

const withMaths = once(async () => {
  const sheet = make("link", { rel: "stylesheet", href: new URL("katex/katex.min.css", import.meta.url).href });
  const styled = new Promise((resolve, reject) => Object.assign(sheet, { onload: resolve, onerror: reject }));
  document.head.append(sheet);
  await Promise.all([import("./katex/katex.min.js"), styled]);
  return globalThis.katex;
});

/** Return a function that calls its argument with the library: at once, or when it is loaded. */
function once(load) {
  let library = null;
  let loading = null;
  return (use) => {
    if (library) return use(library);
    loading ??= load().then((loaded) => { library = loaded; }, () => { loading = null; });
    loading.then(() => library && use(library));
  };
}

function colour(library, node, text, language) {
  const tail = node.querySelector(".tail"); // the cursor of an answer that is being written
  const now = [...node.childNodes].map((child) => (child === tail ? "" : child.textContent)).join("");
  if (now !== text || !library.getLanguage(language)) return; // it has grown, and is coloured again soon
  // The tree of tokens, because a string of HTML may not become elements here.
  const { root } = library.highlight(text, { language, ignoreIllegals: true })._emitter;
  const made = make("code", {}, ...root.children.map(token));
  if (made.textContent === text) node.replaceChildren(...made.childNodes, tail ?? "");
}

function token(part) {
  if (typeof part === "string") return part;
  const children = part.children.map(token);
  const name = part.scope?.split(".")[0];
  return make("span", name && !name.startsWith("language:") ? { className: `token-${name}` } : {}, ...children);
}

function typeset(library, node, source, displayMode) {
  let tree;
  try {
    tree = library.__renderToDomTree(source, { displayMode, strict: "ignore", maxSize: 20, maxExpand: 500 });
  } catch {
    return; // not TeX, or more than KaTeX supports
  }
  dropStyles(tree);
  node.classList.add("typeset");
  node.replaceChildren(tree.toNode());
}

/** Remove style attributes, which the content policy refuses. KaTeX uses them in its hidden MathML only. */
function dropStyles(node) {
  if (node.attributes) delete node.attributes.style;
  node.children?.forEach(dropStyles);
}
