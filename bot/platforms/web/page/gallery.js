// The gallery: a person's own images, videos and sounds by day, with filters and endless scrolling.

import { byId, make } from "./dom.js";
import { resultAddress } from "./large.js";
import { say } from "./texts.js";
import { Tiles } from "./tiles.js";

const TYPING_MS = 250;
const FRESH_MS = 1500;
const AHEAD_PX = 1600; // loads the next page before the reader reaches the end

/** Return what the large view shows for a result. */
const thingOf = (item, hidden) => ({
  address: resultAddress(item), name: item.name, size: item.size, kind: item.kind, hidden, item,
});

export class Gallery {
  /** `large` is the large view, and `on` has `mark(item)`, `stored`, `deleting`, `remove(item)` and `missing(item)`. */
  constructor(large, on) {
    this.large = large;
    this.on = on;
    this.scroll = byId("gallery");
    this.things = [];
    this.next = null;
    this.turn = 0; // answers to earlier questions are ignored
    this.first = ""; // the first page as it was last loaded
    this.tiles = new Tiles(byId("gallery-days"), this.scroll, {
      mark: (item) => on.mark(item),
      remove: (item) => on.remove(item),
      open: (thing) => this.enlarge(thing),
      missing: (item) => on.missing(item),
    });
    this.label();
    this.listen();
  }

  label() {
    byId("gallery-title").textContent = say("gallery_view");
    byId("gallery-text").placeholder = say("gallery_search");
    byId("gallery-text").setAttribute("aria-label", say("gallery_search"));
    byId("gallery-kind").setAttribute("aria-label", say("gallery_kind"));
    byId("gallery-model").setAttribute("aria-label", say("gallery_model"));
    byId("gallery-favourites").textContent = `★ ${say("gallery_favourites")}`;
    byId("gallery-favourites").setAttribute("aria-label", say("gallery_favourites"));
    byId("gallery-retry").textContent = say("gallery_retry");
    byId("gallery-kind").replaceChildren(...[["", say("gallery_all_kinds")], ["image", say("gallery_images")],
      ["video", say("gallery_videos")], ["sound", say("gallery_sounds")]].map(option));
    byId("gallery-model").replaceChildren(option(["", say("gallery_all_models")]));
  }

