// The microphone: hold its button to speak, or press it briefly to begin and again to end. What was
// said is transcribed into the text field, or sent at once.

import { Dictation } from "./dictation.js";
import { announce, byId, newKey, recall, remember } from "./dom.js";
import { say } from "./texts.js";

const AT_ONCE = "usher-send-at-once";
const FORMS = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"];
const HELD_MS = 400; // a shorter press begins a recording that goes on without it
const LEAST_MS = 500;
const MOST_MS = 300_000;
const AWAY_PX = 70; // letting go this far from the button discards

export class Microphone {
  /** `on` has `heard(text, atOnce)`, `notice(text)`, and `shown(bar)` when the bar comes or goes. */
  constructor(on) {
    this.on = on;
    this.dictation = new Dictation({
      waits: (seconds) => this.waits(seconds),
      ends: (text, why) => this.ended(text, why),
      refused: () => this.ended("", say("mic_failed")),
    });
    this.recorder = null;
    this.button = byId("mic");
    this.button.setAttribute("aria-label", say("mic"));
    this.button.title = say("mic");
    byId("mic-discard").textContent = say("mic_discard");
    byId("mic-done").textContent = say("mic_done");
    byId("mic-once-label").textContent = say("mic_at_once");
    byId("mic-once").checked = recall(AT_ONCE, true) !== null;
    this.listen();
  }

  /** Offer the button if this browser has a microphone for pages, and a model can transcribe. */
  offer(hears) {
    const able = isSecureContext && navigator.mediaDevices?.getUserMedia && window.MediaRecorder;
    this.button.hidden = !(hears && able);
  }

  listen() {
    const { button } = this;
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      button.setPointerCapture(event.pointerId);
      this.press();
    });
    button.addEventListener("pointermove", (event) => this.bar("away", this.held && this.isAway(event)));
    button.addEventListener("pointerup", (event) => this.release(this.isAway(event)));
    button.addEventListener("pointercancel", () => this.release(false));
    button.addEventListener("contextmenu", (event) => event.preventDefault()); // a long press on a phone
    button.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      if (!event.repeat) this.press();
    });
    button.addEventListener("keyup", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      this.release(false);
    });
    // A screen reader clicks without a pointer or a key.
    button.addEventListener("click", (event) => event.detail === 0 && this.pressed === null && this.toggle());
    byId("mic-done").addEventListener("click", () => this.finish(true));
    byId("mic-discard").addEventListener("click", () => this.discard());
    byId("mic-once").addEventListener("change", () =>
      remember(AT_ONCE, byId("mic-once").checked ? "yes" : null, true));
    addEventListener("keydown", (event) => event.key === "Escape" && this.recorder && this.discard());
    addEventListener("blur", () => this.held && this.release(false));
  }

  isAway(event) {
    const box = this.button.getBoundingClientRect();
    return Math.hypot(event.clientX - box.x - box.width / 2, event.clientY - box.y - box.height / 2) > AWAY_PX;
  }

  // ---------------------------------------------------------------- pressing

  pressed = null; // when the button was pressed, as long as it is

  get held() {
    return this.pressed !== null;
  }

  press() {
    this.pressed = performance.now();
    this.began = !this.recorder;
    if (this.began) this.start();
  }

  release(away) {
    if (!this.held) return;
    const brief = performance.now() - this.pressed < HELD_MS;
    this.pressed = null;
    this.bar("away", false);
    if (away && this.recorder) this.discard();
    else if (this.recorder && !(brief && this.began)) this.finish(true);
  }

  toggle() {
    if (this.recorder) this.finish(true);
    else this.start();
  }

  // ---------------------------------------------------------------- recording

  async start() {
    if (this.dictation.busy || this.starting) return;
    this.starting = true;
    this.on.notice("");
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      this.record(stream);
    } catch (error) {
      const missing = error.name === "NotFoundError";
      this.on.notice(missing ? say("mic_missing") : say("mic_not_allowed"));
    } finally {
      this.starting = false;
    }
  }

  record(stream) {
    const mimeType = FORMS.find((form) => MediaRecorder.isTypeSupported(form));
    const recorder = new MediaRecorder(stream, { mimeType, audioBitsPerSecond: 32_000 });
    const pieces = [];
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      if (this.wanted) this.dictation.begin(newKey(), new Blob(pieces, { type: recorder.mimeType }));
    };
    recorder.start();
    this.recorder = recorder;
    this.startedAt = performance.now();
    this.clock = setInterval(() => this.tick(), 250);
    this.tick();
    this.show("recording");
    announce(say("mic_recording"));
  }

  tick() {
    const seconds = Math.floor((performance.now() - this.startedAt) / 1000);
    byId("mic-time").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    if (seconds * 1000 >= MOST_MS) this.finish(true);
  }

  /** End the recording, and have it transcribed if it is wanted. */
  finish(wanted) {
    if (!this.recorder) return;
    const short = performance.now() - this.startedAt < LEAST_MS;
    this.wanted = wanted && !short;
    clearInterval(this.clock);
    this.recorder.stop();
    this.recorder = null;
    if (this.wanted) return;
    this.show(null);
    if (wanted) this.on.notice(say("mic_short"));
  }

  discard() {
    if (this.recorder) this.finish(false);
    else this.dictation.discard();
    this.show(null);
    this.button.focus();
  }

  // ---------------------------------------------------------------- transcribing

  waits(seconds) {
    byId("mic-time").textContent = seconds === null ? say("mic_transcribing") : say("mic_waits", { count: seconds });
    this.show("transcribing");
  }

  ended(text, why) {
    this.show(null);
    if (text) this.on.heard(text, byId("mic-once").checked);
    else this.on.notice(why);
  }

  /** Show the bar in a state; null hides it. */
  show(state) {
    const bar = byId("dictation");
    bar.hidden = state === null;
    bar.dataset.state = state ?? "";
    byId("mic-done").hidden = state !== "recording";
    this.button.setAttribute("aria-pressed", String(state === "recording"));
    this.on.shown(state !== null);
  }

  bar(name, on) {
    byId("dictation").classList.toggle(name, on);
  }
}
