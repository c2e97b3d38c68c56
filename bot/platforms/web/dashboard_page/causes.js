// Why jobs failed, in a few words each; a cause without words here is named by its code.

import { language } from "/static/texts.js";

const CAUSES = {
  en: {
    bug: "fault in the bot", away: "server away", stopped: "server stopped", memory: "out of memory", late: "took too long",
    unloaded: "model unloaded meanwhile", unable: "model can't do it", lost: "job lost on its server", refused: "server refused it",
    too_long: "text too long", too_large: "request too large", blind: "model sees no images", no_model: "server lacks the model",
    silent: "empty answer", only_thoughts: "only thoughts, no answer", misconfigured: "server set up wrongly",
    step_failed: "a step failed", no_image: "no image", no_result: "no result",
    no_lora: "LoRA missing", bad_image: "image unreadable", bad_sound: "recording unreadable", unheard: "recording not written down",
  },
  de: {
    bug: "Fehler im Bot", away: "Server nicht erreichbar", stopped: "Server angehalten", memory: "zu wenig Speicher", late: "dauerte zu lange",
    unloaded: "Modell zwischendurch entladen", unable: "Modell kann das nicht", lost: "auf dem Server verloren", refused: "vom Server abgelehnt",
    too_long: "Text zu lang", too_large: "Auftrag zu groß", blind: "Modell sieht keine Bilder", no_model: "Modell fehlt auf dem Server",
    silent: "leere Antwort", only_thoughts: "nur Gedanken, keine Antwort", misconfigured: "Server falsch eingerichtet",
    step_failed: "ein Schritt schlug fehl", no_image: "kein Bild", no_result: "kein Ergebnis",
    no_lora: "LoRA fehlt", bad_image: "Bild nicht lesbar", bad_sound: "Aufnahme nicht lesbar", unheard: "Aufnahme nicht verschriftet",
  },
};

export const causeWords = (cause) => CAUSES[language][cause] ?? cause;
