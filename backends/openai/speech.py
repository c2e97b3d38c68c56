"""Has a server read a text aloud, one part after the other, and makes one sound of the parts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.common.file_types import is_text
from backends.common.http import Http
from backends.media.sounds import FORMS, SoundError, as_form
from backends.openai.aloud import parts_of, plain_words
from backends.openai.completion import silence_s
from backends.openai.flavours.errors import NO_SPEECH, classified, classify
from backends.openai.flavours.form import AudioForm
from backends.openai.recordings import ENDINGS, joined, sound_of
from backends.openai.voices import voice_named
from queueing.core.catalog import Timeouts
from queueing.core.errors import Rejected, UnreadableAnswer
from queueing.core.ports import Report
from queueing.core.requests import File, Output, Progress, SpeechFormat, TextToSpeech

SOUND_LIMIT = 256 * 1024 * 1024  # bytes; an hour of uncompressed speech is 170 MB
RAW = "audio/pcm"  # samples without a header: any bytes that are no text


@dataclass(frozen=True, kw_only=True, slots=True)
class Speech:
    """A text to read aloud: by which model, and in which of its voices.

    `voice` is the one to use where the request names none, `voices` those the server lists.
    """

    request: TextToSpeech
    model_id: str
    timeouts: Timeouts
    voice: str = ""
    voices: tuple[str, ...] = ()


async def speak(http: Http, form: AudioForm, speech: Speech, report: Report) -> Output:
    """Return the sound of a text, reporting each part. Cancelling closes the connection.

    Raises `BackendError`s.
    """
    path = form.speech
    if path is None:
        raise Rejected("the server reads nothing aloud", problem=NO_SPEECH)
    texts = await asyncio.to_thread(lambda: parts_of(plain_words(speech.request.text)))
    wanted = format_of(speech.request.format, len(texts))
    sounds: list[bytes] = []
    for text in texts:
        with classified():
            sound = await http.post_for_bytes(
                path,
                body_of(form, speech, text, wanted),
                timeout_s=silence_s(speech.timeouts),
                limit=SOUND_LIMIT // len(texts),
            )
            require_sound(sound, wanted)
        sounds.append(sound)
        report(Progress(fraction=len(sounds) / len(texts)))
    whole = await asyncio.to_thread(_whole, sounds, wanted)
    return Output(files=(await _as_asked(whole, speech.request.format),))


async def _as_asked(sound: File, form: SpeechFormat | None) -> File:
    """Return a sound in the form a program asked for, where the server could not send it."""
    if form is None or sound.mime == FORMS[form]:
        return sound
    try:
        return await as_form(sound, form)
    except SoundError:  # its own kind is on it
        return sound


def format_of(asked: SpeechFormat | None, parts: int) -> SpeechFormat:
    """Return the format to ask for: MP3 if none is wanted, WAV for parts that cannot be joined."""
    if parts > 1 and asked in {"flac", "opus"}:
        return "wav"
    return asked or "mp3"


def body_of(form: AudioForm, speech: Speech, text: str, wanted: SpeechFormat) -> JsonValue:
    """Return the call for one part. Raises `Rejected` for a voice that the server does not list."""
    request = speech.request
    voice = request.voice or speech.voice or form.voice or next(iter(speech.voices), None)
    options: dict[str, JsonValue] = {
        "voice": voice and voice_named(voice, speech.voices, form),
        "speed": request.speed,
        "instructions": request.instructions,
    }
    told = {name: value for name, value in options.items() if value is not None}
    basic = {"model": speech.model_id, "input": text, "response_format": wanted}
    return {**basic, **told, **form.spoken}


def require_sound(data: bytes, wanted: SpeechFormat) -> None:
    """Raise the error that a server sent with status 200 instead of a sound."""
    if not data:
        raise UnreadableAnswer("the server answered with an empty sound")
    if sound_of(data) or (wanted == "pcm" and not is_text(data)):
        return
    text = data[:1000].decode(errors="replace")
    if text.lstrip().startswith("{"):
        raise classify(200, text)
    raise UnreadableAnswer(f"the server answered no sound: {text[:200]!a}")


def _whole(sounds: Sequence[bytes], wanted: SpeechFormat) -> File:
    raw = wanted == "pcm" and not all(map(sound_of, sounds))
    try:
        data = b"".join(sounds) if raw else joined(sounds)
    except ValueError as error:
        raise UnreadableAnswer(f"unexpected sound: {error}") from None
    mime = RAW if raw else sound_of(data)
    return File(name=f"speech.{ENDINGS[mime]}", mime=mime, data=data)
