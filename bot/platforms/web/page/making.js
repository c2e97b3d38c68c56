// The pickers beside the text field: what to make, with which model and which options. What was used
// last stays, for each kind. A command that is typed takes precedence over all of them.

import { announce, byId, make, recallValue, remember } from "./dom.js";
import { commandLine } from "./line.js";
import { MoreDialog, NAMES, picker, update } from "./pickers.js";
import { say } from "./texts.js";

const KEPT = "usher-making";
const EVERY_MS = 15_000; // waits change as jobs advance
const SOON_MS = 1500; // changes of the queues are collected this long
const KINDS = {
  chat: [say("making_chat"), say("placeholder")],
  image: [say("making_image"), say("making_image_hint")],
  edit: [say("making_edit"), say("making_edit_hint")],
  video: [say("making_video"), say("making_video_hint")],
  speech: [say("making_speech"), say("making_speech_hint")],
  music: [say("making_music"), say("making_music_hint")],
};
const SHAPES = {
  square: say("making_square"),
  portrait: say("making_portrait"),
  landscape: say("making_landscape"),
  wide: say("making_wide"),
  tall: say("making_tall"),
};
const IN_ROW = new Set(["size", "count", "style"]); // the others are behind "more"

export class Making {
  /** `on` has `connected()` and `changed()`, which is called when the kind changes. */
  constructor(on) {
    this.on = on;
    this.offered = { kinds: [], shapes: [], styles: [], names: [] };
    this.kept = recallValue(KEPT, {}, true);
    this.passing = null; // a kind for the next message only, because of what is attached or replied to
    this.image = false;
    this.reply = false;
    this.row = byId("making");
    this.row.setAttribute("aria-label", say("making"));
    this.more = new MoreDialog();
    setInterval(() => document.hidden || this.refresh(), EVERY_MS);
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
  }

  // ---------------------------------------------------------------- what is offered

