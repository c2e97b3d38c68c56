"""Prepares a server's files for people by removing what programs wrote into them."""

import asyncio
import io

from PIL import Image, ImageOps, ImageSequence, features

from backends.common.file_types import is_film, is_picture, is_sound, is_text, mime_of
from backends.media import svg, videos
from backends.media.icc import blanked
from backends.media.images import MAX_PIXELS
from backends.media.metadata import without_metadata


class KeptBack(Exception):
    """A file that may hold more than what is visible; the text is for the operator."""


async def bare(data: bytes) -> bytes:
    """Return a result without metadata; an AVIF becomes a WebP of the same pixels.

    Raises `KeptBack`, and `ValueError` for a damaged file.
    """
    mime = mime_of(data)
    if mime == "image/avif":
        return await asyncio.to_thread(_as_webp, data)
    if mime == "image/heic":
        raise KeptBack("HEIC is not read")
    if is_picture(mime):
        return await asyncio.to_thread(without_metadata, data)
    if is_film(mime) or is_sound(mime):
        try:
            return await videos.cleaned(data)
        except videos.FilmError as error:
            raise KeptBack(str(error)) from error
    return await asyncio.to_thread(_bare_text, data)


def _bare_text(data: bytes) -> bytes:
    if not is_text(data):
        raise KeptBack("neither picture, film, sound nor text")
    return svg.clean(data) if svg.is_drawing(data) else data


def _as_webp(data: bytes) -> bytes:
    """Encode an AVIF again, lossless and quickly: nothing removes its metadata in place."""
    if not features.check("avif"):
        raise KeptBack("this Pillow reads no AVIF")
    try:
        return _encoded(Image.open(io.BytesIO(data), formats=("AVIF",)))
    except KeptBack:
        raise
    except Exception as error:  # Pillow's readers raise anything for broken files
        raise ValueError(f"unreadable AVIF: {error}") from error


def _encoded(image: Image.Image) -> bytes:
    frames, durations, pixels = [], [], 0
    for frame in ImageSequence.Iterator(image):
        pixels += frame.width * frame.height
        if pixels > MAX_PIXELS:
            raise KeptBack("an AVIF of too many pixels")
        frame.load()  # only then it tells how long a frame is shown
        durations.append(frame.info.get("duration", 0))
        frames.append(ImageOps.exif_transpose(frame))
    out = io.BytesIO()
    frames[0].save(
        out,
        "WEBP",
        save_all=len(frames) > 1,
        append_images=frames[1:],
        duration=durations,
        icc_profile=blanked(image.info.get("icc_profile") or b""),
        lossless=True,
        exact=True,
        method=0,
        quality=0,
    )
    return out.getvalue()
