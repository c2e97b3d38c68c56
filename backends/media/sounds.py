"""Converts audio to the formats that servers and chats need, in a separate confined process.

It accepts any audio, and any video with audio. So a round video message is transcribed like a voice
message.
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
"""The media types of the formats that programs request; `pcm` is 16 bits at 24 kHz in mono."""

SECONDS_MOST = 3600.0
_WALL_S = 120.0
_WAV_BYTES, _FORM_BYTES, _HEADERS = 32_000, 96_000, 65_536  # bytes per second, and extra
_MUSIC_MOST = 50_000_000  # bytes; Telegram's limit
_MUSIC = {"audio/mpeg": {"mp3", "mp3float"}, "audio/mp4": {"aac"}}


class SoundFault(StrEnum):
    """Why audio cannot be converted."""

    UNREADABLE = "unreadable"  # damaged, of an unknown type, or took too long
    SILENT = "silent"  # a video without audio
    TOO_LONG = "too-long"
    NO_LIBRARY = "no-library"


class SoundError(Exception):
    """Audio that cannot be converted; `fault` says why, and the text is for the operator."""

    def __init__(self, fault: SoundFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Voice:
    """A voice message in Ogg Opus, and its length in seconds."""

    file: File
    seconds: float


async def as_wav(file: File, *, seconds: float = SECONDS_MOST) -> File:
    """Convert audio, or a video's audio, to 16 kHz mono WAV, the best form for transcription.

    Raises `SoundError`, including for audio longer than `seconds`.
    """
    _, made = await _converted(file, MediaTask.WAV, seconds)
    return File(name=f"{_stem(file)}.wav", mime="audio/wav", data=made)


async def as_voice(file: File, *, seconds: float = SECONDS_MOST) -> Voice:
    """Convert audio to a mono voice message at 32 kbit/s, which every chat shows as one.

    Raises `SoundError`, including for audio longer than `seconds`.
    """
    played, made = await _converted(file, MediaTask.VOICE, seconds)
    voice = File(name=f"{_stem(file)}.ogg", mime="audio/ogg", data=made)
    return Voice(file=voice, seconds=played)


async def as_form(file: File, form: SpeechFormat) -> File:
    """Convert audio to mono audio in the format that a program requests.

    Raises `SoundError`, including for audio longer than `SECONDS_MOST`.
    """
    _, made = await _ask_helper(file, MediaTask.ENCODE, SECONDS_MOST, form)
    return File(name=f"{_stem(file)}.{form}", mime=FORMS[form], data=made)


async def as_music(file: File) -> File:
    """Prepare audio for music players: MP3 and AAC stay unchanged, everything else becomes MP3.

    Raises `SoundError`, including for audio that cannot be made to fit.
    """
    try:
        looks = (await videos.looked_at(file)).looks
        if looks.sound in _MUSIC.get(mime_of(file.data), ()) and len(file.data) <= _MUSIC_MOST:
            return file
        if looks.image or not looks.sound:
            raise SoundError(SoundFault.UNREADABLE, f"{file.mime} is not audio")
        return await videos.fitted(file, _MUSIC_MOST)
    except NoLibrary as error:
        raise SoundError(SoundFault.NO_LIBRARY, str(error)) from error
    except MediaError as error:
        raise SoundError(SoundFault.UNREADABLE, str(error)) from error


async def _converted(file: File, task: MediaTask, seconds: float) -> tuple[float, bytes]:
    answer, made = await _ask_helper(file, task, seconds)
    if answer.looks is None or not made:
        raise SoundError(SoundFault.UNREADABLE, "the helper returned no audio")
    return answer.looks.seconds, made


async def _ask_helper(
    file: File, task: MediaTask, seconds: float, form: str = ""
) -> tuple[Answer, bytes]:
    if not videos.available():
        raise SoundError(SoundFault.NO_LIBRARY, "audio needs usher-bot[media]")
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
