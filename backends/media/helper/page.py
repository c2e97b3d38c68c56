"""Creates page images that are small enough for vision models."""

import io

from PIL import Image, ImageOps

from backends.common.file_types import SENT
from backends.media.helper.pixels import MAX_PIXELS, in_eight_bits, on_white

SIDE_MOST = 1568  # pixels; vision models use no more
_LEAST = 200  # pixels per side; smaller ones are icons and lines
_QUALITY = 80


def as_page(image: Image.Image) -> bytes:
    """Return an image as a JPEG."""
    small = on_white(in_eight_bits(image))
    small.thumbnail((SIDE_MOST, SIDE_MOST))
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def image_page(data: bytes) -> bytes:
    """Return an image from a document as a JPEG; b"" if it is invalid, small or too large."""
    try:
        with Image.open(io.BytesIO(data), formats=(*SENT, "GIF")) as image:
            if min(image.size) < _LEAST or image.width * image.height > MAX_PIXELS:
                return b""
            return as_page(ImageOps.exif_transpose(image))
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return b""
