// The messages on the page. Each message is one element that is updated in place. Only changed parts
// are replaced, so nothing flickers, and focus, selection and scroll position stay.

import { bodyText, drawBody, hasMarkdown, markdownText } from "./body.js";
import { announce, byId, make } from "./dom.js";
import { MessageKeys } from "./keys.js";
import { copyText } from "./markdown.js";
import { clockText, fullText } from "./moments.js";
import { isPast, placeShowButtons } from "./past.js";
import { fileNode, isImage, Large, letGo, swapWhenLoaded } from "./images.js";
import { say } from "./texts.js";

const NEAR_END_PX = 80;
const SETTLED_MS = 1500; // a text unchanged for this long is announced; running progress is not

export class Conversation {
  /** `on` has `press(message, button)`, `reply(message, text)`, `edit(text)`, `earlier(place)`. */
  constructor(on) {
    this.on = on;
    this.list = byId("messages");
    this.scroll = byId("scroll");
    this.views = new Map(); // by message id: { entry, node, … }
    this.first = Infinity; // the place of the earliest message without gaps after it
    this.unread = 0;
    this.large = new Large();
    this.keys = new MessageKeys(this.list);
    byId("log").setAttribute("aria-label", say("conversation"));
    byId("earlier").textContent = say("earlier");
    byId("earlier").addEventListener("click", () => this.on.earlier(this.first));
    byId("to-end").textContent = say("to_end");
    byId("to-end").addEventListener("click", () => this.toEnd());
    // Images and streamed text grow after they are added: stay at the end if it was visible.
    const resized = new ResizeObserver(() => this.followsEnd() && this.toEnd());
    resized.observe(this.list);
    resized.observe(this.scroll); // the text field below shares its height
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.stick = true; // stay at the end until the reader scrolls up
    this.top = this.furthest = 0; // the last scroll position, and its maximum
    addEventListener("focus", () => this.seen());
  }

  // ---------------------------------------------------------------- what comes in

  clear() {
    for (const [id, view] of this.views) {
      if (view.entry.pending) continue; // not confirmed yet, so not in the log
      view.node.remove();
      this.views.delete(id);
    }
    this.first = Infinity;
  }

  apply(entries, { fresh, more }) {
    const follow = this.followsEnd(); // before any change, because the scroll event comes later
    if (fresh) {
      this.clear();
      byId("earlier").hidden = !more;
    }
    // Entries arrive in the order of their changes, so the first message may come last.
    if (this.first === Infinity) this.first = Math.min(Infinity, ...entries.map((entry) => entry.place));
    for (const entry of entries) this.applyOne(entry, fresh);
    this.showEmpty();
    if (follow) this.toEnd();
  }

  applyEarlier(entries, more) {
    const height = this.scroll.scrollHeight;
    this.first = Math.min(this.first, ...entries.map((entry) => entry.place));
    for (const entry of entries) this.applyOne(entry, true);
    byId("earlier").hidden = !more;
    this.scroll.scrollTop += this.scroll.scrollHeight - height; // keep the visible messages in place
  }

  applyOne(entry, old) {
    if (entry.place < this.first) return; // will be loaded with "earlier"
    const view = this.views.get(entry.message);
    if (view && !view.entry.pending && view.entry.number >= entry.number) return;
    if (!entry.shown) return this.remove(entry.message);
    const shown = view ?? this.addView(entry.message);
    shown.node.classList.remove("pending", "failed");
    this.show(shown, entry);
    this.place(shown);
    if (!old) this.notice(shown, !view);
  }

  /** Show a message the person has just sent, before the server has it. */
  pending(message, text, images, note) {
    const view = this.views.get(message) ?? this.addView(message);
    const shown = { author: "person", body: [{ kind: "text", text }], files: [], buttons: [] };
    this.show(view, { message, place: Infinity, number: -1, at: Date.now() / 1000, shown, pending: true });
    view.node.classList.add("pending");
    view.files.replaceChildren(...images.map((url) => make("img", { src: url, alt: "", className: "sent" })));
    view.meta.textContent = note;
    this.place(view);
    this.showEmpty();
    this.toEnd();
  }

  pendingNote(message, note) {
    const view = this.views.get(message);
    if (view?.entry.pending) view.meta.textContent = note;
  }

  /** Mark a message as refused, and offer to edit it again. */
  failed(message, reason, text) {
    const view = this.views.get(message);
    if (!view?.entry.pending) return;
    view.node.classList.add("failed");
    const again = make("button", { type: "button", className: "plain", textContent: say("edit_again") });
    again.addEventListener("click", () => {
      this.remove(message);
      this.on.edit(text);
    });
    view.meta.replaceChildren(`${say("not_sent")} ${reason} `, again);
    announce(`${say("not_sent")} ${reason}`);
  }

