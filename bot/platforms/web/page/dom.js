// Builds elements. Text always becomes text nodes; no string is ever parsed as HTML.

/** Make an element. Names such as "aria-…", "data-…" and "role" are set as attributes, others as properties. */
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

/** Return the address of a WebSocket next to this page, which a proxy may serve under a path. */
export function socketAddress(path) {
  const address = new URL(path, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
}

/** Return a new random key, for a call or a conversation. */
export function newKey(size = 16) {
  // randomUUID exists only on secure pages, and a page on the local network is not one.
  const bytes = crypto.getRandomValues(new Uint8Array(size));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Announce a text to screen readers. */
export function announce(text) {
  byId("announce").textContent = text.slice(0, 500);
}

/** Store a text in this tab across reloads, or `lasting` in this browser; null deletes it. */
export function remember(name, text, lasting = false) {
  try {
    const storage = lasting ? localStorage : sessionStorage;
    if (text === null) storage.removeItem(name);
    else storage.setItem(name, text);
  } catch {
    // The storage is full or not allowed, so the text is lost with the page.
  }
}

/** Return the stored text, or null. */
export function recall(name, lasting = false) {
  try {
    return (lasting ? localStorage : sessionStorage).getItem(name);
  } catch {
    return null;
  }
}

/** Return the stored value, or `other` if there is none of its type or it is damaged. */
export function recallValue(name, other, lasting = false) {
  try {
    const value = JSON.parse(recall(name, lasting));
    return value !== null && Array.isArray(value) === Array.isArray(other) && typeof value === typeof other ? value : other;
  } catch {
    return other;
  }
}

/** Return a human-readable size of a number of bytes. */
export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} kB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
