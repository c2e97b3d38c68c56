// One image, video or sound on the whole page, with what can be made of it.

import { byId, make, sizeText } from "./dom.js";
import { icon } from "./icons.js";
import { addressOf, isImage } from "./images.js";
import { copyText } from "./markdown.js";
import { clockText } from "./moments.js";
import { showOver } from "./over.js";
import { say } from "./texts.js";

const SWIPE_PX = 48;
const COMMANDS = () => ({
  vary: say("large_vary"),
  upscale: say("large_upscale"),
  "edit-image": say("large_edit"),
  video: say("large_video"),
  again: say("large_again"),
});

/** Return the address of a result's file. */
export const resultAddress = (item) => `gallery/${item.job}/${item.number}`;

/**
 * The large view. It shows things: `{ address, name, size, kind, hidden, item }`, where `item` is the
 * result as the gallery knows it, or null.
 *
 * `on` has `run(command, item)`, `start(item)` to use an image for the next message, `remove(item)` to
 * ask whether to delete a result, `mark(item)` to change whether it is a favourite, `stored`, a promise of
 * the marks made so far, and `missing(item)` for one that could not be loaded.
 */
export class Large {
  constructor(on) {
    this.on = on;
    this.dialog = byId("large");
    this.things = [];
    byId("large-close").textContent = say("close");
    byId("large-close").addEventListener("click", () => this.dialog.close());
    byId("large-image").draggable = false;
    byId("large-image").addEventListener("error", () => this.missing());
    byId("large-image").addEventListener("click", () => this.swiped || this.dialog.close());
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("close", () => {
      byId("large-player").replaceChildren(); // a video would go on playing
      this.drawn = null;
      this.closed?.(this.thing);
    });
    for (const [id, step, key] of [["large-before", -1, "before"], ["large-after", 1, "after"]]) {
      byId(id).setAttribute("aria-label", say(key));
      byId(id).addEventListener("click", () => this.step(step));
    }
    this.swipes(byId("large-stage"));
  }

  get thing() {
    return this.things[this.at];
  }

  /** Change the image on a horizontal swipe; a shorter move stays a tap. */
  swipes(stage) {
    let from = null;
    stage.addEventListener("pointerdown", (event) => {
      from = event.isPrimary && !event.target.closest("video, audio") ? event.clientX : null;
    });
    stage.addEventListener("pointerup", (event) => {
      const moved = from === null ? 0 : event.clientX - from;
      from = null;
      if (Math.abs(moved) < SWIPE_PX) return;
      this.swiped = true; // the click that follows must not close the view
      setTimeout(() => { this.swiped = false; });
      this.step(moved < 0 ? 1 : -1);
    });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const { item } = this.thing;
    if (step && !event.target.closest("video, audio")) this.step(step);
    else if (item && event.key === "Delete") this.on.remove(item);
    else if (item && event.key.toLowerCase() === "f") this.on.mark(item);
    else return;
    event.preventDefault();
  }

  /**
   * Show things, beginning with one. `more()` loads further ones at the end; without it, the last is
   * followed by the first. `closed(thing)` gets the last one shown.
   */
  show(things, at, { more, closed } = {}) {
    Object.assign(this, { things, more, closed });
    this.draw(at);
    showOver(this.dialog);
  }

  /** Show the images of a message, with the actions of its result if that still exists. */
  async showMessage({ files, buttons, spoiler }, id) {
    const images = files.filter(isImage);
    const things = images.map((file) =>
      ({ address: addressOf(file), name: file.name, size: file.size, kind: "image", hidden: spoiler && file.id !== id, item: null }));
    this.show(things, images.findIndex((file) => file.id === id));
    const job = buttons.flat().find(({ command }) => command === "delete")?.job;
    await this.on.stored; // it tells whether they are marked
    const answer = job ? await fetch(`gallery/${job}`).catch(() => null) : null;
    if (!answer?.ok) return;
    const items = (await answer.json()).items.filter(({ kind }) => kind === "image");
    if (items.length !== things.length) return; // the message does not show all of them
    things.forEach((thing, at) => { thing.item = items[at]; });
    if (this.things === things) this.redraw();
  }

  async step(by) {
    const count = this.things.length;
    const at = this.at + by;
    if (this.more && at === count) await this.more();
    if (this.more && (at < 0 || at >= this.things.length)) return;
    this.draw((at + this.things.length) % this.things.length);
  }

