// A form from the bot: one dialog, rebuilt for each form.

import { byId, make } from "./dom.js";
import { showOver } from "./over.js";
import { say } from "./texts.js";

export class FormDialog {
  /** `send(form, values)` receives the texts by field name. */
  constructor(send) {
    this.dialog = byId("form");
    this.body = byId("form-body");
    byId("form-cancel").textContent = say("cancel");
    byId("form-cancel").addEventListener("click", () => this.dialog.close());
    this.body.addEventListener("submit", (event) => {
      event.preventDefault();
      this.dialog.close();
      send(this.form, Object.fromEntries([...new FormData(this.body)].map(([name, text]) => [name, String(text)])));
    });
    // Enter adds a line in a long field; Ctrl+Enter or Cmd+Enter submits from any field.
    this.body.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.body.requestSubmit();
    });
  }

  show(form) {
    this.form = form;
    byId("form-title").textContent = form.title;
    byId("form-send").textContent = form.send;
    byId("form-fields").replaceChildren(...form.fields.map(fieldNode));
    showOver(this.dialog);
    byId("form-fields").querySelector("input, textarea")?.focus();
  }
}

function fieldNode(field) {
  const id = `form-${field.name}`;
  const given = { id, name: field.name, required: field.required, autocomplete: "off" };
  const line = field.long
    ? make("textarea", { ...given, rows: 5 })
    : make("input", { ...given, type: "text" });
  line.value = field.value;
  if (field.most) line.maxLength = field.most;
  return make("div", { className: "field" }, make("label", { htmlFor: id }, field.label), line);
}
