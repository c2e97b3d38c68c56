// Assembles the chat page: the connection, the conversation, the composer and the overview.

import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Conversation } from "./conversation.js";
import { Conversations } from "./conversations.js";
import { byId, make, newKey, recall, remember } from "./dom.js";
import { FormDialog } from "./forms.js";
import { Large } from "./large.js";
import { Attention, installWorker } from "./notify.js";
import { ResultActions } from "./results.js";
import { Side } from "./side.js";
import { owns, showSignIn, showSignOut } from "./signin.js";
import { language, say, speak } from "./texts.js";
import { toast } from "./toast.js";
import { Views } from "./views.js";

const STARTS = ["image", "describe", "help"]; // useful for new people, and fit on a phone

const lineId = (key) => `line-${key}`; // the server uses the same id

const OPENED = "usher-conversation";
const KEY = /^(first|[0-9a-f]{16})$/; // of a conversation

const presses = new Map(); // messages by key, until answered
const sentFiles = new Map(); // by the key of their message, until answered

const conversation = new Conversation({
  press(message, button) {
    if (button.command === "new-topic") {
      conversation.freeButtons(message);
      return begin();
    }
    const key = newKey();
    presses.set(key, message);
    const { command, job, number } = button;
    connection.deliver({ type: "press", key, conversation: opened(), message, command, job, number });
  },
  reply: (message, text) => composer.reply(message, text),
  edit: (text) => composer.write(text),
  earlier: (before) => connection.tell({ type: "earlier", before }),
  enlarge: (shown, file) => large.showMessage(shown, file),
  arrived: (entry, old) => attention.arrived(entry, old, opened()),
});

const composer = new Composer({
  send({ text, files, uploads, images, replyTo }) {
    if (/^\/new$/i.test(text) && !uploads.length) {
      composer.write(""); // it is no draft of the conversation that is left
      return begin();
    }
    const key = newKey();
    sentFiles.set(key, files);
    conversation.pending(lineId(key), text, images, sendingNote());
    connection.deliver({ type: "say", key, conversation: opened(), text, uploads, reply_to: replyTo });
  },
  suggest: (command, param, typed) => connection.suggest(command, param, typed),
  lines: () => conversation.lines(),
  connected: () => connection.open,
});

const attention = new Attention(installWorker(), (key) => views.go("chat", key));

document.addEventListener("click", (event) => {
  const typed = event.target.closest?.("[data-typed]");
  if (typed) writeInChat(`${typed.dataset.typed} `);
});

const forms = new FormDialog(({ command, job, number, conversation, take }, values) => {
  if (take) take(values); // asked by the page itself
  else {
    const all = number ? { ...values, number: String(number) } : values;
    connection.deliver({ type: "submit", key: newKey(), conversation, command, job, values: all });
  }
});

const actions = new ResultActions({
  deliver: (frame) => connection.deliver({ ...frame, key: newKey(), conversation: opened() }),
  ask: (form) => forms.show(form),
  attach: (file) => composer.attachments.attach([file]),
  chat() {
    large.close();
    views.go("chat");
    conversation.toEnd();
  },
  failed() {
    toast(say("gallery_lost"));
    large.note(say("gallery_lost"));
  },
  changed(item) {
    gallery?.changed(item);
    large.redraw();
  },
  removed(job) {
    gallery?.removed(job);
    large.removed(job);
  },
});
const large = new Large(actions);
let gallery = null; // loaded when it is first opened

const talks = new Conversations({
  begin: () => begin(),
  chosen: () => side.close(),
  more: (most) => connection.tell({ type: "list", most }),
  find: (text) => connection.find(text),
  rename: (key, name) => connection.deliver({ type: "rename", key: newKey(), conversation: key, name }),
  remove: (key) => connection.deliver({ type: "remove", key: newKey(), conversation: key }),
  ask: (form) => forms.show(form),
  news: (row) => row.key !== current && attention.elsewhere(row),
});

