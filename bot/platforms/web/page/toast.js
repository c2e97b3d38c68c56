// A short notice over the page. It leaves by itself, and the next one replaces it.

import { byId } from "./dom.js";

const SHOWN_MS = 5000;
let leaves = null;

/** Show a notice for a few seconds. */
export function toast(text) {
  clearTimeout(leaves);
  byId("toast").textContent = text;
  leaves = setTimeout(() => (byId("toast").textContent = ""), SHOWN_MS);
}
