// The messages of a chat in the order of their places. Only those around the reader are in the document,
// and what changed is drawn at most once a frame, so neither a long history nor a fast stream slows the page.

import { bodyText } from "./body.js";
import { announce, byId } from "./dom.js";
import { MessageKeys } from "./keys.js";
import { Message } from "./message.js";
import { say } from "./texts.js";
import { spoken } from "./waiting.js";

const NEAR_END_PX = 80;
const SETTLED_MS = 1500; // a text unchanged for this long is announced; running progress is not
const WINDOW = 200; // messages in the document
const STEP = 60; // by which they change while the reader scrolls
const REACH = 1.5; // screens that lie ready above and below

export class Conversation {
  /** `on` has `press(message, button)`, `reply(message, text)`, `edit(text)`, `earlier(place)`,
   *  `enlarge(shown, file)`, `arrived(entry, old)`. */
  constructor(on) {
    this.on = on;
    this.list = byId("messages");
    this.scroll = byId("scroll");
    this.items = new Map(); // by message id: { entry, view, … }; `view` while it is in the document
    this.order = []; // the items by place; those not confirmed yet come last
    this.from = this.to = 0; // the part of `order` in the document
    this.changed = new Set(); // items to draw
    this.first = Infinity; // the place of the earliest message without gaps after it
    this.loading = false; // until the messages of another conversation arrive
    this.queues = [];
    this.keys = new MessageKeys(this.list);
    byId("log").setAttribute("aria-label", say("conversation"));
    byId("log-title").textContent = say("conversation");
    byId("earlier").textContent = say("earlier");
    byId("earlier").addEventListener("click", () => this.on.earlier(this.first));
    byId("to-end").addEventListener("click", () => this.toEnd());
    const sizes = new ResizeObserver(() => this.resized());
    sizes.observe(this.list);
    sizes.observe(this.scroll); // the text field below shares its height
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.stick = true; // stay at the end until the reader scrolls up
    this.top = this.furthest = 0; // the last scroll position, and its maximum
  }

  // ---------------------------------------------------------------- what comes in

  clear() {
    for (const item of [...this.order]) if (!item.entry.pending) this.take(item); // others are not in the log yet
    this.first = Infinity;
    this.asked = this.more = null;
    this.soon();
  }

  /** Remove everything, because another conversation is opened. Its messages arrive next, unless it is new. */
  leave({ empty }) {
    for (const item of [...this.order]) this.take(item);
    this.clear();
    this.loading = !empty;
    this.stick = true;
  }

  apply(entries, { fresh, more }) {
    if (fresh) {
      this.clear();
      this.loading = false;
      this.more = more;
    }
    // Entries arrive in the order of their changes, so the first message may come last.
    if (this.first === Infinity) this.first = Math.min(Infinity, ...entries.map((entry) => entry.place));
    for (const entry of entries) this.applyOne(entry, fresh);
  }

  applyEarlier(entries, more) {
    this.first = Math.min(this.first, ...entries.map((entry) => entry.place));
    this.more = more;
    for (const entry of entries) this.applyOne(entry, true);
    this.show(this.from);
    this.soon();
  }

  applyOne(entry, old) {
    if (entry.place < this.first) return; // will be loaded with "earlier"
    const item = this.items.get(entry.message);
    if (item && !item.entry.pending && item.entry.number >= entry.number) return;
    if (!entry.shown) return this.remove(entry.message);
    const shown = this.put(entry);
    if (!old) this.notice(shown, !item);
    this.on.arrived(entry, old);
  }

  /** Show a message the person has just sent, before the server has it. */
  pending(message, text, images, note) {
    const shown = { author: "person", body: [{ kind: "text", text }], files: [], buttons: [], sizes: [] };
    this.put({ message, place: Infinity, number: -1, at: Date.now() / 1000, shown, pending: { text, images, note } });
    this.toEnd();
  }

  pendingNote(message, note) {
    const { entry } = this.items.get(message) ?? {};
    if (entry?.pending) this.put({ ...entry, pending: { ...entry.pending, note } });
  }

  /** Mark a message as refused, and offer to edit it again. */
  failed(message, reason) {
    const { entry } = this.items.get(message) ?? {};
    if (!entry?.pending) return;
    this.put({ ...entry, pending: { ...entry.pending, note: reason, failed: true } });
    announce(`${say("not_sent")} ${reason}`);
  }

