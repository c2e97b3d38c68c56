// Shows one view of the page at a time. The address's hash names it, so that Back and links work.

const CHAT = "chat";

export class Views {
  constructor() {
    this.opened = new Map(); // what to do when a view is opened, by its name
    this.shown = null;
    addEventListener("hashchange", () => location.hash !== this.at && this.show());
  }

  /** Add a view: the elements with its name as `data-view`. `open(rest)` gets the hash after "NAME/". */
  add(name, open = () => {}) {
    this.opened.set(name, open);
  }

  /** Show the view that the address names, or the chat. */
  show() {
    this.at = location.hash;
    const [asked, ...rest] = decoded(location.hash.slice(1)).split("/");
    const name = this.opened.has(asked) ? asked : CHAT;
    for (const node of document.querySelectorAll("[data-view]")) node.hidden = node.dataset.view !== name;
    for (const link of document.querySelectorAll("[data-opens]")) {
      if (link.dataset.opens === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.shown = name;
    this.opened.get(name)?.(rest.join("/"));
  }

  /** Go to a view, as a link to it does. It is visible on return. */
  go(name, rest = "") {
    const hash = `#${name}${rest && `/${encodeURIComponent(rest)}`}`;
    if (location.hash !== hash) location.hash = hash;
    this.show();
  }
}

/** Return an address's words; what no page has encoded stays as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
