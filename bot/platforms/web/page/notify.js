// Tells people about results that are ready while they look elsewhere: a count in the title and on the
// installed page's icon and, for those who ask for it, a notification.

import { bodyText } from "./body.js";
import { byId } from "./dom.js";
import { say } from "./texts.js";
import { toast } from "./toast.js";

const WANTED = "usher-notify";
const TITLE = "Usher";

export class Attention {
  /** `worker` is a promise of the service worker's registration, and `show(key)` shows a conversation. */
  constructor(worker, show) {
    this.worker = worker;
    this.show = show;
    this.running = new Map(); // by message id: whether its job still runs
    this.unseen = new Map(); // the conversations of messages, or of something new in them
    this.bell = byId("bell");
    this.bell.addEventListener("click", () => this.change());
    addEventListener("focus", () => this.seen());
    document.addEventListener("visibilitychange", () => this.seen());
    worker.then((registration) => registration && "Notification" in window && this.offer());
    navigator.serviceWorker?.addEventListener("message", ({ data }) => this.show(data.conversation));
  }

  /** Take in a message of a conversation as of its newest change. `old`: it was there before the page was opened. */
  arrived({ message, shown }, old, conversation) {
    const before = this.running.get(message);
    if (!shown || shown.author !== "usher") return;
    const running = shown.waits || shown.buttons.flat().some((button) => button.command === "cancel");
    this.running.set(message, running);
    if (old || running || before === false || isSeen()) return;
    this.unseen.set(message, conversation);
    this.count();
    if (document.hidden) this.notify(message, bodyText(shown.body), conversation);
  }

  /** Take in that a conversation which is not open has something new. */
  elsewhere({ key, title }) {
    if (isSeen()) return;
    this.unseen.set(key, key);
    this.count();
    if (document.hidden) this.notify(key, title, key);
  }

  /** Forget what the person has seen on another page. `opened` is the conversation that is open here. */
  read(rows, opened) {
    const read = new Set(rows.filter(({ unread }) => !unread).map(({ key }) => key));
    if (!document.hidden) read.delete(opened); // it counts as read because it is visible here
    const before = this.unseen.size;
    for (const [tag, key] of this.unseen) if (read.has(key)) this.unseen.delete(tag);
    if (this.unseen.size < before) this.count();
  }

  seen() {
    if (!isSeen() || this.unseen.size === 0) return;
    this.unseen.clear();
    this.count();
  }

  count() {
    const { size } = this.unseen;
    document.title = size ? `(${size}) ${TITLE}` : TITLE;
    navigator.setAppBadge?.(size).catch(() => {}); // not allowed before the page is installed
  }

  async notify(tag, words, data) {
    if (!this.wanted) return;
    // The tag makes several tabs show it once.
    const told = { body: words.trim().slice(0, 200), tag, data, icon: "static/icon-192.png" };
    const { active } = await this.worker;
    // The worker could not be installed, or not yet. Phones have no way but the worker's.
    if (!active && this.notifyWithout(told)) return;
    const registration = await navigator.serviceWorker.ready;
    await registration.showNotification(say("notify_ready"), told);
  }

  /** Show a notification of the page's own. Returns whether the browser allows that. */
  notifyWithout(told) {
    try {
      const notification = new Notification(say("notify_ready"), told);
      notification.onclick = () => {
        notification.close();
        focus();
        this.show(told.data);
      };
      return true;
    } catch {
      return false;
    }
  }

  // ---------------------------------------------------------------- the bell

  get wanted() {
    return !this.bell.hidden && Notification.permission === "granted" && stored();
  }

  offer() {
    this.bell.hidden = false;
    this.bell.setAttribute("aria-pressed", String(this.wanted));
    this.bell.title = say("notify");
    this.bell.setAttribute("aria-label", say("notify"));
  }

  async change() {
    if (this.wanted) store(false);
    else if ((await Notification.requestPermission()) === "granted") store(true);
    else toast(say("notify_denied"));
    this.offer();
  }
}

const isSeen = () => !document.hidden && document.hasFocus();

function stored() {
  try {
    return localStorage.getItem(WANTED) === "yes";
  } catch {
    return false;
  }
}

function store(wanted) {
  localStorage.setItem(WANTED, wanted ? "yes" : "no");
}

/** Install the service worker. Resolves to its registration, or to nothing where there is none. */
export async function installWorker() {
  try {
    // Trusted Types demand a policy for the address of a script. It permits this one only.
    const policy = globalThis.trustedTypes?.createPolicy("usher", { createScriptURL: () => "sw.js" });
    return await navigator.serviceWorker?.register(policy?.createScriptURL("") ?? "sw.js");
  } catch {
    return undefined; // a private window, or the server is away
  }
}