  remove(message) {
    const item = this.items.get(message);
    if (item) this.take(item);
    this.soon();
  }

  /** Show what the models' queues do on the cards of waiting jobs. */
  overview(queues) {
    this.queues = queues;
    for (const item of this.order) if (item.entry.shown.waits) this.changed.add(item);
    this.soon();
  }

  /** Draw all messages again, because what is offered has changed. */
  redraw() {
    for (const item of this.order) this.changed.add(item);
    this.soon();
  }

  /** Ask again for what a broken connection did not bring. */
  connected() {
    this.asked = null;
    this.scrolled();
  }

  /** Return the texts the person has sent, oldest first. */
  lines() {
    return this.order
      .map((item) => item.entry.shown)
      .filter((shown) => shown.author === "person")
      .map((shown) => bodyText(shown.body))
      .filter(Boolean);
  }

  /** Enable the buttons of a message again once a press was answered or refused. */
  freeButtons(message) {
    for (const node of this.items.get(message)?.view?.node.querySelectorAll("[aria-busy]") ?? []) {
      node.removeAttribute("aria-busy");
    }
  }

  // ---------------------------------------------------------------- the order, and the part that is drawn

  /** Add or change a message, and draw it soon. */
  put(entry) {
    const item = this.items.get(entry.message) ?? { entry: {} };
    const moved = item.entry.place !== entry.place;
    if (moved && this.items.has(entry.message)) this.lift(item);
    item.entry = entry;
    this.items.set(entry.message, item);
    if (moved) this.insert(item);
    this.changed.add(item);
    this.soon();
    return item;
  }

  insert(item) {
    let at = this.order.length;
    while (at > 0 && this.order[at - 1].entry.place > item.entry.place) at -= 1;
    const before = at < this.from;
    const last = at === this.order.length && at === this.to && at - this.from < WINDOW + STEP;
    this.order.splice(at, 0, item);
    this.moved = true;
    if (before) this.from += 1;
    if (before || at < this.to || last) this.to += 1;
  }

  /** Take an item out of the order. */
  lift(item) {
    const at = this.order.indexOf(item);
    this.order.splice(at, 1);
    this.moved = true;
    if (at < this.from) this.from -= 1;
    if (at < this.to) this.to -= 1;
  }

  /** Take an item out of the conversation. */
  take(item) {
    this.lift(item);
    clearTimeout(item.settle);
    item.view?.node.remove();
    item.view = null;
    this.changed.delete(item);
    this.items.delete(item.entry.message);
  }

  /** Draw what has changed before the next frame. */
  soon() {
    if (this.due) return;
    this.due = true;
    const draw = () => this.due && this.draw();
    if (document.hidden) setTimeout(draw); // there are no frames
    else requestAnimationFrame(draw);
  }

  draw(follow = this.followsEnd()) {
    this.due = false;
    if (follow) this.show(this.order.length - WINDOW);
    const mark = follow ? null : this.landmark();
    this.drawWindow();
    byId("earlier").hidden = !this.more || this.from > 0;
    const { hidden } = byId("empty");
    byId("empty").hidden = this.loading || this.order.length > 0;
    if (hidden && !byId("empty").hidden) this.scroll.scrollTop = 0; // it is read from its top
    if (follow) return this.scrollToEnd();
    if (mark?.node.isConnected) this.scroll.scrollTop += mark.node.getBoundingClientRect().top - mark.top;
    this.followsEnd();
  }

  /** Choose the part of the order that is in the document. */
  show(from) {
    const [before, last] = [this.from, this.to];
    this.from = Math.max(0, Math.min(from, this.order.length - WINDOW));
    this.to = Math.min(this.order.length, this.from + WINDOW);
    this.moved ||= this.from !== before || this.to !== last;
  }

  drawWindow() {
    if (this.moved) this.arrange();
    this.moved = false;
    for (const { view, entry } of this.changed) {
      view?.show(entry);
      if (view) this.keys.drawn(view.node);
    }
    this.changed.clear();
  }

  /** Add and remove messages, so that those in the document are the chosen ones in their order. */
  arrange() {
    const drawn = new Set(this.order.slice(this.from, this.to));
    for (const node of [...this.list.children]) {
      const item = this.items.get(node.dataset.message);
      if (drawn.has(item)) continue;
      node.remove();
      if (item) item.view = null;
    }
    let next = this.list.firstElementChild;
    for (const item of drawn) {
      if (!item.view) this.changed.add(item);
      item.view ??= new Message(item.entry.message, this.offers);
      if (item.view.node === next) next = next.nextElementSibling;
      else this.list.insertBefore(item.view.node, next);
    }
  }

