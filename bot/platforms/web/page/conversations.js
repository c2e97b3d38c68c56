// The person's conversations in the side bar: opened, searched, named and deleted.

import { byId, make } from "./dom.js";
import { ask, menuButton } from "./menu.js";
import { fullText } from "./moments.js";
import { say } from "./texts.js";

const AT_FIRST = 40; // conversations in the list, as many as the server sends at first
const MOST = 500;
const TYPED_MS = 250; // the search waits until nothing was typed for this long
const NAME_MOST = 80; // characters

export class Conversations {
  /**
   * `on` has `begin()`, `chosen()`, `more(count)`, `find(text)`, which resolves to rows, `rename(key, name)`,
   * `remove(key)`, `ask(form)`, which shows a form, and `news(row)` for a conversation with something new.
   */
  constructor(on) {
    this.on = on;
    this.rows = null; // until the list arrives
    this.hasMore = false; // whether there are others than these
    this.found = null; // the rows of the search, or null without one
    this.most = AT_FIRST;
    this.opened = null;
    this.list = byId("talks");
    this.list.setAttribute("aria-label", say("conv_list"));
    byId("talk-new").append(say("conv_new"));
    byId("talk-new").addEventListener("click", () => this.on.begin());
    byId("talks-more").textContent = say("conv_more");
    byId("talks-more").addEventListener("click", () => {
      this.most = Math.min(this.most + AT_FIRST, MOST);
      this.on.more(this.most);
    });
    this.search = byId("talk-find");
    this.search.placeholder = say("conv_find");
    this.search.setAttribute("aria-label", say("conv_find"));
    this.search.addEventListener("input", () => {
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.find(), TYPED_MS);
    });
  }

  /** Show the newest conversations. `more` means that there are others. */
  show(rows, more) {
    const before = new Map((this.rows ?? rows).map((row) => [row.key, row.unread]));
    this.rows = rows;
    this.hasMore = more;
    for (const row of rows) if (row.unread > (before.get(row.key) ?? 0)) this.on.news(row);
    if (this.search.value.trim()) this.find(); // its answer may have been lost with a connection
    else this.draw();
  }

  /** Ask for as many conversations again as before the connection broke. */
  welcomed() {
    if (this.most > AT_FIRST) this.on.more(this.most);
  }

  /** Mark a conversation as the open one; null if none is shown. */
  open(key) {
    this.opened = key;
    this.draw();
  }

  /** Return whether the open conversation has unread messages. */
  get unread() {
    return (this.rows ?? []).some((row) => row.key === this.opened && row.unread);
  }

  async find() {
    const text = this.search.value.trim();
    if (!text) {
      this.found = null;
      return this.draw();
    }
    const rows = await this.on.find(text);
    if (this.search.value.trim() !== text) return; // more was typed in the meantime
    this.found = rows;
    this.draw();
  }

  draw() {
    const rows = this.found ?? this.rows ?? [];
    const old = new Map([...this.list.children].map((node) => [node.dataset.key, node]));
    const nodes = rows.map((row) => this.rowNode(row, old.get(row.key)));
    if (nodes.some((node, at) => node !== this.list.children[at]) || nodes.length !== this.list.children.length) {
      const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
      const at = [...this.list.children].findIndex((node) => node.contains(focused));
      this.list.replaceChildren(...nodes);
      // After a conversation was deleted, the keyboard goes on at the one that took its place.
      const next = focused?.isConnected ? focused : (nodes[at] ?? nodes.at(-1))?.firstElementChild ?? byId("talk-new");
      if (focused) next.focus({ preventScroll: true });
    }
    this.offerMore(old.size);
    byId("talks-none").textContent = this.found?.length === 0 ? say("conv_none") : "";
  }

  /** Offer more conversations than these. Where all are shown, the keyboard goes on at the first new one. */
  offerMore(before) {
    const more = byId("talks-more");
    const left = more === document.activeElement;
    more.hidden = !this.hasMore || this.found !== null;
    if (left && more.hidden) this.list.children[before]?.firstElementChild.focus();
  }

  rowNode(row, old) {
    const node = old ?? this.newRow(row.key);
    const [link, options] = node.children;
    const [dot, title] = link.children;
    title.textContent = row.title;
    link.title = `${row.title} · ${fullText(row.at)}`;
    dot.hidden = !row.unread || row.key === this.opened;
    dot.firstChild.textContent = say("conv_unread");
    options.title = options.ariaLabel = say("conv_options", { title: row.title });
    if (row.key === this.opened) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    node.row = row;
    return node;
  }

  newRow(key) {
    const dot = make("span", { className: "talk-new" }, make("span", { className: "unseen" }));
    const link = make("a", { className: "side-link", href: `#chat/${key}` }, dot, make("span", { className: "talk-title" }));
    const options = menuButton("", [
      { name: "edit", label: say("conv_rename"), act: () => this.askName(node.row) },
      { name: "delete", label: say("conv_delete"), danger: true, act: () => this.askRemoval(node.row) },
    ], "icon");
    const node = make("li", { className: "talk", "data-key": key }, link, options);
    link.addEventListener("click", () => this.on.chosen());
    return node;
  }

  // ---------------------------------------------------------------- naming and deleting

  askName({ key, title }) {
    const name = { name: "name", label: say("conv_name"), value: title, long: false, required: false, most: NAME_MOST };
    const take = (values) => this.on.rename(key, values.name.toWellFormed());
    this.on.ask({ title: say("conv_rename"), fields: [name], send: say("conv_save"), take });
  }

  async askRemoval({ key, title }) {
    if (await ask(`${say("conv_sure", { title })} ${say("conv_sure_text")}`, say("conv_delete"))) this.on.remove(key);
  }
}
