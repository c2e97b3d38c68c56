"""The German sentences about unusable attachments: what they are, what to do instead."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "problem.attached": "{told}",
    "problem.file_alone": "Was möchtest du über {names} wissen? Antworte darauf mit deiner Frage.",
    "problem.too_many_pictures": "Du hast {count:Bild|Bilder} angehängt; /{command} nimmt höchstens {most}.",
    "problem.too_many_texts": "Du hast {count:Textdatei|Textdateien} angehängt; /{command} nimmt höchstens {most}.",
    "refused.picture_or_job": "Meinst du dein angehängtes Bild oder Auftrag {job}? Bitte wähle eins von beiden.",
    "refused.cannot_see": "Kein Modell hier kann Bilder sehen. /models zeigt, was die einzelnen Modelle können.",
    "album.too_late": (
        "Ein Teil deines Albums kam erst an, als Auftrag {job} schon lief; er fehlt also in der"
        " Antwort. Antworte damit darauf oder schick alles noch einmal zusammen."
    ),
    "album.late": (
        "Das kam erst nach dem Rest des Albums an. Bitte schick alles noch einmal zusammen."
    ),
    "album.partial": (
        "In Gruppen zeigt mir Telegram von einem Album nur einen Teil. Schick es mir lieber in einem"
        " privaten Chat."
    ),
    "attached.picture": (
        "/{command} nimmt keine Bilder{names}. Mit /image kannst du von einem Bild ausgehen, oder"
        " schick es mit einer Frage."
    ),
    "attached.text": (
        "/{command} nimmt keine Textdateien{names}. Schick eine Textdatei mit einer Frage dazu."
    ),
    "attached.document": (
        "/{command} nimmt keine PDF- oder Office-Dateien{names}. Schick eine mit einer Frage dazu."
    ),
    "attached.film": "/{command} nimmt keine Videos{names}. Schick eins mit einer Frage dazu.",
    "attached.round-video": (
        "/{command} nimmt keine Videonachrichten. Schick eine ohne Befehl, dann beantworte ich, was du"
        " darin sagst."
    ),
    "attached.animation": (
        "/{command} nimmt keine Animationen{names}. Schick eine mit einer Frage dazu."
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
        "Mit dieser Art von Anhang kann ich nichts anfangen{names}. Ich nehme Bilder, Videos,"
        " Aufnahmen, PDF-, Office- und Textdateien."
    ),
}
