"""Makes results fit a chat: small enough, and of a kind that plays there in place."""

import asyncio
import io
import logging

from PIL import Image

from backends.common.file_types import MOVING, is_film, is_picture, is_sound, mime_of
from backends.media import videos
from bot.core.platform import ChatLimits
from bot.requests import images as pictures
from queueing.core.requests import File

_log = logging.getLogger(__name__)

_CODECS = frozenset({"h264", "vp8", "vp9"})  # of films; others are a still picture with sound
_PIXELS = frozenset({"yuv420p", "yuvj420p", "yuva420p"})  # no player in a chat knows others


async def fitted(file: File, limits: ChatLimits) -> File | None:
    """Return a result as a chat accepts it: itself, or re-encoded; None when that is hopeless.

    A film or sound that cannot be re-encoded goes as it is if it is small enough.
    """
    mime = mime_of(file.data)
    small = len(file.data) <= limits.upload
    if is_picture(mime):
        moves = (not small or not limits.moving_pictures) and await _moves(file, limits)
        if not moves:
            return await pictures.fitted(file, limits.upload)
    elif not (is_film(mime) or is_sound(mime)):
        return file if small else None
    elif small and mime in limits.plays and (is_sound(mime) or await _plays(file)):
        return file
    try:
        return await videos.fitted(file, limits.upload)
    except videos.FilmError as error:
        _log.warning("%s stays as it is: %s", file.name, error)
        return file if small else None


async def _plays(file: File) -> bool:
    try:
        looks = (await videos.looked_at(file)).looks
    except videos.FilmError:
        return True  # it cannot be improved
    return looks.picture in _CODECS and looks.pixels in _PIXELS


async def _moves(file: File, limits: ChatLimits) -> bool:
    """Return whether a picture is animated and the chat cannot show that as it is."""
    if mime_of(file.data) == "image/gif" and len(file.data) <= limits.upload:
        return False  # plays everywhere
    return await asyncio.to_thread(_frames, file.data) > 1


def _frames(data: bytes) -> int:
    try:
        with Image.open(io.BytesIO(data), formats=MOVING) as picture:
            return int(getattr(picture, "n_frames", 1))
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return 1