  /** Fetch what is offered soon, once for many calls. */
  refreshSoon() {
    this.soon ??= setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    clearTimeout(this.soon);
    this.soon = null;
    if (!this.on.connected()) return;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const answer = await fetch("choices");
      if (!answer.ok) return;
      const offered = await answer.json();
      if (turn < this.drawn) return; // a later one was quicker
      [this.offered, this.drawn] = [offered, turn];
    } catch {
      return; // what was offered before stays until the connection is back
    }
    this.names = new Set(this.offered.names.map((name) => name.toLowerCase()));
    this.draw();
  }

  get kind() {
    const found = (name) => this.offered.kinds.find((kind) => kind.name === name);
    return found(this.passing) ?? found(this.kept.kind) ?? this.offered.kinds[0];
  }

  /** The values kept for the kind. */
  get values() {
    return (this.kept[this.kind.name] ??= {});
  }

  get placeholder() {
    return this.kind ? KINDS[this.kind.name][1] : say("placeholder");
  }

  models() {
    const able = this.kind.models.filter((model) => (this.image ? model.image : model.text));
    return able.length ? able : this.kind.models;
  }

  usual() {
    const styled = this.offered.styles.find((style) => style.name === this.values.style)?.model;
    const usual = this.image ? this.kind.usual_with_image : this.kind.usual;
    return (this.kind.name === "image" && styled) || usual || this.kind.models[0].name;
  }

  /** The chosen model if it can be used, "" for the usual one. */
  chosen() {
    return this.models().some((model) => model.name === this.values.model) ? this.values.model : "";
  }

  options() {
    const name = this.chosen() || this.usual();
    const takes = new Set(this.kind.models.find((model) => model.name === name)?.takes ?? []);
    if (!this.image) takes.delete("strength");
    if (!this.offered.styles.length) takes.delete("style");
    return this.kind.options.filter((option) => takes.has(option.name));
  }

  // ---------------------------------------------------------------- what is sent

  /** Return the line that makes a text with what is chosen. */
  line(text) {
    if (!this.kind || text.startsWith("/")) return text;
    const model = this.chosen();
    // A reply stays in its conversation, and files without a text are described or transcribed.
    const asTyped = this.kind.name === "chat" && (this.reply || !model || !text);
    if (asTyped || this.passing === "chat") return text;
    const options = this.options()
      .map((option) => [option.name, this.valid(option)])
      .filter(([, value]) => value);
    return commandLine({ command: this.kind.command, model, options, text, names: this.names });
  }

  /** Return an option's value; "" if none is set or it is not offered. */
  valid(option) {
    const value = this.values[option.name] ?? "";
    const known = this.known(option);
    return known.length && !known.some(([each]) => each === value) ? "" : value;
  }

  /** Return an option's [value, label] pairs; none if it can be any value. */
  known(option) {
    if (option.kind === "size") return this.offered.shapes.map((shape) => [shape, SHAPES[shape] ?? shape]);
    if (option.kind === "style") return this.offered.styles.map((style) => [style.name, style.name]);
    if (option.name !== "count") return option.choices.map((choice) => [choice, choice]);
    return [1, 2, 3, 4].filter((count) => count <= option.most).map((count) => [String(count), `× ${count}`]);
  }

  /** Note whether an image is attached: a drawing becomes an edit where a model can edit. */
  attached(image) {
    if (image === this.image) return;
    this.image = image;
    const edits = this.offered.kinds.some((kind) => kind.name === "edit");
    if (image && edits && this.kind.name === "image") this.pass("edit");
    else if (!image && this.passing === "edit") this.pass(null);
    this.draw();
  }

  /** Note whether a message is replied to: its text goes to the conversation of that message. */
  replying(reply) {
    this.reply = reply;
    if (reply && this.kind && this.kind.name !== "edit") this.pass("chat");
    else if (!reply && this.passing === "chat") this.pass(null);
    this.draw();
  }

  pass(kind) {
    this.passing = kind;
    if (this.kind) announce(say("making_switched", { kind: KINDS[this.kind.name][0] }));
  }

  /** Note whether a command is typed, which decides everything itself. */
  typed(command) {
    this.row.classList.toggle("overruled", command);
  }

  set(name, value) {
    if (value) this.values[name] = value;
    else delete this.values[name];
    remember(KEPT, JSON.stringify(this.kept), true);
    this.draw();
  }

  /** Forget what was used last, which may hold a person's words. */
  forget() {
    remember(KEPT, null, true);
  }

  // ---------------------------------------------------------------- the row

  draw() {
    this.row.hidden = !this.kind;
    if (!this.kind) return this.on.changed();
    const options = this.options();
    const pickers = [
      picker("kind", say("making_kind"), this.offered.kinds.map(({ name }) => [name, KINDS[name][0]]), this.kind.name,
        (name) => this.choose(name)),
      picker("model", say("making_model"), this.modelRows(), this.chosen(), (name) => this.set("model", name)),
      ...options.filter((option) => IN_ROW.has(option.name)).map((option) => this.optionPicker(option)),
    ];
    if (options.some((option) => !IN_ROW.has(option.name))) pickers.push(this.moreButton());
    update(this.row, pickers);
    this.on.changed();
  }

  choose(kind) {
    this.passing = null;
    this.kept.kind = kind;
    remember(KEPT, JSON.stringify(this.kept), true);
    this.draw();
  }

  modelRows() {
    const usual = this.usual();
    const others = this.models().filter((model) => model.name !== usual);
    const row = (model, value) => [value, waitText(model)];
    const first = this.kind.models.find((model) => model.name === usual);
    return [...(first ? [row(first, "")] : []), ...others.map((model) => row(model, model.name))];
  }

  optionPicker(option) {
    const label = NAMES[option.name];
    return picker(option.name, label, [["", label], ...this.known(option)], this.valid(option),
      (value) => this.set(option.name, value));
  }

  moreButton() {
    const others = () => this.options().filter((option) => !IN_ROW.has(option.name));
    const set = others().filter((option) => this.valid(option)).length;
    const button = make("button", { type: "button" }, set ? say("making_more_set", { count: set }) : say("making_more"));
    button.addEventListener("click", () =>
      this.more.show(others(), (option) => this.valid(option), (name, value) => this.set(name, value)));
    return make("span", { className: set ? "pick set" : "pick", "data-pick": "more" }, button);
  }
}

function waitText(model) {
  if (model.paused) return say("making_paused", { model: model.name });
  if (model.wait_s === null) return model.name;
  if (model.wait_s < 90) return say("making_wait_s", { model: model.name, count: Math.max(1, model.wait_s) });
  return say("making_wait_min", { model: model.name, count: Math.round(model.wait_s / 60) });
}
