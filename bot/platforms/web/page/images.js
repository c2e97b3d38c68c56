// A message's files: images shown in place and large, videos and sound played, all else to download.

import { byId, make, sizeText } from "./dom.js";
import { say } from "./texts.js";

const RETRIES = 4;
const RETRY_MS = 2000;
const SMALL_ENOUGH = 600_000; // bytes

export const isImage = (file) => /^image\/(png|jpeg|webp|gif|avif)$/.test(file.mime);
const kindPlayed = (file) => /^(video|audio)\/(mp4|webm|mpeg|ogg|wav|flac)$/.exec(file.mime)?.[1];
const addressOf = (file) => `/files/${encodeURIComponent(file.id)}`;
// Enough for the place in a message; the large view and the download have the original.
const shownFrom = (file) => (file.size > SMALL_ENOUGH ? `${addressOf(file)}?small=1` : addressOf(file));

/**
 * Make the element of a file; `open` is called when an image is to be shown large. `told` has its
 * `name` and what it `shows`, for those who hear the page: a server's file names tell nothing.
 */
export function fileNode(file, open, hidden, told) {
  if (isImage(file)) return imageNode(file, open, hidden, told);
  return kindPlayed(file) ? playerNode(file, hidden) : downloadNode(file);
}

/** Make what plays a video or a sound; a hidden video is asked for before anything of it is fetched. */
function playerNode(file, hidden) {
  const kind = kindPlayed(file);
  const node = make("div", { className: "player", "data-file": file.id });
  const player = make(kind, { controls: true, preload: "metadata" });
  const put = (shown) => {
    player.src = addressOf(file);
    shown.replaceWith(player);
  };
  player.onerror = () => node.replaceWith(downloadNode(file)); // a codec this browser does not know
  const ask = make("button", { type: "button", className: "image spoiler asks", "data-hidden": say("hidden_video"),
    "aria-label": say("hidden_video") });
  ask.addEventListener("click", () => {
    put(ask);
    player.focus();
  });
  node.append(ask);
  if (!hidden || kind === "audio") put(ask);
  return node;
}

function downloadNode(file) {
  const address = `${addressOf(file)}?download=1`;
  return make("a", { className: "file", href: address, download: file.name, "data-file": file.id },
    make("span", { className: "file-name" }, file.name),
    make("span", { className: "file-size" }, sizeText(file.size)));
}

function imageNode(file, open, hidden, { name, shows }) {
  const image = make("img", { src: shownFrom(file), alt: shows, decoding: "async" });
  const node = make("button", { type: "button", className: "image", "data-file": file.id,
    "aria-label": say("open_image", { name }) }, image);
  if (file.width) node.style.setProperty("--ratio", file.width / file.height); // keeps its place free
  if (hidden) hide(node);
  node.addEventListener("click", () => {
    if (!node.classList.contains("spoiler")) return open(file.id);
    node.classList.remove("spoiler");
    node.setAttribute("aria-label", say("open_image", { name }));
  });
  loadAgain(image, RETRIES, () => { // no image after all
    node.replaceWith(downloadNode(file));
    node.dispatchEvent(new CustomEvent("broken", { detail: downloadNode(file) })); // if it was not shown yet
  });
  return node;
}

/** Blur an image until it is asked for. */
function hide(node) {
  node.classList.add("spoiler");
  node.dataset.hidden = say("hidden_image");
  node.setAttribute("aria-label", say("hidden_image"));
}

/** Ask for an image again that did not come: the connection may have broken just then. */
function loadAgain(image, left, giveUp) {
  const again = () => {
    if (!image.onerror) return; // let go of meanwhile
    loadAgain(image, left - 1, giveUp);
    image.src = image.src;
  };
  image.onerror = left === 0 ? giveUp : () => setTimeout(again, RETRY_MS);
}

/** Ask no more for an image another one replaces: the server does not have it any more, either. */
export function letGo(node) {
  const image = node?.querySelector("img");
  if (image) image.onerror = null;
}

/** Show an image in the place of the one before, once it is there: previews then never flicker. */
export function swapWhenLoaded(box, node) {
  const image = node.querySelector("img");
  if (!box.firstElementChild || node === box.firstElementChild || image.complete) {
    return box.replaceChildren(node);
  }
  box.coming = node;
  const swap = (shown) => box.coming === node && box.replaceChildren(shown);
  image.addEventListener("load", () => swap(node), { once: true });
  node.addEventListener("broken", (event) => swap(event.detail), { once: true });
}

const SWIPE_PX = 48;

/** One image over the whole page, and its neighbours by arrow keys, buttons and swipes. */
export class Large {
  constructor() {
    this.dialog = byId("large");
    byId("large-close").textContent = say("close");
    byId("large-download").textContent = say("download");
    byId("large-close").addEventListener("click", () => this.dialog.close());
    byId("large-image").draggable = false;
    byId("large-image").addEventListener("click", () => this.swiped || this.dialog.close());
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) this.step(step);
    });
    for (const [id, step, key] of [["large-before", -1, "before"], ["large-after", 1, "after"]]) {
      byId(id).setAttribute("aria-label", say(key));
      byId(id).addEventListener("click", () => this.step(step));
    }
    this.swipes(byId("large-stage"));
  }

  /** Page by a horizontal swipe; what is no swipe stays a tap. */
  swipes(stage) {
    let from = null;
    stage.addEventListener("pointerdown", (event) => { from = event.isPrimary ? event.clientX : null; });
    stage.addEventListener("pointerup", (event) => {
      const moved = from === null ? 0 : event.clientX - from;
      from = null;
      if (Math.abs(moved) < SWIPE_PX) return;
      this.swiped = true; // the click that follows must not close the view
      setTimeout(() => { this.swiped = false; });
      this.step(moved < 0 ? 1 : -1);
    });
  }

  step(by) {
    this.draw((this.at + by + this.files.length) % this.files.length);
  }

  show(files, id) {
    this.files = files;
    this.draw(files.findIndex((file) => file.id === id));
    this.dialog.showModal();
  }

  draw(at) {
    this.at = at;
    const file = this.files[at];
    const address = addressOf(file);
    for (const id of ["large-before", "large-after"]) byId(id).hidden = this.files.length < 2;
    const of = this.files.length > 1 ? `${at + 1}/${this.files.length} · ` : "";
    byId("large-name").textContent = `${of}${file.name} · ${sizeText(file.size)}`;
    Object.assign(byId("large-image"), { src: address, alt: file.name });
    Object.assign(byId("large-download"), { href: `${address}?download=1`, download: file.name });
  }
}
