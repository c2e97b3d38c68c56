"""The German sentences about unusable attachments: what they are, what to do instead."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "problem.attached": "{told}",
    "problem.file_alone": "Was möchtest du über {names} wissen? Antworte darauf mit deiner Frage.",
    "problem.too_many_pictures": "Du hast {count} Bilder angehängt; /{command} nimmt höchstens {most}.",
    "problem.too_many_texts": "Du hast {count} Textdateien angehängt; /{command} nimmt höchstens {most}.",
    "refused.picture_or_job": "Meinst du dein angehängtes Bild oder Auftrag {job}? Bitte wähle eins von beiden.",
    "refused.cannot_see": "Kein Modell hier kann Bilder sehen. /models zeigt, was die einzelnen Modelle können.",
    "album.too_late": (
        "Ein Bild deines Albums kam erst an, als Auftrag {job} schon lief; es fehlt "
        "also in der Antwort. Antworte mit dem Bild darauf oder schick alle Bilder "
        "noch einmal zusammen."
    ),
    "album.late": (
        "Dieses Bild kam erst nach dem Rest des Albums an. Bitte schick alle Bilder noch "
        "einmal zusammen."
    ),
    "album.partial": (
        "In Gruppen zeigt mir Telegram von einem Album nur ein Bild. Schick mir die Bilder "
        "lieber in einem privaten Chat."
    ),
    "attached.picture": (
        "/{command} nimmt keine Bilder{names}. Mit /image kannst du von einem Bild ausgehen, oder"
        " schick es mit einer Frage."
    ),
    "attached.text": (
        "/{command} nimmt keine Textdateien{names}. Schick eine Textdatei mit einer Frage dazu."
    ),
    "attached.document": (
        "PDF- und Office-Dateien kann ich noch nicht lesen{names}. Kopiere den Text in deine Frage"
        " oder schick ihn als .txt-Datei."
    ),
    "attached.film": (
        "Videos kann ich noch nicht ansehen{names}. Schick ein Standbild von der Stelle, die du"
        " meinst."
    ),
    "attached.round-video": (
        "/{command} nimmt keine Videonachrichten. Schick eine ohne Befehl, dann beantworte ich, was du"
        " darin sagst."
    ),
    "attached.animation": (
        "Animationen kann ich noch nicht ansehen{names}. Schick stattdessen ein Standbild."
    ),
    "attached.voice": (
        "/{command} nimmt keine Sprachnachrichten. Schick eine ohne Befehl, dann beantworte ich, was du"
        " darin sagst."
    ),
    "attached.audio": (
        "/{command} nimmt keine Tondateien{names}. Schick eine mit einer Frage zu dem, was darin gesagt"
        " wird."
    ),
    "attached.sticker": (
        "Mit Stickern kann ich leider nichts anfangen. Schick mir eine Frage oder ein Foto; /help"
        " zeigt, was ich kann."
    ),
    "attached.archive": (
        "Archive kann ich nicht öffnen{names}. Schick die Bilder oder Textdateien daraus einzeln."
    ),
    "attached.poll": "An Umfragen kann ich nicht teilnehmen. Bitte schreib deine Frage.",
    "attached.place": "Standorte kann ich nicht nachschlagen. Bitte schreib deine Frage zu dem Ort.",
    "attached.contact": "Mit Kontakten kann ich nichts anfangen. Bitte schreib deine Frage.",
    "attached.unseen": (
        "Discord zeigt mir die Nachricht nicht, auf die du antwortest. Öffne ihr Menü, wähle Apps und"
        " dann „Dazu fragen“; oder frag, ohne zu antworten."
    ),
    "attached.other": (
        "Diese Art von Anhang kann ich nicht lesen{names}. Lesen kann ich Bilder (PNG, JPEG oder WebP)"
        " und Textdateien."
    ),
}
