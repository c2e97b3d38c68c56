// The tiles of the gallery, by day. Only those near the visible part have elements.

import { make } from "./dom.js";
import { locale, say } from "./texts.js";
import { resultAddress } from "./large.js";

const NEAR_PX = 1200;
const CHUNK = 240; // tiles that are drawn and removed together
const longDay = new Intl.DateTimeFormat(locale, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const nearDay = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const DAY_MS = 24 * 60 * 60 * 1000;

/** Return the name of the day of a moment in UNIX seconds, such as "today". */
function dayName(at) {
  const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  const date = new Date(at * 1000);
  const ago = Math.round((midnight(new Date()) - midnight(date)) / DAY_MS);
  return ago < 2 ? nearDay.format(-ago, "day") : longDay.format(date);
}

export class Tiles {
  /** `on` has `open(thing)`, `mark(item)`, `remove(item)`, and `missing(item)` for one without an image. */
  constructor(box, scroll, on) {
    this.box = box;
    this.on = on;
    this.chunks = [];
    this.near = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const chunk = this.chunks.find(({ node }) => node === target);
        if (chunk) (isIntersecting ? this.fill : this.empty).call(this, chunk);
      }
    }, { root: scroll, rootMargin: `${NEAR_PX}px 0px` });
    new ResizeObserver(() => this.resize()).observe(box);
    box.addEventListener("keydown", (event) => this.key(event));
  }

  clear() {
    this.near.disconnect();
    this.chunks = [];
    this.box.replaceChildren();
  }

  add(things) {
    for (const thing of things) {
      const last = this.chunks.at(-1);
      const day = dayName(thing.item.at);
      if (last?.day === day && last.things.length < CHUNK) {
        last.things.push(thing);
        if (last.filled) last.list.append(this.tile(thing, last));
      } else {
        this.addChunk(day, thing);
      }
    }
    this.resize();
  }

  addChunk(day, thing) {
    const title = make("h2", { hidden: this.chunks.at(-1)?.day === day }, day);
    const list = make("ul", { className: "tiles" });
    const node = make("section", { "aria-label": day }, title, list);
    const chunk = { day, node, title, list, things: [thing], filled: false };
    this.chunks.push(chunk);
    this.box.append(node);
    this.fill(chunk);
    this.near.observe(node);
  }

  /** Remove the tiles of a job. */
  removeJob(job) {
    for (const chunk of this.chunks) {
      const left = chunk.things.filter(({ item }) => item.job !== job);
      if (left.length === chunk.things.length) continue;
      chunk.things = left;
      for (const tile of chunk.list.querySelectorAll(`[data-job="${job}"]`)) tile.parentNode.remove();
      if (!left.length) chunk.node.remove();
    }
    this.chunks = this.chunks.filter(({ things }) => things.length);
    this.chunks.forEach(({ day, title }, at) => { title.hidden = this.chunks[at - 1]?.day === day; });
    this.resize();
  }

  /** Draw a tile again after its item has changed. */
  redraw(thing) {
    const chunk = this.chunks.find(({ things }) => things.includes(thing));
    const old = this.find(thing);
    if (!old) return;
    const had = old === document.activeElement;
    const node = this.tile(thing, chunk);
    old.parentNode.replaceWith(node);
    if (had) node.firstElementChild.focus();
  }

  focus(thing) {
    const chunk = this.chunks.find(({ things }) => things.includes(thing));
    if (!chunk) return;
    this.fill(chunk);
    this.find(thing).focus();
  }

  find({ item }) {
    return this.box.querySelector(`[data-job="${item.job}"][data-number="${item.number}"]`);
  }

  // ---------------------------------------------------------------- what is drawn

  fill(chunk) {
    if (chunk.filled) return;
    chunk.filled = true;
    chunk.list.style.height = "";
    chunk.list.replaceChildren(...chunk.things.map((thing) => this.tile(thing, chunk)));
  }

  /** Remove the elements of a chunk, whose height stays. */
  empty(chunk) {
    if (!chunk.filled || chunk.node.contains(document.activeElement)) return;
    const height = chunk.list.offsetHeight;
    if (!height) return; // the gallery is not visible
    chunk.filled = false;
    chunk.list.style.height = `${height}px`;
    for (const image of chunk.list.querySelectorAll("img")) {
      image.onerror = null;
      image.removeAttribute("src"); // those still loading would delay the visible ones
    }
    chunk.list.replaceChildren();
  }

  columns() {
    const drawn = this.chunks.find(({ filled }) => filled);
    return drawn ? getComputedStyle(drawn.list).gridTemplateColumns.split(" ") : [];
  }

  /** Give chunks without elements the height that they would have. */
  resize() {
    const columns = this.columns();
    const gap = parseFloat(getComputedStyle(this.box).getPropertyValue("--gap"));
    for (const { list, things, filled } of columns.length ? this.chunks : []) {
      const rows = Math.ceil(things.length / columns.length);
      if (!filled) list.style.height = `${rows * (parseFloat(columns[0]) + gap) - gap}px`;
    }
  }

  tile(thing, chunk) {
    const { item } = thing;
    const image = make("img", { loading: "lazy", decoding: "async", alt: "", src: `${resultAddress(item)}?small=1` });
    image.onerror = () => this.on.missing(item);
    const node = make("button", { type: "button", className: "tile", "data-job": item.job, "data-number": item.number,
      "aria-label": tileLabel(thing), title: thing.hidden ? "" : item.prompt.slice(0, 200),
      tabIndex: chunk.things[0] === thing ? 0 : -1 }, image,
    item.kind === "sound" && !thing.hidden ? make("span", { className: "tile-words", "aria-hidden": "true" }, item.prompt) : null,
    item.favourite ? make("span", { className: "tile-mark", "aria-hidden": "true" }, "★") : null);
    if (thing.hidden) {
      node.classList.add("spoiler");
      node.dataset.hidden = say("hidden_image");
    }
    node.addEventListener("click", () => {
      if (!thing.hidden) return this.on.open(thing);
      thing.hidden = false;
      this.redraw(thing);
    });
    return make("li", {}, node);
  }

  // ---------------------------------------------------------------- keys

  key(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const chunk = this.chunks.find(({ list }) => list.contains(tile));
    const at = [...chunk.list.children].indexOf(tile.parentNode);
    const columns = this.columns().length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step) this.focusNear(chunk, at, step);
    else if (event.key.toLowerCase() === "f") this.on.mark(chunk.things[at].item);
    else if (event.key === "Delete") this.on.remove(chunk.things[at].item);
    else return;
    event.preventDefault();
  }

  /** Focus a tile some steps away, or the nearest one of the chunk before or after. */
  focusNear(chunk, at, step) {
    const inside = chunk.things[at + step];
    const beside = this.chunks[this.chunks.indexOf(chunk) + Math.sign(step)];
    const wanted = inside ?? (step > 0 ? beside?.things[0] : beside?.things.at(-1));
    if (wanted) this.focus(wanted);
  }
}

function tileLabel({ item, hidden }) {
  if (hidden) return say("hidden_image");
  const kind = { image: say("image"), video: say("gallery_video"), sound: say("gallery_sound") }[item.kind];
  const mark = item.favourite ? `, ${say("large_favourite")}` : "";
  return `${kind}: ${item.prompt.slice(0, 120)}${mark}`;
}
