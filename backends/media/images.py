"""Decodes untrusted images within limits and encodes them again for servers.

Everything here is blocking Pillow work: call it in a thread.
"""

import io
from collections.abc import Callable
from typing import TypeVar

from PIL import Image, ImageCms, ImageOps

from backends.common.file_types import SENT, is_image
from backends.media.image_metadata import blanked
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import File

T = TypeVar("T")

MAX_PIXELS = 50_000_000  # the largest photo a phone takes; Pillow alone allows three times as many
DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})
"""Pillow's modes of greys with 16 or more bits."""
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


def in_eight_bits(image: Image.Image) -> Image.Image:
    """Convert greys of 16 or more bits to 8 bits. Returns other images unchanged.

    Pillow's own conversion clips at 255, so everything but black would become white.
    """
    if image.mode not in DEEP:
        return image
    grey = image.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    clear = image.info.get("transparency")
    grey.info = {**image.info, **({"transparency": clear // 257} if isinstance(clear, int) else {})}
    return grey


_CLEAR_MOST = 250  # of opacity; some models save opaque images as 254
_SAME_SHAPE = 0.02  # largest difference of two ratios


def is_clear(image: Image.Image) -> bool:
    """Return whether some part of a decoded image is visibly transparent."""
    if not image.has_transparency_data:
        return False
    lowest = image.convert("RGBA").getchannel("A").getextrema()[0]
    return isinstance(lowest, int | float) and lowest <= _CLEAR_MOST


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


def as_jpeg(image: Image.Image, *, quality: int = 90) -> bytes:
    """Encode an image as JPEG."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def as_png(image: Image.Image) -> bytes:
    """Encode an image as PNG with light compression: four times as fast, slightly larger."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _in_srgb(image: Image.Image) -> Image.Image:
    profile = blanked(image.info.get("icc_profile") or b"")
    if not profile or image.mode not in {"RGB", "RGBA", "L", "CMYK"}:
        return image
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    try:
        source = ImageCms.getOpenProfile(io.BytesIO(profile))
        target = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(image, source, target, outputMode=mode) or image
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return image  # a broken profile, or one for other pixels


def _bare(image: Image.Image) -> Image.Image:
    """Drop all metadata that Pillow would copy into the next file, such as the comment."""
    image.info = {}
    return image


def on_white(image: Image.Image) -> Image.Image:
    """Return an image in RGB without transparency.

    JPEG has none, and dropping it would reveal hidden colours.
    """
    if not image.has_transparency_data:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    flat = Image.new("RGBA", clear.size, "white")
    return Image.alpha_composite(flat, clear).convert("RGB")
