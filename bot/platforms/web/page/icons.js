// Stroked icons of 24 px. They only decorate: the words beside them, or an aria-label, name the control.

const SVG = "http://www.w3.org/2000/svg";
const SQUARE = "M6 4h12a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z";
// By the command of a button, or by what a control of the page does.
const PATHS = {
  again: "M20 4v6h-6M19.4 14a8 8 0 1 1-1.3-7.6L20 10",
  cancel: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  delete: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  edit: "M4 20h4L19.5 8.5l-4-4L4 16zM13 7l4 4",
  "edit-image": "M20 4l-8.5 8.5M12 13a3.2 3.2 0 0 0-4.5 3c0 2-1.5 3.5-4 4 5.5.8 9.5-.6 9.5-4a3.2 3.2 0 0 0-1-3z",
  favourite: "M12 3.8l2.6 5.2 5.8.8-4.2 4.1 1 5.7-5.2-2.7-5.2 2.7 1-5.7L3.6 9.8l5.8-.8z",
  more: [5, 12, 19].map((x) => `M${x - 0.8} 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0`).join(""),
  "new-topic": "M12 5v14M5 12h14",
  reply: "M9 7l-5 5 5 5M4 12h10a6 6 0 0 1 6 6",
  show: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  speak: "M4 10v4h4l5 4V6l-5 4zM16.5 9a4 4 0 0 1 0 6M19 6.5a8 8 0 0 1 0 11",
  start: "M4 20V6h9M4 17l5-5 4 4M18 3v8M14 7h8",
  upscale: "M4 14v6h6M20 10V4h-6M4 20l7-7M20 4l-7 7",
  vary: `${SQUARE}M8.5 8.5h.01M15.5 8.5h.01M12 12h.01M8.5 15.5h.01M15.5 15.5h.01`,
  "vary-subtle": `${SQUARE}M9 15h.01M15 9h.01`,
  video: "M4 6h11v12H4zM15 10l5-3v10l-5-3",
};

/** Make an icon, or return null if there is none of that name. */
export function icon(name) {
  if (!Object.hasOwn(PATHS, name)) return null;
  const node = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  node.setAttribute("class", "sign");
  node.setAttribute("viewBox", "0 0 24 24");
  node.setAttribute("aria-hidden", "true");
  node.append(path);
  return node;
}
