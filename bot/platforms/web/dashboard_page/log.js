// The newest lines of the program's log, read while the page is visible.

import { byId, make } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { tell } from "../../static/texts.js";
import { fetched } from "./nodes.js";

const EVERY_MS = 2000;
const KEPT = 500;
const AT_END = 24; // pixels from the end that still count as reading the newest line

export class Log {
  constructor() {
    this.number = 0;
    this.room = byId("log-room");
    this.lines = byId("log-lines");
    this.room.setAttribute("aria-label", tell("log_lines"));
    write(byId("log-summary"), tell("log_summary"));
    write(byId("log-only-label"), tell("log_only"));
    write(byId("log-none"), tell("log_none"));
    byId("log-only").addEventListener("change", () => {
      this.lines.classList.toggle("only-troubles", byId("log-only").checked);
      this.toEnd();
    });
    document.addEventListener("visibilitychange", () => this.read());
  }

  /** Stop reading. */
  stop() {
    this.over = true;
    clearTimeout(this.timer);
  }

  async read() {
    clearTimeout(this.timer);
    if (document.hidden || this.over) return;
    const answer = await fetched(`operator/log?after=${this.number}`);
    if (this.over) return;
    if (answer?.lines.length) this.add(answer.lines);
    byId("log-none").hidden = this.lines.children.length > 0;
    this.room.hidden = this.lines.children.length === 0;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), EVERY_MS);
  }

  add(lines) {
    const follows = this.room.scrollHeight - this.room.scrollTop - this.room.clientHeight < AT_END;
    if (lines[0].number <= this.number) this.lines.replaceChildren(); // the program was restarted
    this.number = lines.at(-1).number;
    this.lines.append(...lines.map((line) => make("li", { "data-level": line.level }, line.text)));
    while (this.lines.children.length > KEPT) this.lines.firstElementChild.remove();
    this.room.hidden = false;
    if (follows) this.toEnd();
  }

  toEnd() {
    this.room.scrollTop = this.room.scrollHeight;
  }
}
