// The panels: models, settings, status and history as views. Loaded when the first one is opened.

import { bodyText } from "./body.js";
import { announce, byId, make, newKey } from "./dom.js";
import { write } from "./keyed.js";
import { HistoryPanel } from "./panel-history.js";
import { ModelsPanel } from "./panel-models.js";
import { SettingsPanel } from "./panel-settings.js";
import { StatusPanel } from "./panel-status.js";
import { say } from "./texts.js";

const REFRESH_MS = 4000;
const SOON_MS = 300; // after a change, to catch several at once

const KINDS = { models: ModelsPanel, settings: SettingsPanel, status: StatusPanel, history: HistoryPanel };

export class Panels {
  /**
   * `on` has `shown()`, which returns the name of the view that is open, `write(line)`, which opens the
   * chat with a line in the composer, `run(command, job)`, which runs a command in the chat, and
   * `changed()`, which is called when a setting has been saved.
   */
  constructor(on) {
    this.on = on;
    this.panels = new Map();
    this.turn = this.least = 0; // of the newest question, and of the oldest whose answer still counts
    document.addEventListener("visibilitychange", () => this.refresh());
  }

  /** Show a panel, and keep it up to date while it is the view that is open. */
  open(name, title) {
    if (!this.panels.has(name)) this.panels.set(name, this.build(name, title));
    const { panel, heading } = this.panels.get(name);
    panel.opened?.();
    this.refresh();
    heading.focus({ preventScroll: true });
  }

  build(name, title) {
    const place = byId(name);
    const heading = make("h1", { tabIndex: -1 }, title);
    const trouble = make("p", { className: "panel-trouble", role: "status", hidden: true });
    const panel = new KINDS[name]({ ...this.on, act: (command, given) => this.act(command, given), read: () => this.refresh(), soon: () => this.soon() });
    place.replaceChildren(heading, trouble, panel.node);
    return { panel, heading, trouble };
  }

  /** Run a command and return its answer: a `body`, and whether it was `refused`. */
  async act(command, given) {
    const answer = await acted(command, given);
    this.least = this.turn + 1; // what was asked before may be the state before
    if (command === "settings" && !answer.refused) this.on.changed();
    return answer;
  }

  /** Read again shortly, because something has changed. */
  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    clearTimeout(this.timer);
    const name = this.on.shown();
    const open = this.panels.get(name);
    if (!open || document.hidden) return;
    this.timer = setTimeout(() => this.refresh(), REFRESH_MS);
    const address = open.panel.address?.() ?? `panels/${name}`;
    const turn = ++this.turn;
    const { data, refused } = await fetched(address);
    if (turn < this.least) return;
    this.least = turn;
    if (this.panels.get(name) !== open || address !== (open.panel.address?.() ?? address)) return;
    open.trouble.hidden = data !== null;
    write(open.trouble, data === null ? refused || say("panel_trouble") : "");
    if (data !== null) open.panel.draw(data);
  }

  /** Forget what was shown, because nobody is signed in. */
  clear() {
    clearTimeout(this.timer);
    for (const name of this.panels.keys()) byId(name).replaceChildren();
    this.panels.clear();
  }
}

/** Return the data at an address; without it, perhaps the sentence with which it was refused. */
async function fetched(address) {
  try {
    const answer = await fetch(address);
    if (answer.ok) return { data: await answer.json() };
    const told = answer.status === 403 ? await answer.json() : {};
    return { data: null, refused: told.refused && bodyText(told.refused) };
  } catch {
    return { data: null };
  }
}

async function acted(command, { values = {}, job = null }) {
  try {
    const answer = await fetch("panels/act", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ type: "submit", key: newKey(), command, job, values }),
    });
    if (!answer.ok) throw new Error(String(answer.status));
    return await answer.json();
  } catch {
    const text = say("panel_failed");
    announce(text);
    return { body: [{ kind: "text", text }], refused: true };
  }
}
