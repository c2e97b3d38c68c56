// The page's own words, in the reader's language. Everything else a person reads comes from the bot.

const ENGLISH = {
  connecting: "Connecting…",
  connected: "Connected",
  lost: "Connection lost. Reconnecting…",
  tabsFull: "You have too many pages open. Close one and reload.",
  placeholder: "Ask, or type / for commands",
  message: "Message",
  send: "Send",
  attach: "Attach pictures or texts",
  removeFile: "Remove {name}",
  uploading: "{name} is being uploaded",
  uploadFailed: "{name} couldn't be uploaded. Remove it and try again.",
  uploadTooLarge: "{name} is larger than {size}.",
  tooManyFiles: "At most {count} files fit one message.",
  waitForUpload: "One moment: a file is still being uploaded.",
  tooLong: "That is longer than {count} characters. Please shorten it.",
  drop: "Drop pictures or texts to attach them",
  commands: "Commands",
  choices: "{count} to choose from with the arrow keys",
  messageKeys: "Alt with the up or down arrow goes from message to message, Escape back to the text.",
  sending: "sending…",
  waiting: "waiting for the connection",
  notSent: "Not sent.",
  editAgain: "Edit again",
  "refused.empty": "The message was empty.",
  "refused.invalid": "The server couldn't read that message.",
  "refused.too-fast": "That was a bit fast. It will be sent again in a moment.",
  "refused.upload-gone": "The attached file is no longer on the server. Please attach it again.",
  "refused.button-gone": "That button no longer works.",
  "refused.not-stored": "The server can't store anything right now. Please try again later.",
  "refused.too-much": "You have sent a lot of files within the hour. Please wait a while and send this again.",
  conversation: "Conversation",
  you: "You",
  reply: "Reply",
  replyTo: "Reply to: {text}",
  replyOff: "Cancel the reply",
  copy: "Copy",
  copied: "Copied",
  openPicture: "Show {name} large",
  picture: "Picture",
  download: "Download",
  before: "Previous picture",
  after: "Next picture",
  close: "Close",
  cancel: "Cancel",
  hiddenPicture: "Show the hidden picture",
  hiddenFilm: "Show the hidden film",
  earlier: "Show earlier messages",
  toEnd: "New messages ↓",
  emptyTitle: "What would you like to make?",
  emptyText: "Every model has its own queue. Your message shows your place and turns into the result.",
  modelAbsent: "not loaded",
  modelLoading: "loading",
  modelReady: "loaded",
  modelCount: "{running} running, {waiting} waiting",
  overview: "Models",
  signinTitle: "Sign in",
  signinText: "Open the link you were given, or paste its token here.",
  signinLabel: "Token",
  signinGo: "Sign in",
  signOut: "Sign out",
  signinWrong: "Unknown token. Please check it, or ask for a new link.",
  now: "now",
};

const GERMAN = {
  connecting: "Verbinde…",
  connected: "Verbunden",
  lost: "Verbindung verloren. Neuer Versuch läuft…",
  tabsFull: "Du hast zu viele Seiten offen. Schließ eine und lade neu.",
  placeholder: "Frag etwas oder tipp / für Befehle",
  message: "Nachricht",
  send: "Senden",
  attach: "Bilder oder Texte anhängen",
  removeFile: "{name} entfernen",
  uploading: "{name} wird hochgeladen",
  uploadFailed: "{name} konnte nicht hochgeladen werden. Entferne es und versuche es noch einmal.",
  uploadTooLarge: "{name} ist größer als {size}.",
  tooManyFiles: "Höchstens {count} Dateien passen in eine Nachricht.",
  waitForUpload: "Einen Moment: Eine Datei wird noch hochgeladen.",
  tooLong: "Das ist länger als {count} Zeichen. Bitte kürze es.",
  drop: "Bilder oder Texte hier ablegen, um sie anzuhängen",
  commands: "Befehle",
  choices: "{count} zur Auswahl mit den Pfeiltasten",
  messageKeys: "Alt mit Pfeil hoch oder runter springt von Nachricht zu Nachricht, Escape zurück zum Text.",
  sending: "wird gesendet…",
  waiting: "wartet auf die Verbindung",
  notSent: "Nicht gesendet.",
  editAgain: "Noch einmal bearbeiten",
  "refused.empty": "Die Nachricht war leer.",
  "refused.invalid": "Der Server konnte diese Nachricht nicht lesen.",
  "refused.too-fast": "Das war etwas schnell. Es wird gleich noch einmal gesendet.",
  "refused.upload-gone": "Die angehängte Datei ist nicht mehr auf dem Server. Bitte häng sie noch einmal an.",
  "refused.button-gone": "Dieser Knopf geht nicht mehr.",
  "refused.not-stored": "Der Server kann gerade nichts speichern. Bitte versuche es später noch einmal.",
  "refused.too-much": "Du hast in dieser Stunde schon sehr viele Dateien geschickt. Bitte warte etwas und schicke es dann noch einmal.",
  conversation: "Gespräch",
  you: "Du",
  reply: "Antworten",
  replyTo: "Antwort auf: {text}",
  replyOff: "Doch nicht antworten",
  copy: "Kopieren",
  copied: "Kopiert",
  openPicture: "{name} groß zeigen",
  picture: "Bild",
  download: "Herunterladen",
  before: "Vorheriges Bild",
  after: "Nächstes Bild",
  close: "Schließen",
  cancel: "Abbrechen",
  hiddenPicture: "Verborgenes Bild anzeigen",
  hiddenFilm: "Verborgenen Film anzeigen",
  earlier: "Frühere Nachrichten zeigen",
  toEnd: "Neue Nachrichten ↓",
  emptyTitle: "Was möchtest du machen?",
  emptyText: "Jedes Modell hat seine eigene Warteschlange. Deine Nachricht zeigt deinen Platz und wird zum Ergebnis.",
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
