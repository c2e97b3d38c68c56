// The WebSocket connection to one conversation at a time. It reconnects by itself and requests only missed changes. It sends the
// person's messages one by one until the server confirms them, even across reloads of the page.

import { recallValue, remember, socketAddress } from "./dom.js";

const OUTBOX = "usher-outbox";
const CONFIRM_MS = 10_000; // a connection without an answer for this long counts as dead
const RETRY_LEAST_MS = 400;
const RETRY_MOST_MS = 1_500; // a visible page reconnects soon after its server is back
const RETRY_UNSEEN_MS = 20_000;
const NOT_KNOWN = 4401;
const TOO_MANY_TABS = 4429;

export class Connection {
  /** `on` has a method for each message type, `state(name)` for changes of the connection,
   *  `owns(person)`, which tells whether what waits to be sent is theirs, and `settled(message)` for
   *  one that the server has taken or refused. */
  constructor(on) {
    this.on = on;
    this.conversation = "first";
    this.log = "";
    this.number = 0;
    this.outbox = loadOutbox();
    this.sent = this.outbox[0]?.key; // key of the newest message sent, perhaps before a reload
    this.waiting = new Map(); // pending requests for suggestions and searches by id
    this.nextId = 1;
    this.delay = RETRY_LEAST_MS;
    addEventListener("online", () => (this.open ? this.on.state("connected") : this.connect()));
    addEventListener("focus", () => this.retry && this.connect());
    document.addEventListener("visibilitychange", () => !document.hidden && this.retry && this.connect());
    addEventListener("offline", () => this.on.state("lost"));
  }

  get open() {
    return this.socket?.readyState === WebSocket.OPEN && this.welcomed;
  }

  connect() {
    clearTimeout(this.retry);
    this.retry = null;
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return;
    this.welcomed = false;
    this.on.state("connecting");
    const socket = new WebSocket(socketAddress("socket"));
    this.socket = socket;
    socket.onopen = () => this.hello();
    socket.onmessage = (event) => this.take(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.socket && this.closed(event.code);
  }

  /** Go on to another conversation. Its messages arrive as on a new page. */
  go(conversation) {
    if (conversation === this.conversation) return;
    this.conversation = conversation;
    this.number = 0;
    if (this.open) this.hello();
  }

  hello() {
    const { conversation, log, number } = this;
    this.write({ type: "hello", conversation, log, since: number });
  }

  closed(code) {
    this.welcomed = false;
    clearTimeout(this.confirm);
    if (code === NOT_KNOWN) return this.on.state("unknown");
    if (code === TOO_MANY_TABS) return this.on.state("full");
    this.on.state("lost");
    // Randomised, so that not all pages reconnect to a restarted server at once.
    const wait = document.hidden ? RETRY_UNSEEN_MS : this.delay;
    this.retry = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, RETRY_MOST_MS);
  }

  take(message) {
    switch (message.type) {
      case "welcome": {
        this.delay = RETRY_LEAST_MS;
        if (!this.on.owns(message.person)) return; // what waits to be sent is not theirs
        this.log = message.log;
        if (message.conversation !== this.conversation) { // another one was opened in the meantime
          if (!this.welcomed) this.hello();
          break;
        }
        if (message.fresh) this.number = 0;
        const again = this.welcomed;
        this.welcomed = true;
        this.on.welcome(message);
        this.on.state("connected");
        if (!again) this.flush();
        break;
      }
      case "messages":
        if (message.conversation !== this.conversation) break;
        for (const entry of message.entries) this.number = Math.max(this.number, entry.number);
        this.on.messages(message);
        break;
      case "earlier":
        if (message.conversation === this.conversation) this.on.earlier(message);
        break;
      case "taken":
        this.settle(message.key);
        this.on.taken(message.key);
        break;
      case "refused":
        this.refused(message);
        break;
      case "values":
      case "found":
        this.waiting.get(message.id)?.(message.values ?? message.rows);
        this.waiting.delete(message.id);
        break;
      default:
        this.on[message.type]?.(message);
    }
  }

  /** Send a message, repeating it until it is confirmed. */
  deliver(message) {
    this.outbox.push(message);
    saveOutbox(this.outbox);
    if (this.outbox.length === 1) this.flush();
  }

  /** Send the first message. The next one follows once it is settled; otherwise a message refused
   *  as too fast would be overtaken by later ones. */
  flush() {
    const [first] = this.outbox;
    if (this.open && first) {
      this.repeated = first.key === this.sent;
      this.sent = first.key;
      this.write(first);
    }
    this.watch();
  }

  watch() {
    clearTimeout(this.confirm);
    if (this.outbox.length && this.open) this.confirm = setTimeout(() => this.socket.close(), CONFIRM_MS);
  }

  settle(key) {
    const first = this.outbox[0];
    const settled = this.outbox.find((message) => message.key === key);
    this.outbox = this.outbox.filter((message) => message !== settled);
    if (settled) this.on.settled(settled);
    saveOutbox(this.outbox);
    if (this.outbox[0] !== first) this.flush();
  }

  refused(message) {
    const refused = this.outbox.find((sent) => sent.key === message.key);
    if (message.reason === "too-fast" && refused) {
      setTimeout(() => this.outbox[0] === refused && this.flush(), 2000);
    } else if (message.reason === "button-gone" && this.repeated) {
      this.settle(message.key); // the first press removed the button, but its confirmation was lost
      return this.on.taken(message.key);
    } else if (message.key) {
      this.settle(message.key);
    }
    this.watch();
    this.on.refused(message, refused);
  }

  /** Request values for a parameter. Resolves to a list, or never if the connection breaks first. */
  suggest(command, param, typed) {
    return this.ask({ type: "suggest", command, param, typed: typed.slice(0, 200) });
  }

  /** Request the conversations that contain a text, like values. */
  find(text) {
    return this.ask({ type: "find", text: text.toWellFormed().slice(0, 200) });
  }

  ask(message) {
    const id = this.nextId++;
    this.waiting.clear(); // only the newest request matters
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      if (this.open) this.write({ ...message, id });
    });
  }

  /** Send what need not be repeated: a new connection asks for it again. */
  tell(message) {
    if (this.open) this.write(message);
  }

  write(message) {
    this.socket.send(JSON.stringify(message));
  }
}

const loadOutbox = () => recallValue(OUTBOX, []).map((message) => ({ conversation: "first", ...message }));
const saveOutbox = (outbox) => remember(OUTBOX, outbox.length ? JSON.stringify(outbox) : null);
