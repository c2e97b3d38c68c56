"""Recordings in requests: bounded, known by their bytes, and stripped of metadata."""

from backends.media import films
from backends.media.metadata.kinds import is_film, is_sound, mime_of
from bot.gateway.errors import invalid
from queueing.core.requests import File

RECORDING_MB = 25  # as OpenAI's
_CLEANED_S = 20.0
_ENDINGS = {"audio/mpeg": "mp3", "audio/mp4": "m4a", "video/quicktime": "mov"}
_NO_RECORDING = "this is no recording that can be read here"


def is_recorded(data: bytes) -> bool:
    """Return whether bytes look like a sound or a film."""
    mime = mime_of(data)
    return is_sound(mime) or is_film(mime)


def require_recording_weight(size: int, param: str) -> None:
    """Refuse a recording that is too large. Raises `ApiError`."""
    if size > RECORDING_MB * 1_000_000:
        told = f"{size // 1_000_000} MB are more than the {RECORDING_MB} a recording may have"
        raise invalid(f"{param}: {told}.", param)


async def recorded(data: bytes, param: str) -> File:
    """Return bytes as a sound or a film, without metadata. Raises `ApiError`."""
    require_recording_weight(len(data), param)
    mime = mime_of(data)
    if not is_recorded(data):
        raise invalid(f"{param}: {_NO_RECORDING}.", param)
    try:
        bare = await films.cleaned(data, wall_s=_CLEANED_S)
    except films.NoFilms:
        text = "recordings are read with usher-bot[media], which is not installed here"
        raise invalid(f"{param}: {text}.", param) from None
    except films.FilmError:
        raise invalid(f"{param}: {_NO_RECORDING}.", param) from None
    ending = _ENDINGS.get(mime) or mime.partition("/")[2].removeprefix("x-")
    return File(name=f"recording.{ending}", mime=mime, data=bare)
