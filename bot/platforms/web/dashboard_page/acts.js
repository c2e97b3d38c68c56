// Admin actions: the same commands as in a chat, with the bot's answers shown below.

import { drawBody } from "../../static/body.js";
import { byId, make, newKey } from "../../static/dom.js";
import { write } from "../../static/keyed.js";
import { showOver } from "../../static/over.js";
import { tell } from "../../static/texts.js";

const SHOWN = 4; // answers shown at once; all of them are also in the chat

export class Acts {
  constructor() {
    this.outcomes = new Map(); // by the key of the act
    byId("confirm-no").addEventListener("click", () => byId("confirm").close());
    byId("confirm-form").addEventListener("submit", () => this.confirmed?.());
  }

  /** Run a command with its values. `said` has the names for its description on the page. */
  perform(command, { values = {}, job = null, said = {} } = {}) {
    const key = newKey();
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
    this.begin(key, tell(`said.${command}`, said));
    this.live.send({ type: "submit", key, command, job, values: given });
  }

  /** Ask for confirmation first. `fields` are inputs whose texts become values of the command. */
  ask({ title, text, yes, fields = [] }, command, act) {
    const inputs = fields.map((field) => make("input", { id: `confirm-${field.name}`, autocomplete: "off", ...field.input }));
    byId("confirm-fields").replaceChildren(...fields.map((field, at) => make("div", { className: "field" },
      make("label", { htmlFor: inputs[at].id }, field.label), inputs[at])));
    write(byId("confirm-title"), title);
    write(byId("confirm-text"), text);
    write(byId("confirm-yes"), yes);
    write(byId("confirm-no"), tell("keep"));
    this.confirmed = () => {
      const filled = fields.map((field, at) => [field.name, inputs[at].value.trim()]);
      this.perform(command, { ...act, values: { ...act.values, ...Object.fromEntries(filled) } });
    };
    showOver(byId("confirm"));
    (inputs[0] ?? byId("confirm-no")).focus();
  }

  // -------------------------------------------------------------- outcomes

  begin(key, words) {
    const answer = make("div", { className: "outcome-text" }, tell("sending"));
    const away = make("button", { type: "button", className: "icon", "aria-label": `${tell("dismiss")}: ${words}` }, "×");
    const node = make("div", { className: "outcome" }, make("div", {}, make("b", {}, words), answer), away);
    away.addEventListener("click", () => this.dismiss(key));
    this.outcomes.set(key, { node, answer });
    byId("outcomes").append(node);
    while (this.outcomes.size > SHOWN) this.dismiss(this.outcomes.keys().next().value);
  }

  dismiss(key) {
    this.outcomes.get(key)?.node.remove();
    this.outcomes.delete(key);
  }

  taken({ key }) {
    const outcome = this.outcomes.get(key);
    if (outcome && !outcome.answered) write(outcome.answer, tell("waiting_for_answer"));
  }

  answer({ key, body }) {
    const outcome = this.outcomes.get(key);
    if (!outcome) return;
    if (!outcome.answered) outcome.answer.replaceChildren();
    outcome.answered = true;
    drawBody(outcome.answer, body);
  }

  refused({ key, reason }) {
    this.failed(key, tell(`refused.${reason}`));
  }

  lost(key) {
    this.failed(key, tell("not_sent"));
  }

  failed(key, words) {
    const outcome = this.outcomes.get(key);
    if (!outcome) return;
    outcome.node.classList.add("failed");
    write(outcome.answer, words);
  }
}
