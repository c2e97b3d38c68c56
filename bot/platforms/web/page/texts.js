// The pages' own texts in the reader's language, from the bot's texts. Everything else people read
// comes from the bot. Importing this module waits until the texts are loaded.

const CHOSEN = "usher-language";
const wanted = stored() ?? navigator.language;
const texts = await (await fetch(`texts/${encodeURIComponent(wanted)}.json`)).json();

/** The reader's language, or English if the bot does not support it. */
export const language = texts.language;

/** The reader's locale, for formatting times and numbers. */
export const locale = wanted === navigator.language || speaks(navigator.language) ? navigator.language : language;

/** Switch to the language the person chose, which reloads the page if it differs. */
export function speak(chosen) {
  if (chosen === language || chosen === wanted) return;
  try {
    localStorage.setItem(CHOSEN, chosen);
  } catch {
    return; // storage is not allowed, so the page stays in the browser's language
  }
  location.reload();
}

function stored() {
  try {
    return localStorage.getItem(CHOSEN);
  } catch {
    return null;
  }
}

function speaks(locale) {
  return locale.toLowerCase().split("-")[0] === language;
}

/** Return a text of the page with its {slots} filled in. `{count:job|jobs}` chooses one of two words. */
export function say(key, values = {}) {
  return filled(texts.page[key], values);
}

/** Return a text of the operator's page, or `other` if there is none, such as for a newer state. */
export function tell(key, values = {}, other = key) {
  return filled(texts.dashboard[key] ?? other, values);
}

function filled(text, values) {
  return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (_, name, one, many) => {
    const value = String(values[name]);
    return many === undefined ? value : `${value} ${value === "1" ? one : many}`;
  });
}