  remove(message) {
    const view = this.views.get(message);
    if (!view) return;
    clearTimeout(view.settle);
    view.node.remove();
    this.views.delete(message);
    this.showEmpty();
  }

  /** Return the texts the person has sent, oldest first. */
  lines() {
    return [...this.list.children]
      .map((node) => this.views.get(node.dataset.message)?.entry.shown)
      .filter((shown) => shown?.author === "person")
      .map((shown) => bodyText(shown.body))
      .filter(Boolean);
  }

  /** Enable the buttons of a message again once a press was answered or refused. */
  freeButtons(message) {
    for (const button of this.views.get(message)?.node.querySelectorAll(".button") ?? []) {
      button.removeAttribute("aria-busy");
    }
  }

  // ---------------------------------------------------------------- one message

  addView(message) {
    const quote = make("button", { type: "button", className: "plain quote", hidden: true });
    const body = make("div", { className: "body" });
    const files = make("div", { className: "files", hidden: true });
    const buttons = make("div", { className: "buttons", hidden: true });
    const meta = make("p", { className: "meta" });
    const node = make("li", { className: "message", tabIndex: 0, "data-message": message },
      make("div", { className: "bubble" }, quote, body, files, buttons), meta);
    const view = { node, quote, body, files, buttons, meta, entry: { place: Infinity }, drawn: {} };
    quote.addEventListener("click", () => this.goTo(view.entry.shown.reply_to));
    this.views.set(message, view);
    return view;
  }

  show(view, entry) {
    view.entry = entry;
    const { shown } = entry;
    view.node.classList.toggle("mine", shown.author === "person");
    view.node.classList.toggle("quiet", Boolean(shown.quiet));
    const sections = {
      quote: [shown.reply_to, () => this.drawQuote(view, shown.reply_to)],
      body: [shown.body, () => drawBody(view.body, shown.body, shown.author === "usher")],
      files: [[shown.files, shown.spoiler], () => this.drawFiles(view, shown)],
      buttons: [[shown.buttons, isPast(shown.body) && shown.body], () => this.drawButtons(view, entry)],
      meta: [[entry.at, entry.pending, hasMarkdown(shown)], () => this.drawMeta(view, entry)],
    };
    for (const [name, [value, draw]] of Object.entries(sections)) {
      const key = JSON.stringify(value ?? null);
      if (view.drawn[name] !== key || entry.pending) draw();
      view.drawn[name] = entry.pending ? undefined : key;
    }
    const author = shown.author === "person" ? say("you") : "Usher";
    view.node.setAttribute("aria-label", `${author}: ${shortText(shown)}`);
    this.keys.drawn(view.node);
  }

  drawQuote(view, message) {
    const answered = message && this.views.get(message);
    view.quote.hidden = !answered;
    if (answered) view.quote.textContent = `↰ ${shortText(answered.entry.shown)}`;
  }

  drawFiles(view, shown) {
    const { files, spoiler } = shown;
    const old = new Map([...view.files.children].map((node) => [node.dataset.file, node]));
    const images = files.filter(isImage);
    const seen = [...old.values()].some((node) => node.matches(".image:not(.spoiler)")); // a preview was already visible
    const hidden = spoiler && !seen;
    view.files.hidden = files.length === 0;
    view.files.classList.toggle("several", images.length > 1);
    for (const node of [...old.values(), view.files.coming]) {
      if (node && !files.some((file) => file.id === node.dataset.file)) letGo(node);
    }
    view.files.coming = null;
    const nodes = files.map((file, at) =>
      old.get(file.id) ?? fileNode(file, (id) => this.enlarge(view, id), hidden, told(shown, at)));
    if (images.length > 1) images.forEach((file, at) => { nodes[files.indexOf(file)].dataset.number = at + 1; });
    if (images.length === 1 && files.length === 1) swapWhenLoaded(view.files, nodes[0]);
    else view.files.replaceChildren(...nodes);
  }

  enlarge(view, file) {
    this.large.show(view.entry.shown.files.filter(isImage), file);
  }

  drawButtons(view, entry) {
    const had = view.buttons.contains(document.activeElement);
    const draw = (button) => this.buttonNode(button, entry.message);
    const rows = placeShowButtons(view.body, entry.shown.buttons, draw).map((row) =>
      make("div", { className: "button-row" }, ...row.map(draw)));
    view.buttons.replaceChildren(...rows);
    view.buttons.hidden = rows.length === 0;
    if (had) (view.buttons.querySelector("button") ?? view.node).focus({ preventScroll: true });
  }

