"""The German sentences about recordings, documents and films that people send, and voices."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.listen": "Eine Sprachnachricht beantworten",
    "recording.first": "🎤 Ich schreibe auf, was du gesagt hast; danach antwortet {model}.",
    "recording.itself": "deiner Aufnahme",
    "recording.heard": "🎤 „{text}“",
    "aloud.reading": "🔊 Wird vorgelesen:",
    "aloud.failed": "🔇 Das konnte ich nicht vorlesen. {reason}",
    "cancel.reading": "Auftrag {job} wird nicht weiter vorgelesen.",
    "aloud.stopped": "🔇 Das Vorlesen wurde abgebrochen.",
    "param.my_voice": "ob Antworten auf deine Sprachnachrichten auch vorgelesen werden",
    "settings.voice": "Stimme",
    "settings.voice_on": "an: Antworten auf deine Sprachnachrichten werden auch vorgelesen",
    "settings.voice_off": "aus",
    "refused.cannot_hear": (
        "Kein Modell hier kann Gesprochenes aufschreiben, deshalb kann ich keine Aufnahmen anhören."
        " Bitte tippe deine Frage."
    ),
    "refused.cannot_speak": "Kein Modell hier kann Texte vorlesen.",
    "problem.too_many_sounds": (
        "Du hast {count:Aufnahme|Aufnahmen} angehängt; /{command} nimmt höchstens {most}."
    ),
    "failure.unheard": "Ich konnte deine Aufnahme nicht aufschreiben. {cause}",
    "failure.no_listener": "Kein Modell hier kann deine Aufnahme noch aufschreiben.",
    "failure.unwanted": "Du hast ein Wort gesagt, das hier nicht erwünscht ist: {word}.",
    "problem.too_many_films": "Du hast {count:Video|Videos} angehängt; /{command} nimmt höchstens {most}.",
    "problem.too_many_papers": "Du hast {count:Dokument|Dokumente} angehängt; /{command} nimmt höchstens {most}.",
    "problem.file_bytes": "{name} ist zu groß ({size} MB); ich nehme Dateien bis {limit} MB.",
    "problem.sound_unreadable": (
        "{name} kann ich nicht abspielen. Ich nehme Sprach- und Videonachrichten sowie MP3-,"
        " M4A-, Ogg-, WAV- und FLAC-Dateien."
    ),
    "problem.sound_silent": "{name} hat keinen Ton.",
    "problem.sound_too_long": "{name} ist zu lang; ich nehme Aufnahmen bis {minutes:Minute|Minuten}.",
    "problem.sound_no_library": (
        "{name} lässt sich hier nicht abspielen; der Betreiber müsste usher-bot[media]"
        " installieren."
    ),
    "problem.not_film": (
        "{name} kann ich nicht abspielen. Schick es als MP4- oder WebM-Datei oder ein"
        " Standbild von der Stelle, die du meinst."
    ),
    "problem.not_watched": (
        "Kein Modell hier kann sehen, deshalb kann ich keine Videos ansehen{names}. Frag"
        " ohne das Video."
    ),
    "problem.not_watched_by": (
        "{model} kann nicht sehen und deshalb keine Videos ansehen{names}. Frag ein anderes"
        " Modell; /models zeigt, welche sehen können."
    ),
    "problem.paper_unreadable": (
        "{name} kann ich nicht öffnen: Es ist beschädigt oder keine PDF- oder Office-Datei."
    ),
    "problem.paper_too_large": "{name} ist mir zu groß zum Öffnen.",
    "problem.paper_encrypted": "{name} ist mit einem Passwort geschützt. Schick es ohne.",
    "problem.paper_old": (
        "{name} hat das Format von Office vor 2007. Speichere es als .docx, .xlsx oder .pptx"
        " und schick das."
    ),
    "problem.paper_no_library": (
        "PDFs lassen sich hier nicht lesen; der Betreiber müsste usher-bot[media] installieren."
    ),
    "problem.paper_scanned": (
        "{name} ist ein Scan ohne Text, und kein Modell, das ich hier fragen könnte, kann"
        " ihn sehen."
    ),
    "result.cut": "✂️ Nur der Anfang von {names} passte in die Frage.",
}