  /** Draw again after the things have changed; close if none is left. */
  redraw() {
    if (!this.dialog.open) return;
    if (this.things.length === 0) this.dialog.close();
    else this.draw(Math.min(this.at, this.things.length - 1));
  }

  /** Remove the files of a deleted job. */
  removed(job) {
    if (!this.dialog.open) return;
    for (let at = this.things.length; at--;) if (this.things[at].item?.job === job) this.things.splice(at, 1);
    this.redraw();
  }

  note(text) {
    byId("large-name").textContent = text;
  }

  draw(at) {
    this.at = at;
    const { address, name, size, item } = this.thing;
    const several = this.things.length > 1;
    byId("large-before").hidden = !several || (this.more && at === 0);
    byId("large-after").hidden = !several;
    const of = several && !this.more ? `${at + 1}/${this.things.length} · ` : "";
    const title = item ? `${item.model} · ${clockText(item.at)}` : name; // servers' file names say nothing
    this.note(`${of}${title} · ${sizeText(size)}`);
    byId("large-prompt").textContent = item?.prompt ?? "";
    byId("large-prompt").hidden = !item?.prompt;
    this.drawMedia();
    const had = byId("large-actions").contains(document.activeElement) && document.activeElement.dataset.does;
    const download = make("a", { className: "button", href: `${address}?download=1`, download: name, id: "large-download" },
      icon("download"), say("download"));
    byId("large-actions").replaceChildren(...(item ? this.actions(item, download) : [download]));
    if (had) (byId("large-actions").querySelector(`[data-does="${had}"]`) ?? byId("large-close")).focus();
  }

  drawMedia() {
    const { address, name, kind, hidden, item } = this.thing;
    const drawn = `${address} ${hidden}`;
    if (this.drawn === drawn) return; // a video goes on playing
    this.drawn = drawn;
    const shown = hidden ? "asks" : kind;
    byId("large-image").hidden = shown !== "image";
    byId("large-player").hidden = shown === "image";
    byId("large-player").replaceChildren();
    if (shown === "image") return Object.assign(byId("large-image"), { src: address, alt: item?.prompt || name });
    byId("large-image").removeAttribute("src");
    if (shown !== "asks") return this.play(player(kind, address, item?.prompt || name));
    const ask = make("button", { type: "button", className: "button" }, say("large_reveal"));
    ask.addEventListener("click", () => {
      this.thing.hidden = false;
      this.drawMedia();
      byId("large-close").focus();
    });
    byId("large-player").append(ask);
  }

  play(media) {
    media.addEventListener("error", () => media.isConnected && this.missing());
    byId("large-player").append(media);
  }

  missing() {
    if (this.dialog.open && this.thing?.item) this.on.missing(this.thing.item);
  }

  /** Make the buttons of a result: what can be made of it first, and Delete last. */
  actions(item, download) {
    const button = (does, label, act, { sign = does, ...more } = {}) => {
      const node = make("button", { type: "button", className: "button", "data-does": does, ...more },
        icon(sign), make("span", {}, label));
      node.addEventListener("click", () => act(node.querySelector("span")));
      return node;
    };
    const labels = COMMANDS();
    const offered = item.actions.filter((command) => labels[command]);
    return [
      ...offered.map((command) => button(command, labels[command], () => this.on.run(command, item))),
      item.kind === "image" ? button("start", say("large_start"), () => this.on.start(item)) : null,
      button("favourite", say("large_favourite"), () => this.on.mark(item),
        { "aria-pressed": String(item.favourite), "aria-keyshortcuts": "f" }),
      item.prompt ? button("prompt", say("large_copy_prompt"), (words) => copyText(item.prompt, words), { sign: "copy" }) : null,
      item.seed ? button("seed", say("large_copy_seed"), (words) => copyText(item.seed, words), { sign: "copy" }) : null,
      download,
      item.actions.includes("delete")
        ? button("delete", say("large_delete"), () => this.on.remove(item),
          { className: "button danger", "aria-keyshortcuts": "Delete" })
        : null,
    ].filter(Boolean);
  }

  close() {
    this.dialog.close();
  }
}

function player(kind, address, label) {
  const tag = kind === "video" ? "video" : "audio";
  return make(tag, { controls: true, preload: "metadata", src: address, "aria-label": label });
}
