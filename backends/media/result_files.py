"""Prepares servers' files for people by removing metadata, including from SVG."""

import asyncio
import io
import re
from collections.abc import Iterator

from PIL import Image, ImageOps, ImageSequence, features

from backends.common.file_types import is_image, is_sound, is_text, is_video, mime_of
from backends.media import videos
from backends.media.helper.pixels import MAX_PIXELS
from backends.media.image_metadata import blanked, without_metadata
from backends.media.images import ImageError, as_common

# Possessive, so that matching stays fast; attributes may contain ">".
_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_NAME = re.compile(rb"</?(?:[\w.-]+:)?([\w.-]*)")
_SVG = re.compile(rb"<(?:[\w.-]+:)?svg\b")
_BLANK = b"\xef\xbb\xbf \t\r\n"
_SECTIONS = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"))
_HIDDEN = frozenset({b"metadata", b"desc"})


def is_drawing(data: bytes) -> bool:
    """Return whether a text is an SVG file."""
    return data.lstrip(_BLANK).startswith(b"<") and _SVG.search(data) is not None


def clean(data: bytes) -> bytes:
    """Return an SVG without its descriptions. Raises `ValueError` if it is truncated."""
    kept = bytearray()
    depth = 0  # of hidden elements at this position
    for piece in _pieces(data):
        if piece.startswith(b"<!--"):
            continue
        found = _NAME.match(piece)
        if found is None or found[1].lower() not in _HIDDEN:
            kept += piece if depth == 0 else b""
        elif not piece.endswith(b"/>"):
            depth = max(0, depth - 1) if piece.startswith(b"</") else depth + 1
    if depth:
        raise ValueError("the SVG is truncated")
    return bytes(kept)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield comments, CDATA sections, tags, and the text between them."""
    at = 0
    while at < len(data):
        end = _end_of_markup(data, at) if data[at : at + 1] == b"<" else data.find(b"<", at)
        end = len(data) if end < 0 else end
        yield data[at:end]
        at = end


def _end_of_markup(data: bytes, at: int) -> int:
    """Return the end of the markup that begins here. Raises `ValueError` if it is missing."""
    for begin, close in _SECTIONS:
        if data.startswith(begin, at):
            end = data.find(close, at + len(begin))
            if end < 0:
                raise ValueError("the SVG is truncated")
            return end + len(close)
    tag = _TAG.match(data, at)
    if tag is None:
        raise ValueError("the SVG is truncated")
    return tag.end()


class KeptBack(Exception):
    """A file that may contain hidden data; the text is for the operator."""


async def bare(data: bytes) -> bytes:
    """Return a result without metadata. An AVIF becomes a WebP, a BMP or TIFF a PNG or JPEG.

    Raises `KeptBack`, and `ValueError` for a damaged file.
    """
    mime = mime_of(data)
    if mime == "image/avif":
        return await asyncio.to_thread(_as_webp, data)
    if mime in {"image/bmp", "image/tiff"}:
        try:
            return await as_common(data)
        except ImageError as error:
            raise KeptBack(str(error)) from error
    if mime == "image/heic":
        raise KeptBack("HEIC is not supported")
    if is_image(mime):
        return await asyncio.to_thread(without_metadata, data)
    if is_video(mime) or is_sound(mime):
        try:
            return await videos.cleaned(data)
        except videos.VideoError as error:
            raise KeptBack(str(error)) from error
    return await asyncio.to_thread(_bare_text, data)


def _bare_text(data: bytes) -> bytes:
    if not is_text(data):
        raise KeptBack("neither image, video, sound nor text")
    return clean(data) if is_drawing(data) else data


def _as_webp(data: bytes) -> bytes:
    """Convert an AVIF, lossless and fast, because its metadata cannot be removed in place."""
    if not features.check("avif"):
        raise KeptBack("this Pillow does not support AVIF")
    try:
        return _encoded(Image.open(io.BytesIO(data), formats=("AVIF",)))
    except KeptBack:
        raise
    except Exception as error:  # Pillow's readers may raise any exception for broken files
        raise ValueError(f"unreadable AVIF: {error}") from error


def _encoded(image: Image.Image) -> bytes:
    frames, durations, pixels = [], [], 0
    for frame in ImageSequence.Iterator(image):
        pixels += frame.width * frame.height
        if pixels > MAX_PIXELS:
            raise KeptBack("an AVIF with too many pixels")
        frame.load()  # the duration is only known then
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
