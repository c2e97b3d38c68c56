"""The German sentences about recordings, and about answers that are read aloud."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.listen": "Eine Sprachnachricht beantworten",
    "recording.first": "🎤 Ich schreibe auf, was du gesagt hast; danach antwortet {model}.",
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
        "Du hast {count} Aufnahmen angehängt; /{command} nimmt höchstens {most}."
    ),
    "problem.not_sound": (
        "{name} kann ich nicht abspielen. Ich nehme Sprach- und Videonachrichten sowie MP3-, M4A-,"
        " Ogg-, WAV- und FLAC-Dateien."
    ),
    "problem.sound_bytes": ("{name} ist zu groß ({size} MB); ich nehme Aufnahmen bis {limit} MB."),
    "failure.unheard": "Ich konnte deine Aufnahme nicht aufschreiben. {cause}",
    "failure.no_listener": "Kein Modell hier kann deine Aufnahme noch aufschreiben.",
    "failure.unwanted": "Du hast ein Wort gesagt, das hier nicht erwünscht ist: {word}.",
}
