// One message on the page, updated in place. Only changed parts are replaced, so nothing flickers, and
// focus, selection and scroll position stay.

import { actionRows, imageActions, isResult } from "./actions.js";
import { drawBody, hasMarkdown, markdownText, shortText } from "./body.js";
import { make } from "./dom.js";
import { citation, fileNode, isImage, keepRatio, letGo, roomsOf, swapWhenLoaded } from "./images.js";
import { copyText } from "./markdown.js";
import { clockText, fullText } from "./moments.js";
import { isPast } from "./past.js";
import { say } from "./texts.js";
import { drawCard } from "./waiting.js";

export class Message {
  /**
   * `on` has what can be done (`press`, `reply`, `edit`, `enlarge`, `goTo`) and what else there is: the
   * message `quoted(id)` and the models' `queues()`.
   */
  constructor(id, on) {
    this.on = on;
    this.quote = make("button", { type: "button", className: "plain quote", hidden: true });
    this.body = make("div", { className: "body" });
    this.about = make("p", { className: "about", hidden: true });
    this.files = make("div", { className: "files", hidden: true });
    this.buttons = make("div", { className: "buttons", hidden: true });
    this.meta = make("p", { className: "meta" });
    this.node = make("li", { className: "message", tabIndex: 0, "data-message": id },
      make("div", { className: "bubble" }, this.quote, this.body, this.about, this.files, this.buttons), this.meta);
    this.drawn = {}; // what each part shows, as JSON
    this.quote.addEventListener("click", () => on.goTo(this.shown.reply_to));
  }

  show(entry) {
    const { shown, pending } = entry;
    this.shown = shown;
    const classes = { mine: shown.author === "person", quiet: shown.quiet, waits: shown.waits,
      pending, failed: pending?.failed };
    for (const [name, on] of Object.entries(classes)) this.node.classList.toggle(name, Boolean(on));
    const quoted = shown.reply_to && this.on.quoted(shown.reply_to);
    this.part("quote", quoted && shortText(quoted), (text) => this.drawQuote(text));
    this.part("about", hasMarkdown(shown) ? shown.about : [], (files) => this.drawAbout(files));
    const queues = shown.waits ? this.on.queues() : null;
    this.part("body", [shown.body, queues], () => this.drawText(shown, queues));
    const onImages = shown.files.filter(isImage).length > 1 && shown.buttons;
    this.part("files", [shown.files, shown.sizes, shown.waits, shown.spoiler, onImages, pending?.images],
      () => this.drawFiles(entry));
    this.part("buttons", [shown.buttons, isPast(shown.body) && shown.body, isResult(shown) && shown.files],
      () => this.drawButtons(entry));
    this.part("meta", [entry.at, pending, hasMarkdown(shown), isResult(shown)], () => this.drawMeta(entry));
    const author = shown.author === "person" ? say("you") : "Usher";
    this.node.setAttribute("aria-label", `${author}: ${shortText(shown)}`);
  }

  /** Draw a part if what it shows has changed. */
  part(name, value, draw) {
    const key = JSON.stringify(value ?? null);
    if (this.drawn[name] === key) return;
    this.drawn[name] = key;
    draw(value);
  }

  drawQuote(text) {
    this.quote.hidden = !text;
    this.quote.textContent = text ? `↰ ${text}` : "";
  }

  /** Name the files that an answer is about. A name opens its file. */
  drawAbout(files) {
    this.about.hidden = files.length === 0;
    const open = (id) => this.on.enlarge({ files, buttons: [] }, id);
    this.about.replaceChildren(say("about_files"), ...files.map((file) => citation(file, open)));
  }

  drawText(shown, queues) {
    if (queues) drawCard(this.body, shown.body, queues);
    else drawBody(this.body, shown.body, shown.author === "usher");
  }

