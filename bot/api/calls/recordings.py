"""Recordings in requests: bounded, known by their bytes, and stripped of metadata."""

from backends.common.file_types import is_film, is_sound, mime_of
from bot.api.calls.errors import invalid
from bot.api.calls.outcomes import in_words
from bot.core.refusals import Declined
from bot.requests import media
from bot.requests.images import bare
from bot.requests.media import checked_sound
from queueing.core.requests import File

_ENDINGS = {"audio/mpeg": "mp3", "audio/mp4": "m4a", "video/quicktime": "mov"}


def is_recorded(data: bytes) -> bool:
    """Return whether bytes look like a sound or a film."""
    mime = mime_of(data)
    return is_sound(mime) or is_film(mime)


def require_recording_weight(size: int, param: str) -> None:
    """Refuse a recording that is too large. Raises `ApiError`."""
    if size > media.SOUND_MB * 1_000_000:  # perhaps of more: the rest was not read
        raise invalid(f"{param}: I take files of up to {media.SOUND_MB} MB.", param)


async def kept_whole(data: bytes, param: str) -> File:
    """Return a sound or a film as it may be stored for later, without metadata. Raises `ApiError`."""
    require_recording_weight(len(data), param)
    mime = mime_of(data)
    bare_ = await bare(data)
    if not bare_:
        raise invalid(f"{param}: this is no recording that can be read here.", param)
    ending = _ENDINGS.get(mime) or mime.partition("/")[2].removeprefix("x-")
    return File(name=f"recording.{ending}", mime=mime, data=bare_)


async def recorded(data: bytes, param: str) -> File:
    """Return what is heard in a sound or a film, small and without metadata. Raises `ApiError`."""
    try:
        return await checked_sound("the file", data)
    except Declined as declined:
        raise invalid(f"{param}: {in_words(declined.refusal)}", param) from None
