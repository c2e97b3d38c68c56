"""Checks untrusted recordings before anything is accepted, and keeps their sound alone."""

from backends.media import films
from backends.media.metadata.kinds import is_film, is_sound, mime_of
from bot.requests.refusals import Declined, NotASound, SoundTooHeavy
from queueing.core.requests import File

SOUND_MB = 20  # the most Telegram lets a bot download; the same everywhere
_READ_S = 20.0
_ENDINGS = {"audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/ogg": "ogg", "audio/wav": "wav"}


def require_sound_weight(name: str, size: int) -> None:
    """Refuse a file of more bytes than a recording may have. Raises `Declined`."""
    if size > SOUND_MB * 1_000_000:
        told = size // 1_000_000
        raise Declined(SoundTooHeavy(name=name, size_mb=told, limit_mb=SOUND_MB))


async def checked_sound(name: str, data: bytes) -> File:
    """Return a stranger's bytes as a recording, or raise `Declined`.

    Its kind is read from the bytes; without the library for films and sounds, a sound stays as it
    is. Our own name replaces the stranger's.
    """
    require_sound_weight(name, len(data))
    mime = mime_of(data)
    if not (is_sound(mime) or is_film(mime)):
        raise Declined(NotASound(name=name))
    try:
        data = await films.cleaned(data, wall_s=_READ_S)
    except films.NoFilms:
        if is_film(mime):
            raise Declined(NotASound(name=name)) from None
    except films.FilmError:
        raise Declined(NotASound(name=name)) from None
    ending = _ENDINGS.get(mime) or mime.partition("/")[2]
    return File(name=f"recording.{ending}", mime=mime, data=data)
