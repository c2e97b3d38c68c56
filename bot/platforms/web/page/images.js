// A message's files: images shown inline and enlarged, videos and sounds played, others downloaded.

import { byId, make, sizeText } from "./dom.js";
import { say } from "./texts.js";

const RETRIES = 4;
const RETRY_MS = 2000;
const SMALL_ENOUGH = 600_000; // bytes

export const isImage = (file) => /^image\/(png|jpeg|webp|gif|avif)$/.test(file.mime);
const kindPlayed = (file) => /^(video|audio)\/(mp4|webm|mpeg|ogg|wav|flac)$/.exec(file.mime)?.[1];
export const addressOf = (file) => `files/${encodeURIComponent(file.id)}`;
// A smaller image for the message; the large view and the download use the original.
const shownFrom = (file) => (file.size > SMALL_ENOUGH ? `${addressOf(file)}?small=1` : addressOf(file));

/**
 * Make the element of a file. `open` is called to enlarge an image. `told` has its `name` and what it
 * `shows`, for screen readers, because a server's file names are meaningless. `size` is a video's.
 */
export function fileNode(file, open, hidden, told, size) {
  if (isImage(file)) return imageNode(file, open, hidden, told);
  return kindPlayed(file) ? playerNode(file, hidden, size) : downloadNode(file);
}

/** Keep the room that something of a width and height needs; without them, forget it. */
export function keepRatio(node, [width, height] = []) {
  if (height) node.style.setProperty("--ratio", width / height);
  else node.style.removeProperty("--ratio");
}

/** Make the rooms of what an open job will still show. */
export function roomsOf({ files, sizes, waits }) {
  const left = waits ? sizes.slice(files.length) : [];
  return left.map((size) => {
    const node = make("div", { className: "image room", "aria-hidden": "true" });
    keepRatio(node, size);
    return node;
  });
}

/** Make a video or sound player. A hidden video is fetched only once the person reveals it. */
function playerNode(file, hidden, size) {
  const kind = kindPlayed(file);
  const node = make("div", { className: "player", "data-file": file.id });
  if (kind === "video") keepRatio(node, size);
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

/** Make a link to a file by its name; `open` is called to enlarge an image. */
export function citation(file, open) {
  if (!isImage(file)) return downloadNode(file);
  const node = make("button", { type: "button", className: "file" }, file.name || say("image"));
  node.addEventListener("click", () => open(file.id));
  return node;
}

function imageNode(file, open, hidden, { name, shows }) {
  const image = make("img", { src: shownFrom(file), alt: shows, decoding: "async" });
  const node = make("button", { type: "button", className: "image", "data-file": file.id,
    "aria-label": say("open_image", { name }) }, image);
  if (file.width) keepRatio(node, [file.width, file.height]);
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

/** Replace what a box begins with once the next one is loaded, so that previews never flicker. */
export function swapWhenLoaded(box, node) {
  const image = node.querySelector("img");
  const swap = (shown) => {
    if (shown !== box.firstElementChild) box.firstElementChild?.remove();
    box.prepend(shown);
  };
  if (!box.firstElementChild || node === box.firstElementChild || !image || image.complete) return swap(node);
  box.coming = node;
  const arrived = (shown) => box.coming === node && swap(shown);
  image.addEventListener("load", () => arrived(node), { once: true });
  node.addEventListener("broken", (event) => arrived(event.detail), { once: true });
}
