// Keyboard navigation in the conversation: one tab stop per message, and keys to move between them.

import { byId } from "./dom.js";
import { say } from "./texts.js";

const INSIDE = "button, a, video, audio"; // what scrolls sideways stays a tab stop

/** Alt+Up and Alt+Down move between messages; Tab reaches the controls of the focused message. */
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
    // Without Alt they move on from a focused message; elsewhere they scroll or move the cursor.
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

  /** Make a message's controls tab stops, and remove those of the message left. */
  enter(message) {
    if (message === this.entered) return;
    if (this.entered) setStops(this.entered, -1);
    this.entered = message;
    if (message) setStops(message, 0);
  }

  /** Restrict a redrawn message to its one tab stop, unless it has the focus. */
  drawn(message) {
    setStops(message, message === this.entered ? 0 : -1);
  }
}

function setStops(message, stop) {
  for (const control of message.querySelectorAll(INSIDE)) control.tabIndex = stop;
}
