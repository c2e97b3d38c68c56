"""Recordings in requests: bounded, known by their bytes, and stripped of metadata."""

from backends.media.metadata.kinds import is_film, is_sound, mime_of
from bot.gateway.errors import invalid
from bot.gateway.outcomes import in_words
from bot.requests.refusals import Declined
from bot.requests.sounds import checked_sound, require_sound_weight
from queueing.core.requests import File


def is_recorded(data: bytes) -> bool:
    """Return whether bytes look like a sound or a film."""
    mime = mime_of(data)
    return is_sound(mime) or is_film(mime)


def require_recording_weight(size: int, param: str) -> None:
    """Refuse a recording that is too large. Raises `ApiError`."""
    try:
        require_sound_weight(param, size)
    except Declined as declined:
        raise invalid(in_words(declined.refusal), param) from None


async def recorded(data: bytes, param: str) -> File:
    """Return bytes as a sound or a film, checked and without metadata. Raises `ApiError`."""
    try:
        return await checked_sound(param, data)
    except Declined as declined:
        raise invalid(f"{param}: {in_words(declined.refusal)}", param) from None