  /** Return the first visible message and where it is, to keep it there. */
  landmark() {
    const { top: edge } = this.scroll.getBoundingClientRect();
    for (const node of this.list.children) {
      const { top, bottom } = node.getBoundingClientRect();
      if (bottom > edge) return { node, top };
    }
    return null;
  }

  /** Return what a message offers, and what it needs of the others. */
  get offers() {
    return {
      press: (message, button) => this.on.press(message, button),
      reply: (message, text) => this.on.reply(message, text),
      edit: (message, text) => {
        this.remove(message);
        this.on.edit(text);
      },
      enlarge: (shown, file) => this.on.enlarge(shown, file),
      goTo: (message) => this.goTo(message),
      quoted: (message) => this.items.get(message)?.entry.shown,
      queues: () => this.queues,
    };
  }

  // ---------------------------------------------------------------- the reader

  notice(item, isNew) {
    const { shown } = item.entry;
    if (shown.author !== "usher") return;
    clearTimeout(item.settle);
    item.settle = setTimeout(() => this.tell(item), SETTLED_MS);
    if (isNew && !this.stick) this.offerEnd(say("to_end"));
  }

  /** Announce a message, unless its words were announced before. */
  tell(item) {
    const { shown } = item.entry;
    const text = shown.waits ? spoken(shown.body) : bodyText(shown.body);
    if (text !== item.told) announce(text);
    item.told = text;
  }

  /** Offer to go to the end. Words of new messages stay until they are seen. */
  offerEnd(label) {
    byId("to-end").textContent = label;
    byId("to-end").hidden = false;
  }

  seen() {
    byId("to-end").hidden = true;
  }

  scrolled() {
    this.followsEnd();
    if (this.atEnd()) this.seen();
    if (this.stick) return;
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    const reach = clientHeight * REACH;
    const far = this.to < this.order.length || scrollTop + clientHeight < scrollHeight - reach;
    if (far && byId("to-end").hidden) this.offerEnd(say("act_latest"));
    if (scrollTop < reach && this.from > 0) this.move(-STEP);
    else if (scrollTop < reach) this.askEarlier();
    else if (scrollTop + clientHeight > scrollHeight - reach && this.to < this.order.length) this.move(STEP);
  }

  move(by) {
    this.show(this.from + by);
    this.soon();
  }

  /** Request earlier messages, once for each place. */
  askEarlier() {
    if (!this.more || this.asked === this.first) return;
    this.asked = this.first;
    this.on.earlier(this.first);
  }

  /** Return whether the page stays at its end, which it does until the reader scrolls up. */
  followsEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    if (this.away || clientHeight === 0) return this.stick;
    const furthest = scrollHeight - clientHeight;
    // Growing content does not move the position, and shrinking content lowers the maximum too.
    // Any other upward move is the reader's.
    if (this.atEnd()) this.stick = true;
    else if (scrollTop < this.top && furthest >= this.furthest) this.stick = false;
    [this.top, this.furthest] = [scrollTop, furthest];
    return this.stick;
  }

  /** Images and streamed text grow after they are added: stay at the end if it was visible. */
  resized() {
    const away = this.scroll.clientHeight === 0; // another view is shown
    if (this.away && !away) this.scroll.scrollTop = this.top;
    this.away = away;
    if (!away && this.followsEnd()) this.scrollToEnd();
  }

  atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    return this.to === this.order.length && scrollTop + clientHeight >= scrollHeight - NEAR_END_PX;
  }

  toEnd() {
    this.stick = true;
    this.draw(true);
  }

  scrollToEnd() {
    if (this.order.length) this.scroll.scrollTop = this.scroll.scrollHeight;
    this.followsEnd();
    this.seen();
  }

  goTo(message) {
    const at = this.order.indexOf(this.items.get(message));
    if (at < 0) return;
    this.stick = false;
    this.show(at - WINDOW / 2);
    this.draw(false);
    const { node } = this.order[at].view;
    node.scrollIntoView({ block: "center" });
    node.focus({ preventScroll: true });
  }
}
