// Builds elements. Text only ever becomes text nodes: no string is parsed as HTML anywhere here.

/** Make an element: properties are set as such, "aria-…", "data-…", "role" and the like as attributes. */
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.includes("-") || name === "role" || name === "download") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Have a text read out to those who hear the page. */
export function announce(text) {
  byId("announce").textContent = text.slice(0, 500);
}

/** Keep a text in this tab across reloads; null forgets it. */
export function remember(name, text) {
  try {
    if (text === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch {
    // Full, or storage is not allowed: the text then lasts as long as the page.
  }
}

/** Return what was kept, or null. */
export function recall(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Return a size in bytes as people write it. */
export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} kB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
