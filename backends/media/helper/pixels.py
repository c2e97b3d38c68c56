"""Conversions of decoded images: depth, transparency, colours, and their encoding. Pure.

They run in the bot for common formats, and in the confined process for others.
"""

import io
import math

from PIL import Image, ImageCms

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
