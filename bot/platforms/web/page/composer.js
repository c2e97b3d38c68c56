// The composer: the text, its completion, and the message it replies to. What to make of the text, its files
// and the microphone are its parts.

import { Attachments } from "./attachments.js";
import { Choices, optionChoices, paramAt, usage } from "./completion.js";
import { byId, make, recall, remember } from "./dom.js";
import { Making } from "./making.js";
import { Microphone } from "./microphone.js";
import { say } from "./texts.js";

const DRAFT = "usher-draft";
const LONG_PX = 70; // of a text, between two and three lines
const COMPLETED_BY_SERVER = new Set(["model", "host", "job", "size", "style"]);

export class Composer {
  /**
   * `on` has `send({ text, files, uploads, images, replyTo })`, `suggest(command, param, typed)`,
   * `connected()`, and `lines()`, which returns the lines sent before.
   */
  constructor(on) {
    this.on = on;
    this.commands = [];
    this.mostText = Infinity; // characters
    this.replyTo = null;
    this.back = 0; // number of lines back in the history
    this.text = byId("text");
    this.choices = new Choices(this.text, (choice) => this.take(choice));
    this.making = new Making({
      connected: () => this.on.connected(),
      changed: () => this.offered(),
    });
    this.attachments = new Attachments({
      notice: (text) => this.notice(text),
      focus: () => this.text.focus(),
      changed: (image) => this.making.attached(image),
      connected: () => this.on.connected(),
    });
    this.microphone = new Microphone({
      heard: (text, atOnce) => this.heard(text, atOnce),
      notice: (text) => this.notice(text),
      shown: (bar) => this.listening(bar),
    });
    this.label();
    this.listen();
  }

  /** Take up the draft of a conversation. The text of the earlier one stays its draft. */
  open(conversation) {
    this.draft = `${DRAFT}-${conversation}`;
    this.reply(null);
    this.text.value = recall(this.draft) ?? "";
    this.changed();
  }

  /** Keep a text that was not sent as the draft of its conversation, unless there is one. */
  keep(conversation, text) {
    const draft = `${DRAFT}-${conversation}`;
    if (!recall(draft)) remember(draft, text || null);
  }

  label() {
    this.text.placeholder = say("placeholder");
    this.text.setAttribute("aria-label", say("message"));
    byId("send").setAttribute("aria-label", say("send"));
    byId("reply-off").setAttribute("aria-label", say("reply_off"));
  }

  listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.text.addEventListener("input", () => this.changed());
    addEventListener("resize", () => this.fit());
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener("blur", () => this.choices.hide());
    byId("reply-off").addEventListener("click", () => this.reply(null));
  }

  // ---------------------------------------------------------------- sending

  send() {
    const typed = this.text.value.trim().toWellFormed();
    if (!typed && !this.attachments.files.length) return this.text.focus();
    const text = this.making.line(typed);
    if (text.length > this.mostText) return this.notice(say("too_long", { count: this.mostText }));
    const { hindrance } = this.attachments;
    if (hindrance) return this.notice(hindrance);
    this.on.send({ text, ...this.attachments.take(), replyTo: this.replyTo });
    this.reply(null);
    this.write("");
  }

  offered() {
    this.text.placeholder = this.making.placeholder;
    this.microphone.offer(this.making.offered.hears);
  }

  /** Note that the microphone's bar covers the pickers, and in which conversation that began. */
  listening(bar) {
    if (bar && !this.making.row.classList.contains("covered")) this.spokenIn = this.draft;
    this.making.row.classList.toggle("covered", bar);
  }

  /** Write what was said where the cursor is. Send it if that is wanted, and not to another conversation. */
  heard(text, atOnce) {
    const { value, selectionStart: from, selectionEnd: to } = this.text;
    const space = from > 0 && !/\s/.test(value[from - 1]) ? " " : "";
    this.text.setRangeText(`${space}${text}`, from, to, "end");
    this.changed();
    if (atOnce && this.spokenIn === this.draft) this.send();
    else this.text.focus();
  }

  /** Replace the text in the field. */
  write(text) {
    this.text.value = text;
    this.back = 0;
    this.changed();
    this.text.focus();
  }

  notice(text) {
    byId("notice").textContent = text;
  }

  reply(message, text = "") {
    this.replyTo = message;
    this.making.replying(Boolean(message));
    byId("reply").hidden = !message;
    byId("reply-text").textContent = say("reply_to", { text });
    if (message) this.text.focus();
  }

  // ---------------------------------------------------------------- keys

  key(event) {
    if (event.isComposing) return; // Enter chooses a character here, for example in Japanese
    if (this.choices.key(event)) return event.preventDefault();
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Escape" && this.replyTo) {
      this.reply(null);
    } else if (event.key === "ArrowUp" && this.recalls(0)) {
      this.recall(event, 1);
    } else if (event.key === "ArrowDown" && this.back && this.recalls(this.text.value.length)) {
      this.recall(event, -1);
    }
  }

  recalls(at) {
    return this.text.selectionStart === at && this.text.selectionEnd === at || this.back > 0;
  }

  recall(event, step) {
    const lines = this.on.lines().reverse();
    const back = this.back + step;
    if (back > lines.length) return;
    event.preventDefault();
    if (this.back === 0) this.unsent = this.text.value;
    const text = back === 0 ? this.unsent : lines[back - 1];
    this.write(text);
    this.back = back;
    this.choices.hide();
    this.text.setSelectionRange(text.length, text.length);
  }

  // ---------------------------------------------------------------- completion

  changed() {
    this.notice("");
    this.back = 0;
    this.making.typed(this.text.value.startsWith("/"));
    remember(this.draft, this.text.value || null);
    this.fit();
    this.complete();
  }

  /** Give the field the height of its text. On a phone, a long text has the whole width, above the buttons. */
  fit() {
    const { classList } = this.text.parentNode;
    classList.remove("tall");
    this.grow();
    classList.toggle("tall", this.text.scrollHeight > LONG_PX);
    this.grow();
  }

  grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
  }

  async complete() {
    const text = this.text.value.slice(0, this.text.selectionStart);
    const first = /^\/([\w-]*)$/.exec(text);
    this.hint(/^\/([\w-]+)/.exec(text)?.[1]);
    if (first) return this.completeCommand(first[1].toLowerCase());
    const found = paramAt(text, this.commands);
    if (!found) return this.choices.hide();
    const { param, typed, from } = found;
    if (param.kind === "option") return this.choices.show(optionChoices(found, from), false);
    const values = param.kind === "choice"
      ? param.choices.filter((choice) => choice.startsWith(typed))
      : COMPLETED_BY_SERVER.has(param.kind)
        ? await this.on.suggest(found.command.name, param.name, typed)
        : [];
    if (this.text.value.slice(0, this.text.selectionStart) !== text) return; // the text has changed since
    const rows = values.filter((value) => value !== typed).map((value) => ({ value, help: "", from, after: " " }));
    this.choices.show(rows, false);
  }

  completeCommand(typed) {
    const exact = this.commands.some((command) => command.name === typed);
    const rows = this.commands
      .filter((command) => command.name.startsWith(typed) && command.name !== typed)
      .map((command) => ({ value: `/${command.name}`, help: command.help, from: 0, after: " " }));
    this.choices.show(rows, !exact && typed !== "");
  }

  hint(name) {
    const command = this.commands.find((known) => known.name === name);
    byId("hint").hidden = !command;
    if (command) byId("hint").replaceChildren(make("b", {}, usage(command)), ` ${command.help}`);
  }

  take({ value, from, after }) {
    const at = this.text.selectionStart;
    const rest = this.text.value.slice(at);
    const head = this.text.value.slice(0, from) + value + (rest.startsWith(after) ? "" : after);
    this.text.value = head + rest;
    this.text.setSelectionRange(head.length, head.length);
    this.changed();
  }
}
