// Has recordings transcribed. The page keeps the key of the one that waits, so that a reload or a lost
// connection does not lose its transcript.

import { recall, remember } from "./dom.js";

const KEPT = "usher-dictation";
const AGAIN_MS = 3000; // until a retry when the server does not answer or is busy

export class Dictation {
  /** `on` has `waits(seconds)`, `ends(text, why)` with one of the two, and `refused()`. */
  constructor(on) {
    this.on = on;
    this.key = recall(KEPT);
    this.unsent = null; // the recording, until the server has it
  }

  get busy() {
    return this.key !== null;
  }

  begin(key, recording) {
    this.key = key;
    this.unsent = recording;
    this.go();
  }

  /** Go on where an interruption stopped. */
  async go() {
    const { key } = this;
    if (key === null || this.going) return;
    this.going = true;
    this.on.waits(null);
    try {
      while (this.key === key) await (this.unsent ? this.send(key) : this.wait(key));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      setTimeout(() => this.go(), AGAIN_MS); // the server did not answer
    } finally {
      this.going = false;
    }
  }

  async send(key) {
    const headers = { "Content-Type": this.unsent.type };
    const answer = await fetch(`dictation/${key}`, { method: "POST", headers, body: this.unsent });
    if (this.key !== key) return cancel(key);
    if (answer.status === 429 || answer.status === 503) {
      return new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
    this.unsent = null;
    if (!answer.ok) return this.end("", "");
    remember(KEPT, key);
    this.take(await answer.json());
  }

  async wait(key) {
    const answer = await fetch(`dictation/${key}`);
    if (this.key !== key) return;
    if (!answer.ok) return this.end("", "");
    this.take(await answer.json());
  }

  take({ done, text, why, wait_s }) {
    if (done) this.end(text, why);
    else this.on.waits(wait_s);
  }

  end(text, why) {
    this.key = this.unsent = null;
    remember(KEPT, null);
    if (text || why) this.on.ends(text, why);
    else this.on.refused();
  }

  /** Discard the recording that waits. */
  discard() {
    const { key } = this;
    if (key === null) return;
    this.key = this.unsent = null;
    remember(KEPT, null);
    cancel(key);
  }
}

async function cancel(key) {
  try {
    await fetch(`dictation/${key}`, { method: "DELETE" });
  } catch {
    // Without a connection the job goes on, and nobody reads its text.
  }
}
