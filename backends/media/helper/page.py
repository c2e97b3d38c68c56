"""Makes pictures of pages, and of pictures within documents, small enough for models that see."""

import io

from PIL import Image

from backends.common.file_types import SENT

SIDE_MOST = 1568  # pixels: models that see make nothing of more
_PIXELS_MOST = 50_000_000
_LEAST = 200  # pixels of a side; smaller ones are signs and lines
_QUALITY = 80


def as_page(picture: Image.Image) -> bytes:
    """Return a picture as a JPEG."""
    small = picture.convert("RGB")
    small.thumbnail((SIDE_MOST, SIDE_MOST))
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def pictured(data: bytes) -> bytes:
    """Return a picture out of a document as a JPEG; b"" if it is none, small or enormous."""
    try:
        with Image.open(io.BytesIO(data), formats=(*SENT, "GIF")) as picture:
            if min(picture.size) < _LEAST or picture.width * picture.height > _PIXELS_MOST:
                return b""
            return as_page(picture)
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return b""
