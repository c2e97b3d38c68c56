"""The English sentences about recordings, and about answers that are read aloud."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.listen": "Answer a voice message",
    "recording.first": "🎤 Writing down what you said; then {model} answers.",
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
        "You attached {count} recordings; /{command} takes at most {most}."
    ),
    "problem.not_sound": (
        "I can't play {name}. I take voice messages, video messages, and MP3, M4A, Ogg, WAV and"
        " FLAC files."
    ),
    "problem.sound_bytes": (
        "{name} is too large ({size} MB); I take recordings of up to {limit} MB."
    ),
    "failure.unheard": "I couldn't write down your recording. {cause}",
    "failure.no_listener": "No model here can write down your recording any more.",
    "failure.unwanted": "What you said contains a word that isn't wanted here: {word}.",
}
