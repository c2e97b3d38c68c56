// The models: what each can do, where it is, how long it takes, and what can be done with it.

import { drawBody } from "./body.js";
import { make } from "./dom.js";
import { keyed, write, writeParts } from "./keyed.js";
import { moment, range } from "./moments.js";
import { say } from "./texts.js";

const FEW = 8; // models that need no search

export class ModelsPanel {
  constructor(on) {
    this.on = on;
    this.sought = make("input", { type: "search", className: "panel-search", "aria-label": say("panel_find_model"), placeholder: say("panel_find_model") });
    this.sought.addEventListener("input", () => this.draw(this.data));
    this.list = make("ul", { className: "panel-list" });
    this.none = make("p", { className: "dim", hidden: true }, say("panel_no_models"));
    this.node = make("div", {}, this.sought, this.list, this.none);
  }

  /** Begin with the models in use. They stay in place while the panel is open. */
  opened() {
    this.order = new Set();
  }

  draw(data) {
    this.data = data;
    const byName = new Map(data.models.map((model) => [model.name, model]));
    this.order = new Set([...this.order, ...byName.keys()]);
    const inOrder = [...this.order].map((name) => byName.get(name)).filter(Boolean);
    this.sought.hidden = data.models.length <= FEW;
    const sought = this.sought.value.trim().toLowerCase();
    const fits = ({ name, aliases, abilities }) => [name, ...aliases, ...abilities].join(" ").toLowerCase().includes(sought);
    const models = inOrder.filter(fits).map((model) => ({ ...model, operates: data.operates }));
    keyed(this.list, models, (model) => model.name, (model) => new ModelCard(model, this.on));
    this.none.hidden = models.length > 0;
  }
}

class ModelCard {
  constructor(model, on) {
    this.on = on;
    this.name = model.name;
    this.place = make("span", { className: "panel-chip" });
    this.facts = make("p", { className: "dim" });
    this.wait = make("p", {});
    this.notes = make("div", { className: "panel-notes" });
    this.uses = make("div", { className: "button-row" });
    this.load = make("button", { type: "button", className: "button" });
    this.load.addEventListener("click", () => this.turn());
    this.answer = make("div", { className: "panel-answer", role: "status", hidden: true });
    const also = model.aliases.length ? [make("span", { className: "dim" }, model.aliases.join(", "))] : [];
    this.node = make("li", { className: "panel-card" },
      make("div", { className: "panel-head" }, make("span", { className: "dot", "aria-hidden": "true" }),
        make("b", {}, model.name), ...also, this.place),
      this.facts, this.wait, this.notes, make("div", { className: "panel-acts" }, this.uses, this.load), this.answer);
  }

  draw(model) {
    this.model = model;
    this.node.dataset.memory = model.memory ?? "absent";
    write(this.place, model.place);
    const vram = model.vram ? [say("panel_gigabytes", { size: model.vram })] : [];
    write(this.facts, [model.abilities.join(", "), ...vram, model.took].join(" · "));
    writeParts(this.wait, [model.waiting, model.running, model.ready_at, model.ends], () => [
      model.waiting + model.running ? say("model_count", model) : say("panel_idle"),
      ...(model.ready_at ? [say("panel_ready"), moment({ at: model.ready_at })] : []),
      ...(model.ends ? [say("panel_new_job"), range(model.ends)] : [])]);
    drawOnce(this.notes, model.notes, (body) => withoutSeparator(body));
    keyed(this.uses, model.uses, (use) => use.command, (use) => new UseButtons(use, this));
    this.load.hidden = !model.operates || !model.needs_memory || model.memory === "unloading";
    const words = say(model.memory ? "panel_unload" : "panel_load");
    write(this.load, words);
    this.load.setAttribute("aria-label", `${words}: ${model.name}`);
  }

  turn() {
    return this.act(this.load, this.model.memory ? "unload" : "preload", { model: this.name });
  }

  /** Run a command of a button, and show its answer. */
  async act(button, command, values) {
    button.setAttribute("aria-busy", "true");
    const { body, refused } = await this.on.act(command, { values });
    button.removeAttribute("aria-busy");
    this.answer.classList.toggle("refused", refused);
    drawBody(this.answer, command === "settings" && !refused ? [{ kind: "text", text: say("panel_saved") }] : body);
    this.on.soon();
  }
}

/** A button that begins a command with the model, and one that makes it the command's default. */
class UseButtons {
  constructor(use, card) {
    const line = `/${use.command} ${card.name} `;
    const begin = make("button", { type: "button", className: "button", "aria-label": `${say("panel_use")} ${line.trim()}` },
      `${say("panel_use")} `, make("code", {}, `/${use.command}`));
    begin.addEventListener("click", () => card.on.write(line));
    const label = say("panel_default", { kind: use.kind, model: card.name });
    this.star = make("button", { type: "button", className: "button panel-star", "aria-label": label, title: label });
    this.star.addEventListener("click", () =>
      card.act(this.star, "settings", { [use.command]: this.chosen ? "reset" : card.name }));
    this.node = make("span", { className: "panel-use" }, begin, this.star);
  }

  draw({ chosen }) {
    this.chosen = chosen;
    this.star.setAttribute("aria-pressed", String(chosen));
    write(this.star, chosen ? "★" : "☆");
  }
}

function drawOnce(node, body, shown) {
  const told = JSON.stringify(body);
  if (node.told !== told) drawBody(node, shown(body));
  node.told = told;
}

/** Return a body without the separator that joins it to a line of text before it. */
const withoutSeparator = ([first, ...rest]) =>
  first ? [{ ...first, text: first.text?.replace(/^ · /, "") }, ...rest] : [];
