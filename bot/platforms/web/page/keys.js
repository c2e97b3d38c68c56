// The keyboard's way through the conversation: one stop for each message, and keys between them.

import { byId } from "./dom.js";
import { say } from "./texts.js";

const INSIDE = "button, a, pre, video, audio";

/** Alt+Up and Alt+Down go from message to message; what a message holds is reached from within it. */
export class MessageKeys {
  constructor(list) {
    this.list = list;
    this.log = byId("log");
    this.log.setAttribute("aria-description", say("message_keys"));
    this.log.setAttribute("aria-keyshortcuts", "Alt+ArrowUp Alt+ArrowDown");
    addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("focusin", (event) => this.enter(event.target.closest(".message")));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || document.querySelector("dialog[open]")) return;
    const at = document.activeElement?.closest?.(".message");
    if (event.key === "Escape" && at) return byId("text").focus();
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    // Alone they go on from a message, and scroll or move the cursor everywhere else.
    if (!step || !(event.altKey || document.activeElement === at)) return;
    event.preventDefault();
    this.go(at, step);
  }

  go(at, step) {
    if (!at && step > 0) return;
    const to = !at ? this.list.lastElementChild : step < 0 ? at.previousElementSibling : at.nextElementSibling;
    if (to) {
      to.focus({ preventScroll: true });
      to.scrollIntoView({ block: "nearest" });
    } else if (step > 0) {
      byId("text").focus();
    }
  }

  /** Make a message's controls stops, and those of the message before it none. */
  enter(message) {
    if (message === this.entered) return;
    if (this.entered) setStops(this.entered, -1);
    this.entered = message;
    if (message) setStops(message, 0);
  }

  /** Keep a message that was just drawn to its one stop, unless the focus is in it. */
  drawn(message) {
    setStops(message, message === this.entered ? 0 : -1);
  }
}

function setStops(message, stop) {
  for (const control of message.querySelectorAll(INSIDE)) control.tabIndex = stop;
}
