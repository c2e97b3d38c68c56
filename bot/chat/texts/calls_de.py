"""The German texts of refusals: what is wrong with a call, and what would have worked."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    # ---- what is wrong with a call
    "problem.missing": "„{param}“ fehlt.",
    "problem.unknown_option": "Die Option --{name} gibt es nicht.",
    "problem.needs_value": "--{name} braucht einen Wert.",
    "problem.not_whole": "--{name} muss eine ganze Zahl sein.",
    "problem.not_number": "--{name} muss eine Zahl sein.",
    "problem.range": "--{name} muss zwischen {least} und {most} liegen.",
    "problem.choice": "--{name} muss eines davon sein: {choices}.",
    "problem.size": "--{name} muss eine Größe wie 768x1024 oder 3:2 sein, je Seite 64 bis 4096.",
    "problem.job": "„{value}“ ist keine Auftragsnummer.",
    "problem.too_long": "Dein Text hat {length} Zeichen; erlaubt sind {limit}.",
    "problem.empty": "Dein Text ist leer.",
    "problem.not_picture": "Die angehängte Datei ist kein Bild, das ich lesen kann (PNG, JPEG oder WebP).",
    "problem.picture_bytes": "Das angehängte Bild hat {size} MB; {limit} MB sind erlaubt.",
    "problem.picture_pixels": "Das angehängte Bild hat zu viele Pixel; {limit} Megapixel sind erlaubt.",
    "problem.picture_unreadable": "Die angehängte Datei ließ sich nicht herunterladen. Bitte schick sie noch einmal.",
    "problem.near_option": "Die Option --{name} gibt es nicht. Meintest du --{near}?",
    "problem.choice_word": "„{value}“ ist keines von diesen: {choices}.",
    "problem.left_over": "/{command} kann mit „{text}“ nichts anfangen.",
    "problem.not_text": "{name} ist keine Textdatei, die ich lesen kann.",
    "problem.text_bytes": "{name} ist größer als {limit} kB; mehr ist bei Textdateien nicht erlaubt.",
    "problem.text_too_long": "Der angehängte Text hat {length} Zeichen; {limit} sind erlaubt.",
    # ---- what would have worked
    "hint.did_you_mean": "Meintest du {names}?",
    "hint.near_model": "Ein Modell „{word}“ gibt es nicht, deshalb wurde das Wort Teil des Prompts. Meintest du {model}?",
    "hint.models": "Verfügbar: {names}.",
    "hint.machines": "Rechner: {names}.",
    "hint.help": "/help zeigt alle Befehle.",
    "hint.able": "Das können: {names}.",
    # ---- what a model cannot do
    "refused.not_capable": "{model} {unable}.{hint}",
    "unable.text-to-image": "kann keine Bilder zeichnen",
    "unable.image-to-image": "kann nicht von einem Bild ausgehen",
    "unable.text-to-text": "kann keine Texte schreiben",
    "unable.vision": "kann keine Bilder sehen",
    "unable.upscale": "kann keine Bilder hochskalieren",
    "unable.embedding": "kann keine Embeddings erzeugen",
    "unable.image-embedding": "kann keine Embeddings von Bildern erzeugen",
    # ---- defaults of people who chose none
    "settings.usual_model": "{model} (Standard)",
    "settings.usual_size": "Standard des Modells",
    "settings.usual_style": "keiner",
    "settings.usual_language": "{code} (von deiner App)",
    "settings.no_model": "keines da",
}