  buttonNode(button, message) {
    const node = make("button", { type: "button", className: button.danger ? "button danger" : "button" },
      ...labelNodes(button.label));
    if (button.hint) {
      node.title = button.hint;
      node.setAttribute("aria-label", button.hint);
    }
    node.addEventListener("click", () => {
      if (node.getAttribute("aria-busy")) return;
      node.setAttribute("aria-busy", "true");
      this.on.press(message, button);
    });
    return node;
  }

  drawMeta(view, entry) {
    const { shown } = entry;
    const at = make("time", { title: fullText(entry.at), dateTime: new Date(entry.at * 1000).toISOString() }, clockText(entry.at));
    view.meta.replaceChildren(at);
    if (shown.author !== "usher" || shown.quiet) return;
    const reply = make("button", { type: "button", className: "plain", textContent: say("reply") });
    reply.addEventListener("click", () => this.on.reply(entry.message, shortText(view.entry.shown)));
    view.meta.append(reply);
    if (!hasMarkdown(shown)) return;
    const copy = make("button", { type: "button", className: "plain", textContent: say("copy") });
    copy.addEventListener("click", () => copyText(markdownText(view.entry.shown.body), copy));
    view.meta.append(copy);
  }

  /** Move a message to its place; unconfirmed messages stay last. */
  place(view) {
    const { place } = view.entry;
    let before = this.list.lastElementChild;
    while (before && (before === view.node || this.views.get(before.dataset.message).entry.place > place)) {
      before = before.previousElementSibling;
    }
    const next = before ? before.nextElementSibling : this.list.firstElementChild;
    if (next !== view.node && !(view.node.isConnected && view.node.nextElementSibling === next)) {
      this.list.insertBefore(view.node, next);
    }
  }

  // ---------------------------------------------------------------- the reader

  notice(view, isNew) {
    const { shown } = view.entry;
    if (shown.author !== "usher") return;
    clearTimeout(view.settle);
    view.settle = setTimeout(() => announce(bodyText(view.entry.shown.body)), SETTLED_MS);
    if (isNew && !this.stick) byId("to-end").hidden = false;
    if (document.hidden || !document.hasFocus()) {
      this.unread += isNew || shown.files.length > 0 ? 1 : 0;
      document.title = this.unread ? "● Usher" : "Usher";
    }
  }

  seen() {
    byId("to-end").hidden = true;
    if (document.hidden || !document.hasFocus()) return; // nobody has seen it yet
    this.unread = 0;
    document.title = "Usher";
  }

  scrolled() {
    this.followsEnd();
    if (this.atEnd()) this.seen();
  }

  /** Return whether the page stays at its end, which it does until the reader scrolls up. */
  followsEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    const furthest = scrollHeight - clientHeight;
    // Growing content does not move the position, and shrinking content lowers the maximum too.
    // Any other upward move is the reader's.
    if (this.atEnd()) this.stick = true;
    else if (scrollTop < this.top && furthest >= this.furthest) this.stick = false;
    [this.top, this.furthest] = [scrollTop, furthest];
    return this.stick;
  }

  atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    return scrollTop + clientHeight >= scrollHeight - NEAR_END_PX;
  }

  toEnd() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.followsEnd();
    this.seen();
  }

  goTo(message) {
    const view = this.views.get(message);
    view?.node.scrollIntoView({ block: "center" });
    view?.node.focus({ preventScroll: true });
  }

  showEmpty() {
    byId("empty").hidden = this.views.size > 0;
  }
}

/** Return a button's label, with its leading emoji hidden from screen readers. */
function labelNodes(label) {
  const sign = /^(\p{Extended_Pictographic}\p{M}?\s*)(?=\p{L})/u.exec(label)?.[0];
  if (!sign) return [label];
  return [make("span", {}, make("span", { "aria-hidden": "true" }, sign), label.slice(sign.length))];
}

const shortText = (shown) => bodyText(shown.body).replace(/\s+/g, " ").slice(0, 80) || say("image");

/** Return an image's name and description for screen readers. */
function told(shown, at) {
  const mine = shown.author === "person";
  const number = shown.files.length > 1 ? ` ${at + 1}` : "";
  const name = mine ? shown.files[at].name || say("image") : `${say("image")}${number}`;
  return { name, shows: mine ? name : `${name}: ${shortText(shown)}` };
}