  listen() {
    byId("gallery-filter").addEventListener("submit", (event) => event.preventDefault());
    byId("gallery-text").addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.reload(), TYPING_MS);
    });
    for (const id of ["gallery-kind", "gallery-model"]) byId(id).addEventListener("change", () => this.reload());
    byId("gallery-favourites").addEventListener("click", () => {
      const pressed = byId("gallery-favourites").getAttribute("aria-pressed") === "true";
      byId("gallery-favourites").setAttribute("aria-pressed", String(!pressed));
      this.reload();
    });
    byId("gallery-retry").addEventListener("click", () => (this.things.length ? this.loadMore() : this.reload()));
    this.scroll.addEventListener("scroll", () => this.nearEnd() && this.loadMore(), { passive: true });
  }

  // ---------------------------------------------------------------- loading

  /** Load what is new since the gallery was last visible. Without anything new, it stays as it was. */
  async open() {
    if (this.first) await this.ask((answer) => JSON.stringify(answer) !== this.first && this.restart(answer));
    else await this.reload();
  }

  /** Show soon what has changed. For a reader who is busy with results, only what is gone leaves. */
  soon() {
    this.due ??= setTimeout(() => {
      this.due = null;
      if (this.loading) return this.soon();
      const reads = this.scroll.scrollTop > 0 || byId("gallery-days").contains(document.activeElement);
      if (this.large.dialog.open || (reads && !this.scroll.hidden)) this.ask((answer) => this.dropGone(answer));
      else if (!this.scroll.hidden) this.open();
    }, FRESH_MS);
  }

  /** Remove the results that the newest page no longer has. Older ones leave when they are touched. */
  dropGone({ items, next }) {
    const there = new Set(items.map(({ job }) => job));
    const gone = new Map(this.things.map(({ item }) => [item.job, item]).filter(([job]) => job >= (next ?? 0) && !there.has(job)));
    for (const item of gone.values()) this.on.missing(item);
  }

  async reload() {
    await this.ask((answer) => this.restart(answer));
  }

  restart(answer) {
    this.first = JSON.stringify(answer);
    this.things = [];
    this.tiles.clear();
    this.scroll.scrollTop = 0;
    const chosen = byId("gallery-model").value;
    const models = new Set([...answer.models, chosen].filter(Boolean));
    byId("gallery-model").replaceChildren(...[["", say("gallery_all_models")], ...[...models].map((name) => [name, name])]
      .map(option));
    byId("gallery-model").value = chosen;
    this.take(answer);
  }

  async loadMore() {
    if (this.next === null || this.loading) return;
    await this.ask((answer) => this.take(answer), this.next);
  }

  /** Ask for a page and call `take` with it, unless another question was asked meanwhile. */
  async ask(take, before) {
    const turn = ++this.turn;
    this.loading = true;
    byId("gallery-retry").hidden = true;
    try {
      const page = await this.read(before);
      if (turn === this.turn) take(page);
    } catch {
      if (turn === this.turn) this.failed();
    } finally {
      if (turn === this.turn) this.loading = false;
    }
    if (turn === this.turn && byId("gallery-retry").hidden && this.nearEnd()) await this.loadMore();
  }

  /** Return a page that knows all that the reader marked or deleted, even while it was on its way. */
  async read(before) {
    const { stored } = this.on;
    await stored;
    const answer = await fetch(`gallery?${this.query(before)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    const page = await answer.json();
    if (stored !== this.on.stored) return this.read(before);
    return { ...page, items: page.items.filter(({ job }) => !this.on.deleting.has(job)) };
  }

  query(before) {
    const asked = new URLSearchParams();
    const values = {
      before, kind: byId("gallery-kind").value, model: byId("gallery-model").value, text: byId("gallery-text").value.trim(),
      favourite: byId("gallery-favourites").getAttribute("aria-pressed") === "true" ? "1" : "",
    };
    for (const [name, value] of Object.entries(values)) if (value) asked.set(name, value);
    return asked;
  }

  take({ items, next, hidden }) {
    const things = items.map((item) => thingOf(item, hidden));
    this.next = next;
    this.things.push(...things);
    this.tiles.add(things);
    this.showState();
  }

  showState() {
    const filtered = String(this.query()) !== "";
    const none = filtered ? say("gallery_none_found") : say("gallery_none");
    this.note(this.things.length || this.next !== null ? "" : none);
  }

  failed() {
    this.note(say("gallery_lost"));
    byId("gallery-retry").hidden = false;
  }

  note(text) {
    byId("gallery-state").textContent = text;
  }

  nearEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroll;
    return clientHeight > 0 && scrollTop + clientHeight > scrollHeight - AHEAD_PX;
  }

  // ---------------------------------------------------------------- one result

  enlarge(thing) {
    this.large.show(this.things, this.things.indexOf(thing), {
      more: () => this.loadMore(),
      closed: (last) => {
        if (last && this.scroll.offsetParent !== null) this.tiles.focus(last);
      },
    });
  }

  removed(job) {
    for (let at = this.things.length; at--;) if (this.things[at].item.job === job) this.things.splice(at, 1);
    this.first = "changed";
    this.tiles.removeJob(job);
    this.showState();
  }

  /** Show a changed result, which may be another copy of the same one. */
  changed(item) {
    const thing = this.things.find((each) => each.item.job === item.job && each.item.number === item.number);
    if (!thing) return;
    thing.item.favourite = item.favourite;
    this.tiles.redraw(thing);
    if (byId("gallery-favourites").getAttribute("aria-pressed") === "true") this.soon();
  }
}

const option = ([value, text]) => make("option", { value }, text);
