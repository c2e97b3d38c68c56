// Elements that stay the same while their data changes, so that focus and selection survive redraws.

/** Show each item as one part, in order, and remove the parts of missing items.
 *  `create(item)` returns a part: an object with a `node` and a method `draw(item)`. */
export function keyed(list, items, keyOf, create) {
  const parts = (list.parts ??= new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, part] of parts) {
    if (wanted.has(key)) continue;
    keepFocus(list, part.node);
    part.node.remove();
    parts.delete(key);
  }
  let before = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (!parts.has(key)) parts.set(key, create(item));
    const part = parts.get(key);
    part.draw(item);
    if (part.node === before) before = before.nextElementSibling;
    else moveTo(list, part.node, before);
  }
}

function moveTo(list, node, before) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  list.insertBefore(node, before);
  if (focused) focused.focus({ preventScroll: true });
}

/** Move the focus before its element is removed, so that keyboard users keep their place. */
function keepFocus(list, node) {
  if (!node.contains(document.activeElement)) return;
  const next = [node.nextElementSibling, node.previousElementSibling]
    .map((other) => other?.querySelector("button, summary")).find(Boolean);
  (next ?? list.closest("section").querySelector("h1, h2")).focus({ preventScroll: true });
}

/** Set an element's text if it changed. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replace the nodes of a text that contains moments, if its parts changed. */
export function writeParts(node, parts, drawn) {
  const told = JSON.stringify(parts);
  if (node.told === told) return;
  node.told = told;
  node.replaceChildren(...drawn(parts));
}