  drawFiles(entry) {
    const { shown, pending } = entry;
    const { files, spoiler } = shown;
    if (pending) {
      this.files.hidden = pending.images.length === 0;
      const sent = pending.images.map((url) => make("img", { src: url, alt: "", className: "sent" }));
      return this.files.replaceChildren(...sent);
    }
    const old = new Map([...this.files.children].map((node) => [node.dataset.file, node]));
    const seen = this.files.querySelector(".image:not(.spoiler, .room)"); // a preview was already visible
    const coming = [this.files, ...this.files.children].map((box) => box.coming);
    for (const node of [...old.values(), ...coming]) {
      if (node && !files.some((file) => file.id === node.dataset.file)) letGo(node);
    }
    this.files.coming = null;
    const nodes = files.map((file, at) => old.get(file.id) ??
      fileNode(file, (id) => this.on.enlarge(shown, id), spoiler && !seen, told(shown, at), shown.sizes[at]));
    this.putFiles([...nodes, ...roomsOf(shown)], entry);
  }

  /** Put the elements of files in their places, with rooms for what is still to be made. */
  putFiles(nodes, entry) {
    const { files, sizes, waits } = entry.shown;
    const places = [...this.files.children];
    const images = nodes.filter((node) => node.matches(".image, .shot"));
    this.files.hidden = nodes.length === 0;
    this.files.classList.toggle("several", images.length > 1);
    this.node.classList.toggle("roomy", Boolean(waits && nodes.length));
    keepRatio(this.files, files[0]?.width ? [files[0].width, files[0].height] : sizes[0]);
    if (nodes.length > 1 || places.length > 1) this.files.replaceChildren();
    if (nodes.length === 1) return swapWhenLoaded(this.files, nodes[0]);
    const there = (place) => files.some((file) => file.id === place?.dataset.file);
    this.files.append(...nodes.map((node, at) => (images.length < 2 || !images.includes(node)
      ? node : this.shot(node, images.indexOf(node) + 1, entry, there(places[at]) ? null : places[at]))));
  }

  /** Return the box of one of several images, with its number and its actions on it. `place` is the box before it. */
  shot(node, number, entry, place) {
    const shot = node.matches(".shot") ? node : make("div", { className: "shot", "data-file": node.dataset.file });
    if (shot !== node) {
      shot.image = node;
      if (place?.matches(".shot")) shot.append(place.firstElementChild);
      swapWhenLoaded(shot, node);
    }
    shot.querySelector(".image-actions")?.remove();
    if (shot.image.matches(".room")) return shot;
    shot.image.dataset.number = number;
    shot.append(...[imageActions(entry, number, this.on)].filter(Boolean));
    return shot;
  }

  drawButtons(entry) {
    const had = this.buttons.contains(document.activeElement);
    const rows = actionRows(this.body, entry, this.on);
    this.buttons.replaceChildren(...rows);
    this.buttons.hidden = rows.length === 0;
    if (had) (this.buttons.querySelector("button") ?? this.node).focus({ preventScroll: true });
  }

  drawMeta({ shown, at, message, pending }) {
    if (pending) return this.drawPending(pending);
    const time = make("time", { title: fullText(at), dateTime: new Date(at * 1000).toISOString() }, clockText(at));
    this.meta.replaceChildren(time);
    // A result has these among its actions, and nobody replies to a place in the queue.
    if (shown.author !== "usher" || shown.quiet || shown.waits || isResult(shown)) return;
    this.meta.append(plainButton(say("reply"), () => this.on.reply(message, shortText(this.shown))));
    if (!hasMarkdown(shown)) return;
    const copy = plainButton(say("copy"), () => copyText(markdownText(this.shown.body), copy));
    this.meta.append(copy);
  }

  /** Show how sending goes. A refused message can be edited again. */
  drawPending({ note, failed, text }) {
    if (!failed) return this.meta.replaceChildren(note);
    const again = plainButton(say("edit_again"), () => this.on.edit(this.node.dataset.message, text));
    this.meta.replaceChildren(`${say("not_sent")} ${note} `, again);
  }
}

function plainButton(label, act) {
  const node = make("button", { type: "button", className: "plain" }, label);
  node.addEventListener("click", act);
  return node;
}

/** Return an image's name and description for screen readers. */
function told(shown, at) {
  const mine = shown.author === "person";
  const number = shown.files.length > 1 ? ` ${at + 1}` : "";
  const name = mine ? shown.files[at].name || say("image") : `${say("image")}${number}`;
  return { name, shows: mine ? name : `${name}: ${shortText(shown)}` };
}
