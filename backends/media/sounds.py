"""Sounds in the forms that servers and chats ask for, made in a process of their own.

Any sound will do, and any video that has one: a round video is transcribed like a voice message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from backends.common.file_types import mime_of
from backends.media import videos
from backends.media.helper.process import MediaError, NoLibrary, ask
from backends.media.helper.protocol import Answer, MediaTask, Order
from queueing.core.requests import File, SpeechFormat

__all__ = [
    "FORMS",
    "SoundError",
    "SoundFault",
    "Voice",
    "as_form",
    "as_music",
    "as_voice",
    "as_wav",
]

FORMS: Mapping[SpeechFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""The media types of the forms that programs ask for; `pcm` is 16 bits at 24 kHz in mono."""

SECONDS_MOST = 3600.0
_WALL_S = 120.0
_WAV_BYTES, _FORM_BYTES, _HEADERS = 32_000, 96_000, 65_536  # each second, and besides
_MUSIC_MOST = 50_000_000  # bytes: what Telegram takes
_MUSIC = {"audio/mpeg": {"mp3", "mp3float"}, "audio/mp4": {"aac"}}


class SoundFault(StrEnum):
    """Why a sound cannot be had."""

    UNREADABLE = "unreadable"  # damaged, of an unknown kind, or it took too long
    SILENT = "silent"  # a video without sound
    TOO_LONG = "too-long"
    NO_LIBRARY = "no-library"


class SoundError(Exception):
    """A sound that cannot be read; `fault` says why, the text is for the operator."""

    def __init__(self, fault: SoundFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Voice:
    """A voice message: Ogg Opus, and how long it plays."""

    file: File
    seconds: float


async def as_wav(file: File, *, seconds: float = SECONDS_MOST) -> File:
    """Return a sound, or a video's sound, as WAV of 16 kHz in mono, as speech is best read.

    Raises `SoundError`, also if it plays for more than that many seconds.
    """
    _, made = await _converted(file, MediaTask.WAV, seconds)
    return File(name=f"{_stem(file)}.wav", mime="audio/wav", data=made)


async def as_voice(file: File, *, seconds: float = SECONDS_MOST) -> Voice:
    """Return a sound as a voice message of 32 kbit/s in mono, which every chat plays as one.

    Raises `SoundError`, also if it plays for more than that many seconds.
    """
    played, made = await _converted(file, MediaTask.VOICE, seconds)
    voice = File(name=f"{_stem(file)}.ogg", mime="audio/ogg", data=made)
    return Voice(file=voice, seconds=played)


async def as_form(file: File, form: SpeechFormat) -> File:
    """Return a sound in mono in the form that a program asks for.

    Raises `SoundError`, also if it plays for more than `SECONDS_MOST`.
    """
    _, made = await _asked(file, MediaTask.ENCODE, SECONDS_MOST, form)
    return File(name=f"{_stem(file)}.{form}", mime=FORMS[form], data=made)


async def as_music(file: File, *, limit: int = _MUSIC_MOST) -> File:
    """Return a sound as players of music take it: MP3 or AAC as they are, all else as MP3.

    Raises `SoundError`, also if it cannot be made to fit that many bytes.
    """
    try:
        looks = (await videos.looked_at(file)).looks
        if looks.sound in _MUSIC.get(mime_of(file.data), ()) and len(file.data) <= limit:
            return file
        if looks.image or not looks.sound:
            raise SoundError(SoundFault.UNREADABLE, f"{file.mime} is no sound")
        return await videos.fitted(file, limit)
    except NoLibrary as error:
        raise SoundError(SoundFault.NO_LIBRARY, str(error)) from error
    except MediaError as error:
        raise SoundError(SoundFault.UNREADABLE, str(error)) from error


async def _converted(file: File, task: MediaTask, seconds: float) -> tuple[float, bytes]:
    answer, made = await _asked(file, task, seconds)
    if answer.looks is None or not made:
        raise SoundError(SoundFault.UNREADABLE, "the helper made no sound")
    return answer.looks.seconds, made


async def _asked(
    file: File, task: MediaTask, seconds: float, form: str = ""
) -> tuple[Answer, bytes]:
    if not videos.available():
        raise SoundError(SoundFault.NO_LIBRARY, "sounds need usher-bot[media]")
    order = Order(
        task=task,
        mime=mime_of(file.data),
        size=len(file.data),
        limit=int(seconds * (_FORM_BYTES if form else _WAV_BYTES)) + _HEADERS,
        seconds=seconds,
        form=form,
    )
    try:
        return await ask(order, file.data, wall_s=_WALL_S)
    except MediaError as error:
        known = error.fault in set(SoundFault)
        fault = SoundFault(error.fault) if known else SoundFault.UNREADABLE
        raise SoundError(fault, str(error)) from error


def _stem(file: File) -> str:
    return PurePath(file.name).stem or "sound"
