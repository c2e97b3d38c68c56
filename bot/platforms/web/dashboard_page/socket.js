// The operator page's connection: receives frames, sends acts, and reconnects by itself.

import { socketAddress } from "../../static/dom.js";

const RETRY_LEAST_MS = 400;
const RETRY_MOST_MS = 1_500;
const GIVEN_UP_MS = 15_000; // an act that is not confirmed for this long is given up
const NOT_KNOWN = 4401;
const TOO_MANY = 4429;

export class Live {
  /** `on` has a method for each message type, `state(name)`, and `lost(key)` for an act not sent. */
  constructor(on) {
    this.on = on;
    this.delay = RETRY_LEAST_MS;
    this.acts = new Map(); // by key, until they are confirmed
    addEventListener("online", () => this.connect());
    addEventListener("focus", () => this.retry && this.connect());
    document.addEventListener("visibilitychange", () => this.seen());
  }

  /** Disconnect while the tab is hidden, unless acts are pending. */
  seen() {
    if (!document.hidden) return this.connect();
    if (this.acts.size) return undefined;
    clearTimeout(this.retry);
    return this.socket?.close();
  }

  connect() {
    clearTimeout(this.retry);
    this.retry = null;
    if (this.ended || (this.socket && this.socket.readyState <= WebSocket.OPEN)) return;
    this.on.state("connecting");
    const socket = new WebSocket(socketAddress("operator/socket"));
    this.socket = socket;
    socket.onmessage = (event) => this.take(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.socket && this.closed(event.code);
    socket.onopen = () => {
      this.delay = RETRY_LEAST_MS;
      this.on.state("connected");
      for (const act of this.acts.values()) socket.send(JSON.stringify(act));
    };
  }

  closed(code) {
    this.ended = code === NOT_KNOWN; // only a reload can change that
    if (this.ended) return this.on.state("unknown");
    if (code === TOO_MANY) return this.on.state("full");
    this.on.state("lost");
    if (document.hidden) return undefined; // it reconnects when it becomes visible
    this.retry = setTimeout(() => this.connect(), this.delay * (0.5 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, RETRY_MOST_MS);
    return undefined;
  }

  take(message) {
    if (message.type === "taken" || message.type === "refused") this.acts.delete(message.key);
    this.on[message.type]?.(message);
  }

  /** Send an act, repeating it after a reconnect. Its key ensures that it runs once. */
  send(act) {
    this.acts.set(act.key, act);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(act));
    setTimeout(() => this.acts.delete(act.key) && this.on.lost(act.key), GIVEN_UP_MS);
  }
}
