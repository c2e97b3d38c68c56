// The settings: a picker for each, saved when it is changed.

import { bodyText, drawBody } from "./body.js";
import { make } from "./dom.js";
import { keyed, write } from "./keyed.js";
import { language, say } from "./texts.js";

const RESET = "reset"; // the value that clears a setting
const SAID_MS = 4000;

export class SettingsPanel {
  constructor(on) {
    this.on = on;
    this.rows = make("div", { className: "panel-settings" });
    this.facts = make("p", { className: "dim" });
    this.node = make("div", {}, make("p", { className: "dim" }, say("panel_settings_text")), this.rows, this.facts);
  }

  draw({ settings, lane, gpu }) {
    keyed(this.rows, settings, (row) => row.name, (row) => new Setting(row, this.on));
    const facts = [say("panel_gpu", { used: bodyText(gpu) })];
    if (lane !== "normal") facts.push(say("panel_lane", { lane }));
    write(this.facts, facts.join(" · "));
  }
}

class Setting {
  constructor({ name, label, free }, on) {
    this.name = name;
    this.free = free;
    this.on = on;
    const id = `setting-${name}`;
    this.answer = make("p", { className: "panel-answer", role: "status" });
    this.list = free ? make("datalist", { id: `${id}-choices` }) : null;
    this.control = free
      ? make("input", { id, type: "text", autocomplete: "off", maxLength: 40 })
      : make("select", { id });
    if (free) this.control.setAttribute("list", this.list.id);
    this.control.addEventListener("change", () => this.save());
    this.node = make("div", { className: "panel-setting" }, make("label", { htmlFor: id }, label), this.control, this.list, this.answer);
  }

  draw(row) {
    this.row = row;
    const told = JSON.stringify(row.choices);
    if (this.told !== told) this.drawChoices(row.choices);
    this.told = told;
    const typing = this.free && this.control === document.activeElement;
    if (!this.saving && !typing) this.control.value = this.free && row.value === RESET ? "" : row.value;
  }

  drawChoices(choices) {
    const own = this.free ? choices.filter(({ value }) => value !== RESET) : choices;
    (this.list ?? this.control).replaceChildren(...own.map(({ value, words }) =>
      make("option", { value }, this.name === "language" && value !== RESET ? languageName(value) : words)));
    if (this.free) this.control.placeholder = choices.find(({ value }) => value === RESET).words;
  }

  async save() {
    this.saving = true;
    clearTimeout(this.timer);
    this.say([{ kind: "text", text: say("panel_saving") }], false);
    const value = this.control.value.trim() || RESET;
    const { body, refused } = await this.on.act("settings", { values: { [this.name]: value } });
    this.saving = false;
    this.say(refused ? body : [{ kind: "text", text: say("panel_saved") }], refused);
    if (refused) this.draw(this.row);
    else this.timer = setTimeout(() => this.say([], false), SAID_MS);
    this.on.soon();
  }

  say(body, refused) {
    this.answer.classList.toggle("refused", refused);
    drawBody(this.answer, body);
  }
}

const languageName = (code) => new Intl.DisplayNames([language], { type: "language" }).of(code);
