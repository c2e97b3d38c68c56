// The operator's page in the reader's language; what commands answer comes from the bot.

import { language } from "/static/texts.js";
import { GERMAN } from "./words_de.js";
import { ENGLISH } from "./words_en.js";

export const LANGUAGES = { en: ENGLISH, de: GERMAN };

const words = LANGUAGES[language];

/** Return a text of this page with its {slots} filled in. */
export function tell(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}
