"""Prepares pictures for ComfyUI's LoadImage. Blocking Pillow work: call it in a thread."""

import hashlib

from PIL import Image

from backends.media.pictures import as_png, open_picture
from queueing.core.requests import File

UPLOAD_SIDE = 4096  # pixels; templates scale down anyway, and uploads are limited to 100 MB


def as_upload(file: File) -> tuple[File, tuple[int, int]]:
    """Return a person's picture as the server should receive it, and its size in pixels.

    Only the first frame (LoadImage makes a batch of all), upright, and nothing but the pixels. The
    name is a hash of the content, so the same picture takes no further space on the server. Raises
    `Rejected` for anything that is not a picture.
    """
    image = open_picture(file)
    image.thumbnail((UPLOAD_SIDE, UPLOAD_SIDE))
    return _named(as_png(image)), image.size


def blank() -> File:
    """Return a small grey picture, for a warm-up of a template that needs one."""
    return _named(as_png(Image.new("RGB", (64, 64), "grey")))


def _named(data: bytes) -> File:
    name = f"{hashlib.sha256(data).hexdigest()[:32]}.png"
    return File(name=name, mime="image/png", data=data)