const connection = new Connection({
  state: showState,
  owns: (person) => owns(person, forgetChoices),
  welcome(welcome) {
    composer.commands = welcome.commands;
    composer.mostText = welcome.max_text;
    composer.attachments.limits = welcome;
    showSignOut(welcome.signed_in, forgetChoices);
    showOperate(welcome.operates);
    composer.complete();
    composer.attachments.resume();
    composer.making.refresh().then(() => conversation.redraw());
    composer.microphone.dictation.go();
    showEmptyPage(welcome.commands);
    talks.welcomed();
    conversation.connected();
  },
  messages(message) {
    conversation.apply(message.entries, message);
    gallery?.soon();
  },
  earlier: (message) => conversation.applyEarlier(message.entries, message.more),
  language: (message) => speak(message.language),
  overview(message) {
    showOverview(message.queues);
    panels?.soon();
    conversation.overview(message.queues);
    composer.making.refreshSoon();
  },
  conversations(message) {
    talks.show(message.rows, message.more);
    attention.read(message.rows, opened());
    see();
    gallery?.soon(); // something may have been made or deleted in another one
  },
  marked: (message) => actions.marked(message, [...(gallery?.things ?? []), ...large.things]),
  gone: () => gallery?.soon(),
  form: (message) => forms.show({ ...message, conversation: opened() }),
  taken(key) {
    sentFiles.delete(key);
    free(key);
  },
  settled(frame) {
    if (frame.command !== "delete") return;
    actions.answered(frame.job);
    gallery?.soon();
  },
  async refused(message, sent) {
    const files = sentFiles.get(message.key);
    if (message.reason !== "too-fast") sentFiles.delete(message.key);
    if (message.reason === "upload-gone" && files) { // the server has started again since
      const uploads = await composer.attachments.again(files);
      if (uploads) return connection.deliver({ ...sent, uploads });
    }
    const reason = say(`refused.${message.reason}`);
    free(message.key);
    if (sent?.type !== "say") toast(reason);
    else if (message.reason === "too-fast") conversation.pendingNote(lineId(sent.key), reason);
    else if (sent.conversation !== opened()) notSent(sent, reason);
    else conversation.failed(lineId(sent.key), reason);
  },
});

function free(key) {
  conversation.freeButtons(presses.get(key));
  presses.delete(key);
}

/** Keep a refused message of a conversation that is not open. */
function notSent(sent, reason) {
  composer.keep(sent.conversation, sent.text);
  toast(`${say("not_sent")} ${reason}`);
}

const sendingNote = () => (byId("connection").dataset.state === "connected" ? say("sending") : say("waiting"));

// ---------------------------------------------------------------- the page around it

const side = new Side();
let current = null; // the key of the open conversation
let begun = null; // the key of the newest conversation that began here
const views = new Views();
const VIEWS = [ // a name, its label, and what to do when it is opened
  ["chat", null, openConversation],
  ["gallery", say("gallery_view"), openGallery],
  ["models", say("view_models"), openPanel],
  ["status", say("view_status"), openPanel],
  ["history", say("view_history"), openPanel],
  ["settings", say("view_settings"), openPanel],
];
let panels = null; // loaded with the first panel
for (const [name, label, open] of VIEWS) {
  views.add(name, (rest) => open(rest, name, label));
  if (label) side.addView(name, label); // the conversations lead to the chat
}

// ---------------------------------------------------------------- conversations

/** Return the key of the open conversation. */
function opened() {
  return connection.conversation;
}

/** Open the conversation that the address names, or the last one. */
function openConversation(rest) {
  const key = KEY.test(rest) ? rest : current ?? recall(OPENED, true) ?? "first";
  // Back returns to this conversation.
  if (["", "#", "#chat"].includes(location.hash)) history.replaceState(null, "", `#chat/${key}`);
  if (key === current) return;
  current = key;
  remember(OPENED, key, true);
  connection.go(key);
  conversation.leave({ empty: key === begun });
  composer.open(key);
  for (const message of connection.outbox) {
    if (message.type !== "say" || message.conversation !== key) continue;
    conversation.pending(lineId(message.key), message.text, [], sendingNote());
  }
}

/** Begin a new conversation. Its first message stores it. */
function begin() {
  addEventListener("hashchange", () => byId("text").focus(), { once: true });
  begun = newKey(8);
  views.go("chat", begun);
}

/** Tell the server that the person sees what is new in the open conversation. */
function see() {
  if (talks.unread && !document.hidden) connection.tell({ type: "seen" });
}
document.addEventListener("visibilitychange", see);

/** Mark the open conversation in the side bar while the chat is shown. */
function mark() {
  talks.open(views.shown === "chat" ? current : null);
  see();
}
addEventListener("hashchange", mark);

async function openGallery() {
  const { Gallery } = await import("./gallery.js");
  gallery ??= new Gallery(large, actions);
  if (views.shown === "gallery") gallery.open();
}

