// What a person does with a result: each action runs one of the bot's commands, or asks first.

import { resultAddress } from "./large.js";
import { ask } from "./menu.js";
import { say } from "./texts.js";

const NEW_RESULTS = new Set(["vary", "upscale", "edit-image", "video"]); // commands that name an image

/** Run a command, as a form of the bot does. */
function frame(command, item, values = {}) {
  const numbered = NEW_RESULTS.has(command) && item.image ? { number: String(item.image) } : {};
  return { type: "submit", command, job: item.job, values: { ...numbered, ...values } };
}

export class ResultActions {
  /**
   * `on` has `deliver(frame)`, `ask(form)`, `attach(file)`, `chat()` to show the chat's end,
   * `changed(item)`, `removed(job)`, and `failed()` to say that the server does not answer.
   */
  constructor(on) {
    this.on = on;
    this.stored = Promise.resolve(); // resolves once every mark made so far is stored, or could not be
    this.deleting = new Set(); // jobs whose deletion the server has not taken yet
  }

  /** Run a command on a result; its message appears in the chat. */
  run(command, item) {
    if (command === "edit-image") return this.edit(item);
    this.on.deliver(frame(command, item));
    this.on.chat();
  }

  edit(item) {
    const field = { name: "prompt", label: say("large_edit_label"), value: "", long: true, required: true };
    const send = (values) => {
      this.on.deliver(frame("edit-image", item, values));
      this.on.chat();
    };
    this.on.ask({ title: say("large_edit_title"), fields: [field], send: say("large_edit"), take: send });
  }

  /** Delete a result after a question. */
  async remove(item) {
    if (!await ask(say("large_delete_sure"), say("large_delete"))) return;
    this.deleting.add(item.job);
    this.on.deliver(frame("delete", item));
    this.on.removed(item.job);
  }

  /** Note that the server has taken or refused the deletion of a job. */
  answered(job) {
    if (this.deleting.delete(job)) this.stored = this.stored.then(() => {}); // what was read meanwhile is read again
  }

  /** Remove a result that could not be loaded or changed if it no longer exists. Returns whether it is gone. */
  async missing(item) {
    const answer = await fetch(`gallery/${item.job}`).catch(() => null);
    const gone = answer?.status === 404; // it expired, or was deleted elsewhere
    if (gone) this.on.removed(item.job);
    return gone;
  }

  /** Attach an image to the next message. */
  async start(item) {
    try {
      const answer = await fetch(resultAddress(item));
      if (!answer.ok) throw new Error(String(answer.status));
      const data = await answer.blob();
      this.on.chat();
      this.on.attach(new File([data], item.name, { type: data.type }));
    } catch {
      await this.missing(item) || this.on.failed();
    }
  }

  /** Make a result a favourite, or no longer. The mark shows at once, and marks are stored in their order. */
  mark(item) {
    const favourite = !item.favourite;
    item.stored ??= item.favourite;
    item.pending = (item.pending ?? 0) + 1;
    this.show(item, favourite);
    this.stored = this.stored.then(() => this.store(item, favourite));
  }

  show(item, favourite) {
    item.favourite = favourite;
    this.on.changed(item);
  }

  async store(item, favourite) {
    try {
      const answer = await fetch(`${resultAddress(item)}/favourite`, { method: favourite ? "PUT" : "DELETE" });
      if (!answer.ok) throw new Error(String(answer.status));
      item.stored = favourite;
    } catch {
      this.show(item, item.stored);
      await this.missing(item) || this.on.failed();
    } finally {
      item.pending -= 1;
    }
  }

  /** Take in a mark that was made on any page of the person, unless one made here is on its way. */
  marked({ job, number, favourite }, things) {
    for (const { item } of things) {
      if (item?.job !== job || item.number !== number || item.pending) continue;
      item.stored = favourite;
      this.show(item, favourite);
    }
  }
}
