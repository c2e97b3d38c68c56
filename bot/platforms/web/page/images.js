// A message's files: images shown inline and enlarged, videos and sounds played, others downloaded.

import { byId, make, sizeText } from "./dom.js";
import { say } from "./texts.js";

const RETRIES = 4;
const RETRY_MS = 2000;
const SMALL_ENOUGH = 600_000; // bytes

export const isImage = (file) => /^image\/(png|jpeg|webp|gif|avif)$/.test(file.mime);
const kindPlayed = (file) => /^(video|audio)\/(mp4|webm|mpeg|ogg|wav|flac)$/.exec(file.mime)?.[1];
const addressOf = (file) => `files/${encodeURIComponent(file.id)}`;
// A smaller image for the message; the large view and the download use the original.
const shownFrom = (file) => (file.size > SMALL_ENOUGH ? `${addressOf(file)}?small=1` : addressOf(file));

/**
 * Make the element of a file. `open` is called to enlarge an image. `told` has its `name` and what it
 * `shows`, for screen readers, because a server's file names are meaningless.
 */
export function fileNode(file, open, hidden, told) {
  if (isImage(file)) return imageNode(file, open, hidden, told);
  return kindPlayed(file) ? playerNode(file, hidden) : downloadNode(file);
}

/** Make a video or sound player. A hidden video is fetched only once the person reveals it. */
function playerNode(file, hidden) {
  const kind = kindPlayed(file);
  const node = make("div", { className: "player", "data-file": file.id });
  const player = make(kind, { controls: true, preload: "metadata" });
  const put = (shown) => {
    player.src = addressOf(file);
    shown.replaceWith(player);
  };
  player.onerror = () => node.replaceWith(downloadNode(file)); // this browser does not support the codec
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
  if (file.width) node.style.setProperty("--ratio", file.width / file.height); // reserves its space
  if (hidden) hide(node);
  node.addEventListener("click", () => {
    if (!node.classList.contains("spoiler")) return open(file.id);
    node.classList.remove("spoiler");
    node.setAttribute("aria-label", say("open_image", { name }));
  });
  loadAgain(image, RETRIES, () => { // it is not an image after all
    node.replaceWith(downloadNode(file));
    node.dispatchEvent(new CustomEvent("broken", { detail: downloadNode(file) })); // for an image that was not visible yet
  });
  return node;
}

/** Blur an image until the person reveals it. */
function hide(node) {
  node.classList.add("spoiler");
  node.dataset.hidden = say("hidden_image");
  node.setAttribute("aria-label", say("hidden_image"));
}

/** Load an image again after an error; the connection may have broken. */
function loadAgain(image, left, giveUp) {
  const again = () => {
    if (!image.onerror) return; // another image has replaced it
    loadAgain(image, left - 1, giveUp);
    image.src = image.src;
  };
  image.onerror = left === 0 ? giveUp : () => setTimeout(again, RETRY_MS);
}

/** Stop retrying an image that another one replaces; the server has already deleted it. */
export function letGo(node) {
  const image = node?.querySelector("img");
  if (image) image.onerror = null;
}

/** Replace an image with the next one once that is loaded, so that previews never flicker. */
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

/** One image on the whole page; arrow keys, buttons and swipes show the next and previous ones. */
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

  /** Change the image on a horizontal swipe; a shorter move stays a tap. */
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