async function openPanel(_rest, name, label) {
  const { Panels } = await import("./panels.js");
  panels ??= new Panels({
    shown: () => views.shown,
    write: writeInChat,
    run(command, job) {
      connection.deliver({ type: "submit", key: newKey(), conversation: opened(), command, job, values: {} });
      views.go("chat");
    },
    changed: () => composer.making.refresh(),
  });
  if (views.shown === name) panels.open(name, label);
}

/** Open the chat with a text in the composer. */
function writeInChat(text) {
  views.go("chat");
  composer.write(text);
}

function showState(state) {
  const shown = byId("connection").dataset.state;
  if (state === "connecting" && shown === "lost") return; // show one long outage, not many short ones
  byId("connection").dataset.state = state;
  document.documentElement.dataset.connection = state; // countdowns run only while connected
  const text = { connecting: "connecting", connected: "connected", full: "tabs_full" }[state] ?? "lost";
  const told = state === "unknown" ? "" : say(text);
  // Set it only when it changes, because screen readers announce it each time.
  if (byId("connection-text").textContent !== told) byId("connection-text").textContent = told;
  byId("signin").hidden = state !== "unknown";
  byId("stage").hidden = byId("side").hidden = state === "unknown";
  if (state === "unknown") signedOut();
  if (state === "lost" && !byId("empty").hasChildNodes()) showAway();
  for (const { type, key } of connection.outbox) if (type === "say") conversation.pendingNote(lineId(key), sendingNote());
}

/** Say that a page without its server still takes what is typed. */
function showAway() {
  byId("empty").replaceChildren(make("h2", {}, say("away_title")), make("p", {}, say("away_text")));
  byId("empty").hidden = conversation.lines().length > 0;
}

/** Clear the conversation and show the sign-in form. */
function signedOut() {
  conversation.clear();
  panels?.clear();
  talks.show([], false);
  showOverview([]);
  byId("announce").textContent = "";
  showSignIn();
}

/** Forget what a person chose last in this browser. */
function forgetChoices() {
  remember(OPENED, null, true);
  composer.making.forget();
}

function showOperate(offered) {
  byId("operate").hidden = !offered;
  byId("operate").textContent = say("operate");
}

function showOverview(queues) {
  const list = byId("overview");
  list.hidden = queues.length === 0;
  list.setAttribute("aria-label", say("overview"));
  list.replaceChildren(...queues.map(overviewRow));
}

function overviewRow(queue) {
  const memory = say({ absent: "model_absent", loading: "model_loading", ready: "model_ready" }[queue.memory]);
  const label = `${queue.model}: ${memory}, ${say("model_count", queue)}`;
  const count = queue.waiting + queue.running;
  return make("li", { title: label, "data-memory": queue.memory },
    make("span", { className: "dot", "aria-hidden": "true" }),
    make("span", { "aria-hidden": "true" }, queue.model),
    count ? make("b", { "aria-hidden": "true" }, String(count)) : null,
    make("span", { className: "unseen" }, label));
}

function showEmptyPage(commands) {
  const known = STARTS.map((name) => commands.find((command) => command.name === name));
  const buttons = known.filter(Boolean).map((command) => {
    const button = make("button", { type: "button", className: "start" },
      make("b", {}, command.help), make("span", {}, `/${command.name}`));
    button.addEventListener("click", () => composer.write(`/${command.name} `));
    return button;
  });
  byId("empty").replaceChildren(
    make("h2", {}, say("empty_title")), make("p", {}, say("empty_text")),
    make("div", { className: "starts" }, ...buttons));
}

// Typing anywhere goes to the text field, except while a control has the focus.
addEventListener("keydown", (event) => {
  const busy = event.target.closest?.("input, select, textarea, dialog, button, a, pre");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1 || event.key === " ") return;
  byId("text").focus();
});

// Page Up and Page Down scroll the conversation while the text field keeps the focus.
byId("text").addEventListener("keydown", (event) => {
  const step = { PageUp: -0.85, PageDown: 0.85 }[event.key];
  if (!step) return;
  event.preventDefault();
  byId("scroll").scrollBy({ top: step * byId("scroll").clientHeight });
});

history.scrollRestoration = "manual"; // otherwise Back moves the focus to the element that the address names
document.documentElement.lang = language;
if (!location.hash.startsWith("#chat/")) openConversation(""); // behind another view, too
views.show();
mark();
connection.connect();
// On a phone this would open the keyboard over half of the page.
if (!matchMedia("(pointer: coarse)").matches) byId("text").focus();
