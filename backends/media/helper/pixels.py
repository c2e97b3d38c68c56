"""Converts images: depth, transparency, colours, encoding, and rarer formats to PNG or JPEG. Pure.

Conversions of common formats run in the bot, those of others in the confined process, which also
makes pages of documents for models. PNG and JPEG are upright, in sRGB, without metadata.
"""

import io
import math

from PIL import Image, ImageCms, ImageOps

from backends.common.file_types import CONVERTED, SENT
from backends.media.helper.protocol import Answer, Faulty, Order

MAX_PIXELS = 50_000_000  # the largest photo a phone takes; Pillow alone allows three times as many
_WHITES = (1.0, 255.0, 65535.0)  # the largest values of a channel
DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})
"""Pillow's modes of greys with 16 or more bits."""


def in_eight_bits(image: Image.Image) -> Image.Image:
    """Convert greys of 16 or more bits to 8 bits. Returns other images unchanged.

    Pillow's own conversion clips at 255, so everything but black would become white.
    """
    if image.mode not in DEEP:
        return image
    numbers = image if image.mode == "F" else image.convert("I")
    scale = 255 / _white(numbers)
    grey = numbers.point(lambda value: value * scale + 0).convert("L")
    clear = image.info.get("transparency")
    grey.info = {**image.info, **({"transparency": clear // 257} if isinstance(clear, int) else {})}
    return grey


def _white(image: Image.Image) -> float:
    """Return the value that is white: of 8 or 16 bits, or the largest if that is more."""
    most = image.getextrema()[1]
    if not isinstance(most, int | float) or not math.isfinite(most):
        return _WHITES[-1]
    usual = _WHITES if image.mode == "F" else _WHITES[-1:]  # a dark image of 16 bits stays dark
    return next((white for white in usual if most <= white), most)


_CLEAR_MOST = 250  # of opacity; some models save opaque images as 254


def is_clear(image: Image.Image) -> bool:
    """Return whether some part of a decoded image is visibly transparent."""
    if not image.has_transparency_data:
        return False
    lowest = image.convert("RGBA").getchannel("A").getextrema()[0]
    return isinstance(lowest, int | float) and lowest <= _CLEAR_MOST


def in_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Return an image with its colours converted from its profile to sRGB."""
    target = ImageCms.createProfile("sRGB")
    if image.mode == "LAB":
        lab = ImageCms.createProfile("LAB")
        return ImageCms.profileToProfile(image, lab, target, outputMode="RGB") or image
    if not profile or image.mode not in {"RGB", "RGBA", "L", "CMYK"}:
        return image
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    try:
        source = ImageCms.getOpenProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(image, source, target, outputMode=mode) or image
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return image  # a broken profile, or one for other pixels


def on_white(image: Image.Image) -> Image.Image:
    """Return an image in RGB without transparency.

    JPEG has none, and dropping it would reveal hidden colours.
    """
    if not image.has_transparency_data:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    flat = Image.new("RGBA", clear.size, "white")
    return Image.alpha_composite(flat, clear).convert("RGB")


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


HUGE, RAW = "huge", "raw"
_PNG_PIXELS_MOST = 4_000_000  # a larger PNG of a photo would be too heavy
_QUALITY = 95
SIDE_MOST = 1568  # pixels of a page; vision models use no more
_PAGE_SIDE_LEAST = 200  # smaller ones are icons and lines
_PAGE_QUALITY = 80
_SUBFILE_TYPE, _REDUCED, _DNG_VERSION = 254, 1, 50706


def converted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Convert an image's first frame."""
    try:
        upright = _decoded(data, CONVERTED[order.mime])
    except Image.DecompressionBombError:
        raise Faulty(HUGE) from None
    if is_clear(upright):
        return Answer(mime="image/png"), as_png(_bare(upright.convert("RGBA")))
    flat = _bare(on_white(upright))
    if flat.width * flat.height > _PNG_PIXELS_MOST:
        return Answer(mime="image/jpeg"), as_jpeg(flat, quality=_QUALITY)
    return Answer(mime="image/png"), as_png(flat)


def _decoded(data: bytes, form: str) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=(form,)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise Faulty(HUGE)
        if _is_raw(image):
            raise Faulty(RAW)
        image.load()
        upright = in_eight_bits(ImageOps.exif_transpose(image))
        return in_srgb(upright, image.info.get("icc_profile") or b"")


def _is_raw(image: Image.Image) -> bool:
    """Return whether a TIFF is a camera's file, whose first image is only a thumbnail."""
    tags = getattr(image, "tag_v2", {})
    return tags.get(_SUBFILE_TYPE) == _REDUCED or _DNG_VERSION in tags


def _bare(image: Image.Image) -> Image.Image:
    image.info = {}
    return image


# ---------------------------------------------------------------- pages for vision models


def as_page(image: Image.Image) -> bytes:
    """Return an image as a JPEG."""
    small = on_white(in_eight_bits(image))
    small.thumbnail((SIDE_MOST, SIDE_MOST))
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_PAGE_QUALITY)
    return out.getvalue()


def image_page(data: bytes) -> bytes:
    """Return an image from a document as a JPEG; b"" if it is invalid, small or too large."""
    try:
        with Image.open(io.BytesIO(data), formats=(*SENT, "GIF")) as image:
            if min(image.size) < _PAGE_SIDE_LEAST or image.width * image.height > MAX_PIXELS:
                return b""
            return as_page(ImageOps.exif_transpose(image))
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return b""
