"""The English sentences about recordings, documents and films that people send, and voices."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.listen": "Answer a voice message",
    "recording.first": "🎤 Writing down what you said; then {model} answers.",
    "recording.itself": "your recording",
    "recording.heard": "🎤 “{text}”",
    "aloud.reading": "🔊 Reading it aloud:",
    "aloud.failed": "🔇 I couldn't read this aloud. {reason}",
    "cancel.reading": "Job {job} is no longer read aloud.",
    "aloud.stopped": "🔇 Reading aloud was stopped.",
    "param.my_voice": "whether answers to your voice messages are read aloud as well",
    "settings.voice": "voice",
    "settings.voice_on": "on: answers to your voice messages are read aloud as well",
    "settings.voice_off": "off",
    "refused.cannot_hear": (
        "No model here can write down speech, so I can't listen to recordings. Please type your"
        " question."
    ),
    "refused.cannot_speak": "No model here can read texts aloud.",
    "problem.too_many_sounds": (
        "You attached {count:recording|recordings}; /{command} takes at most {most}."
    ),
    "failure.unheard": "I couldn't write down your recording. {cause}",
    "failure.no_listener": "No model here can write down your recording any more.",
    "failure.unwanted": "What you said contains a word that isn't wanted here: {word}.",
    "problem.too_many_films": "You attached {count:video|videos}; /{command} takes at most {most}.",
    "problem.too_many_papers": "You attached {count:document|documents}; /{command} takes at most {most}.",
    "problem.file_bytes": "{name} is too large ({size} MB); I take files of up to {limit} MB.",
    "problem.sound_unreadable": (
        "I can't play {name}. I take voice messages, video messages, and MP3, M4A, Ogg, WAV"
        " and FLAC files."
    ),
    "problem.sound_silent": "{name} has no sound.",
    "problem.sound_too_long": "{name} is too long; I take recordings of up to {minutes:minute|minutes}.",
    "problem.sound_no_library": (
        "{name} can't be played here; the operator would have to install usher-bot[media]."
    ),
    "problem.not_film": (
        "I can't play {name}. Send it as an MP4 or WebM file, or a screenshot of the moment"
        " you mean."
    ),
    "problem.not_watched": (
        "No model here can see, so I can't watch videos{names}. Please ask without the video."
    ),
    "problem.not_watched_by": (
        "{model} can't see, so it can't watch videos{names}. Ask another model; /models"
        " shows which can see."
    ),
    "problem.paper_unreadable": "I can't open {name}: it is damaged, or no PDF or office file.",
    "problem.paper_too_large": "{name} is too large for me to open.",
    "problem.paper_encrypted": "{name} is protected by a password. Send it without one.",
    "problem.paper_old": (
        "{name} has the format of Office before 2007. Save it as .docx, .xlsx or .pptx and"
        " send that."
    ),
    "problem.paper_no_library": (
        "PDFs can't be read here; the operator would have to install usher-bot[media]."
    ),
    "problem.paper_scanned": (
        "{name} is a scan without text, and no model here that I could ask can see it."
    ),
    "result.cut": "✂️ Only the beginning of {names} fitted into the question.",
}
