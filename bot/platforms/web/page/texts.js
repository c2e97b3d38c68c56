// The pages' own words in the reader's language, made from the bot's texts. Everything else a person
// reads comes from the bot. Whoever imports this waits until the words are there.

const CHOSEN = "usher-language";
const wanted = stored() ?? navigator.language;
const texts = await (await fetch(`/texts/${encodeURIComponent(wanted)}.json`)).json();

/** The reader's language, or English where the bot doesn't speak it. */
export const language = texts.language;

/** The reader's own locale, for the way times and numbers are written. */
export const locale = wanted === navigator.language || speaks(navigator.language) ? navigator.language : language;

/** Speak the language the person chose: from the next load on, which is now if it is another one. */
export function speak(chosen) {
  if (chosen === language || chosen === wanted) return;
  try {
    localStorage.setItem(CHOSEN, chosen);
  } catch {
    return; // storage is not allowed: the page stays in the browser's language
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

/** Return a text of the page with its {slots} filled in; `{count:job|jobs}` adds one of two words. */
export function say(key, values = {}) {
  return filled(texts.page[key], values);
}

/** Return a text of the operator's page; `other` where it has none, such as for a newer state. */
export function tell(key, values = {}, other = key) {
  return filled(texts.dashboard[key] ?? other, values);
}

function filled(text, values) {
  return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (_, name, one, many) => {
    const value = String(values[name]);
    return many === undefined ? value : `${value} ${value === "1" ? one : many}`;
  });
}
