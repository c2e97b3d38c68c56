"""Converts images: rarer formats to PNG or JPEG, and those of documents to pages for models.

PNG and JPEG are upright, in sRGB, without metadata.
"""

import io

from PIL import Image, ImageOps

from backends.common.file_types import CONVERTED, SENT
from backends.media.helper.pixels import (
    MAX_PIXELS,
    as_jpeg,
    as_png,
    in_eight_bits,
    in_srgb,
    is_clear,
    on_white,
)
from backends.media.helper.protocol import Answer, Faulty, Order

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
