// The page's own words, in the reader's language. Everything else a person reads comes from the bot.

const ENGLISH = {
  connecting: "Connecting…",
  connected: "Connected",
  lost: "Connection lost. Reconnecting…",
  tabsFull: "You have too many tabs open here. Close one and reload.",
  placeholder: "Ask, or type / for commands",
  message: "Message",
  send: "Send",
  attach: "Attach files",
  removeFile: "Remove {name}",
  uploading: "{name} is being uploaded",
  uploadFailed: "{name} couldn't be uploaded. Remove it and try again.",
  uploadTooLarge: "{name} is larger than {size}.",
  tooManyFiles: "You can attach at most {count} files to one message.",
  waitForUpload: "One moment, please: a file is still being uploaded.",
  tooLong: "That's longer than {count} characters. Please shorten it.",
  drop: "Drop files here to attach them",
  commands: "Commands",
  choices: "{count} suggestions; use the arrow keys to choose",
  messageKeys: "Alt with the up or down arrow moves between messages; Escape returns to the text field.",
  sending: "sending…",
  waiting: "waiting for the connection",
  notSent: "Not sent.",
  editAgain: "Edit again",
  "refused.empty": "The message was empty.",
  "refused.invalid": "The server couldn't read that message.",
  "refused.too-fast": "That was a bit fast. Your message will be sent again in a moment.",
  "refused.upload-gone": "The attached file is no longer on the server. Please attach it again.",
  "refused.button-gone": "That button no longer works.",
  "refused.not-stored": "The server can't store anything right now. Please try again later.",
  "refused.too-much": "You've sent a lot of files in the past hour. Please wait a while, then send this again.",
  conversation: "Conversation",
  you: "You",
  reply: "Reply",
  replyTo: "Reply to: {text}",
  replyOff: "Cancel the reply",
  copy: "Copy",
  copied: "Copied",
  openImage: "Enlarge {name}",
  image: "Image",
  download: "Download",
  before: "Previous image",
  after: "Next image",
  close: "Close",
  cancel: "Cancel",
  hiddenImage: "Show the hidden image",
  hiddenVideo: "Show the hidden video",
  earlier: "Show earlier messages",
  toEnd: "New messages ↓",
  emptyTitle: "What would you like to make?",
  emptyText: "Every model has its own queue. My reply shows your place in line, then turns into the result.",
  modelAbsent: "not loaded",
  modelLoading: "loading",
  modelReady: "loaded",
  modelCount: "{running} running, {waiting} waiting",
  overview: "Models",
  signinTitle: "Sign in",
  signinText: "Open the link you were given, or paste the token from it here.",
  signinLabel: "Token",
  signinGo: "Sign in",
  signOut: "Sign out",
  operate: "Operator",
  signinWrong: "Unknown token. Please check it, or ask for a new link.",
  now: "now",
};

const GERMAN = {
  connecting: "Verbinde…",
  connected: "Verbunden",
  lost: "Verbindung verloren. Neuer Versuch läuft…",
  tabsFull: "Du hast hier zu viele Tabs offen. Schließ einen und lade neu.",
  placeholder: "Frag etwas, / für Befehle",
  message: "Nachricht",
  send: "Senden",
  attach: "Dateien anhängen",
  removeFile: "{name} entfernen",
  uploading: "{name} wird hochgeladen",
  uploadFailed: "{name} konnte nicht hochgeladen werden. Entferne es und versuche es noch einmal.",
  uploadTooLarge: "{name} ist größer als {size}.",
  tooManyFiles: "An eine Nachricht passen höchstens {count} Dateien.",
  waitForUpload: "Einen Moment: Eine Datei wird noch hochgeladen.",
  tooLong: "Das ist länger als {count} Zeichen. Bitte kürze es.",
  drop: "Dateien zum Anhängen hier ablegen",
  commands: "Befehle",
  choices: "{count} Vorschläge; mit den Pfeiltasten auswählen",
  messageKeys: "Alt mit Pfeil hoch oder runter springt von Nachricht zu Nachricht, Escape zurück ins Textfeld.",
  sending: "wird gesendet…",
  waiting: "wartet auf die Verbindung",
  notSent: "Nicht gesendet.",
  editAgain: "Noch einmal bearbeiten",
  "refused.empty": "Die Nachricht war leer.",
  "refused.invalid": "Der Server konnte diese Nachricht nicht lesen.",
  "refused.too-fast": "Das war etwas schnell. Deine Nachricht wird gleich noch einmal gesendet.",
  "refused.upload-gone": "Die angehängte Datei ist nicht mehr auf dem Server. Bitte häng sie noch einmal an.",
  "refused.button-gone": "Dieser Knopf geht nicht mehr.",
  "refused.not-stored": "Der Server kann gerade nichts speichern. Bitte versuche es später noch einmal.",
  "refused.too-much": "Du hast in der letzten Stunde sehr viele Dateien geschickt. Bitte warte etwas und schick das dann noch einmal.",
  conversation: "Gespräch",
  you: "Du",
  reply: "Antworten",
  replyTo: "Antwort auf: {text}",
  replyOff: "Doch nicht antworten",
  copy: "Kopieren",
  copied: "Kopiert",
  openImage: "{name} vergrößern",
  image: "Bild",
  download: "Herunterladen",
  before: "Vorheriges Bild",
  after: "Nächstes Bild",
  close: "Schließen",
  cancel: "Abbrechen",
  hiddenImage: "Verborgenes Bild anzeigen",
  hiddenVideo: "Verborgenes Video anzeigen",
  earlier: "Frühere Nachrichten zeigen",
  toEnd: "Neue Nachrichten ↓",
  emptyTitle: "Was möchtest du machen?",
  emptyText: "Jedes Modell hat seine eigene Warteschlange. Meine Antwort zeigt deinen Platz darin und wird dann zum Ergebnis.",
  modelAbsent: "nicht geladen",
  modelLoading: "wird geladen",
  modelReady: "geladen",
  modelCount: "{running} in Arbeit, {waiting} in der Schlange",
  overview: "Modelle",
  signinTitle: "Anmelden",
  signinText: "Öffne den Link, den du bekommen hast, oder füge hier das Token daraus ein.",
  signinLabel: "Token",
  signinGo: "Anmelden",
  signOut: "Abmelden",
  operate: "Betrieb",
  signinWrong: "Dieses Token ist unbekannt. Prüf es oder bitte um einen neuen Link.",
  now: "jetzt",
};

const LANGUAGES = { en: ENGLISH, de: GERMAN };
const CHOSEN = "usher-language";
const ofBrowser = navigator.language.toLowerCase().startsWith("de") ? "de" : "en";

export const language = stored() ?? ofBrowser;

/** Speak the language the person chose: from the next load on, which is now if it is another one. */
export function speak(chosen) {
  if (chosen === language || !(chosen in LANGUAGES)) return;
  try {
    localStorage.setItem(CHOSEN, chosen);
  } catch {
    return; // storage is not allowed: the page stays in the browser's language
  }
  location.reload();
}

function stored() {
  try {
    const chosen = localStorage.getItem(CHOSEN);
    return chosen in LANGUAGES ? chosen : null;
  } catch {
    return null;
  }
}

const words = LANGUAGES[language];

/** The reader's own locale, for the way times and numbers are written. */
export const locale = language === ofBrowser ? navigator.language : language;

/** Return a text of the page with its {slots} filled in. */
export function say(key, values = {}) {
  return words[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
