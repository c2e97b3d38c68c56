"""Decodes untrusted images within limits and encodes them again for servers.

Blocking Pillow work: call it in a thread. Only `as_common`, for rarer formats, is a coroutine: it
leaves the work to a separate confined process.
"""

import io
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from PIL import Image, ImageOps

from backends.common.file_types import SENT, is_image, mime_of
from backends.media.helper.pixels import (
    HUGE,
    MAX_PIXELS,
    RAW,
    as_png,
    in_eight_bits,
    in_srgb,
    on_white,
)
from backends.media.helper.process import MediaError, ask
from backends.media.helper.protocol import MediaTask, Order
from backends.media.image_metadata import blanked
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import File

_WALL_S = 60.0


class ImageFault(StrEnum):
    """Why an image cannot be converted."""

    UNREADABLE = "unreadable"  # damaged, or took too long
    HUGE = HUGE
    RAW = RAW  # a camera's file


class ImageError(Exception):
    """An image that cannot be converted; `fault` says why, and the text is for the operator."""

    def __init__(self, fault: ImageFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


async def as_common(data: bytes) -> bytes:
    """Return the first frame of an AVIF, BMP, GIF or TIFF as a PNG or JPEG without metadata.

    Raises `ImageError`.
    """
    order = Order(task=MediaTask.IMAGE, mime=mime_of(data), size=len(data))
    try:
        _, made = await ask(order, data, wall_s=_WALL_S)
    except MediaError as error:
        fault = ImageFault(error.fault) if error.fault else ImageFault.UNREADABLE
        raise ImageError(fault, str(error)) from error
    return made


T = TypeVar("T")

BAD_IMAGE = problem(ProblemKind.BAD_IMAGE)
HUGE_IMAGE = problem(ProblemKind.HUGE_IMAGE)


def open_image(file: File) -> Image.Image:
    """Return the decoded first frame, upright, in RGB on white, without metadata.

    Colours are converted from the image's profile to sRGB, which servers assume.

    Raises `Rejected` for anything that is not an image, is broken, or has more than `MAX_PIXELS`.
    The header is checked before any pixel is decoded, so a decompression bomb costs nothing.
    """
    return _decoded(file, lambda upright: _bare(on_white(_in_srgb(upright))))


def transparent_parts(file: File) -> Image.Image | None:
    """Return an image's transparent area as white on black; None if there is none.

    Raises `Rejected` like `open_image`.
    """
    return _decoded(file, _transparency)


def _transparency(upright: Image.Image) -> Image.Image | None:
    if not upright.has_transparency_data:
        return None
    return ImageOps.invert(upright.convert("RGBA").getchannel("A"))


def _decoded(file: File, use: Callable[[Image.Image], T]) -> T:
    try:
        with Image.open(io.BytesIO(file.data), formats=(*SENT, "GIF")) as image:
            _require_size(image)
            image.load()
            return use(in_eight_bits(ImageOps.exif_transpose(image)))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        # The warning is only raised if warnings are errors; the check above is stricter than both.
        raise Rejected(f"pixel bomb: {error}", problem=HUGE_IMAGE) from error
    except Rejected:
        raise
    except Exception as error:  # Pillow's readers may raise any exception for broken files
        raise Rejected(f"unreadable image: {error}", problem=BAD_IMAGE) from error


_SAME_SHAPE = 0.02  # largest difference of two ratios


def keeping_transparency(made: File, source: File) -> File:
    """Return a result with the transparent parts of its source, which servers ignore.

    Unchanged if the source has none, or if the result has its own, another shape, or no readable
    form.
    """
    clear = transparent_parts(source)
    if clear is None or not is_image(made.mime):
        return made
    try:
        if transparent_parts(made) is not None:
            return made
        image = open_image(made)
    except Rejected:
        return made
    if abs(image.width * clear.height / (image.height * clear.width) - 1) > _SAME_SHAPE:
        return made
    image.putalpha(ImageOps.invert(clear).resize(image.size))
    return File(name=f"{made.name.rpartition('.')[0]}.png", mime="image/png", data=as_png(image))


def _require_size(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise Rejected(f"an image of {image.width}x{image.height} pixels", problem=HUGE_IMAGE)


def _in_srgb(image: Image.Image) -> Image.Image:
    return in_srgb(image, blanked(image.info.get("icc_profile") or b""))


def _bare(image: Image.Image) -> Image.Image:
    """Drop all metadata that Pillow would copy into the next file, such as the comment."""
    image.info = {}
    return image
