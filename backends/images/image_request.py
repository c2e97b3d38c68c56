"""A request to an image server, with its images ready to be sent.

People's images are decoded within limits and encoded again, so a server receives only pixels. A
person's mask is transparent in the area to paint; most servers expect white there.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageOps

from backends.media.helper.pixels import as_jpeg, as_png
from backends.media.images import BAD_IMAGE, open_image, transparent_parts
from queueing.core.errors import Rejected
from queueing.core.requests import File, TextToImage

SIDE_MOST = 4096  # pixels; no model creates larger images
PIXELS_SENT = 4_000_000  # total pixels: models use no more, and servers limit bodies
PNG_MOST = 2 * 1024 * 1024  # bytes; a larger photo is sent as JPEG
GRID = 64  # pixels; every family supports multiples of it


@dataclass(frozen=True, kw_only=True, slots=True)
class SentImage:
    """An image encoded for sending."""

    data: bytes
    mime: str = "image/png"

    @property
    def base64(self) -> str:
        """Its bytes as base64."""
        return b64encode(self.data).decode()

    @property
    def address(self) -> str:
        """Its bytes as a data URL."""
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRequest:
    """One attempt, to be sent by a flavour.

    `model` is the server's own name. `size` is in pixels, or None for the server's choice. `loras`
    are the server's own names with their weights. The area to paint is white in `mask` and
    transparent in `clear_mask`. `silence_s` is how long a response may take, or a websocket may be
    silent.
    """

    model: str
    request: TextToImage
    size: tuple[int, int] | None = None
    loras: tuple[tuple[str, float], ...] = ()
    images: tuple[SentImage, ...] = ()
    mask: SentImage | None = None
    clear_mask: SentImage | None = None
    silence_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SentImages:
    """A request's files encoded for sending, and the size of the first in pixels."""

    images: tuple[SentImage, ...] = ()
    size: tuple[int, int] | None = None
    mask: SentImage | None = None
    clear_mask: SentImage | None = None


def prepared(request: TextToImage, files: Sequence[File]) -> SentImages:
    """Encode the files of a request for sending. Blocking Pillow work.

    Raises `Rejected` for anything that is not an image, and for a mask without transparency.
    """
    if not files:
        return SentImages()
    *seen, last = files
    shown = seen if request.mask else files
    if not shown:
        raise Rejected("a mask without an image", problem=BAD_IMAGE)
    opened = [_small(file, PIXELS_SENT // len(shown)) for file in shown]
    images = tuple(_encoded(image) for image in opened)
    if not request.mask:
        return SentImages(images=images, size=opened[0].size)
    painted = _painted(last).resize(opened[0].size)
    clear = opened[0].copy()
    clear.putalpha(ImageOps.invert(painted))
    return SentImages(
        images=images,
        size=opened[0].size,
        mask=SentImage(data=as_png(painted)),
        clear_mask=SentImage(data=as_png(clear)),
    )


def size_of(
    request: TextToImage, usual: tuple[int, int] | None, image: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return the size to create.

    That is the requested one, or one with the aspect ratio of the image or of the default size.
    None if neither is known.
    """
    if request.width and request.height:
        return request.width, request.height
    shape = image or usual or (1, 1)
    if request.width:
        return request.width, _step(request.width * shape[1] / shape[0])
    if request.height:
        return _step(request.height * shape[0] / shape[1]), request.height
    if image is None:
        return usual
    pixels = usual[0] * usual[1] if usual else 1024 * 1024
    scale = (pixels / (shape[0] * shape[1])) ** 0.5
    return _step(shape[0] * scale), _step(shape[1] * scale)


def _step(side: float) -> int:
    return min(max(round(side / GRID) * GRID, GRID), SIDE_MOST)


def _small(file: File, pixels: int) -> Image.Image:
    image = open_image(file)
    scale = (pixels / (image.width * image.height)) ** 0.5
    if scale < 1:
        image.thumbnail((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
    return image


def _encoded(image: Image.Image) -> SentImage:
    data = as_png(image)
    if len(data) <= PNG_MOST:
        return SentImage(data=data)
    return SentImage(data=as_jpeg(image, quality=95), mime="image/jpeg")


def _painted(file: File) -> Image.Image:
    """Return a mask that is white in the area to paint."""
    painted = transparent_parts(file)
    if painted is None:
        raise Rejected("a mask without transparency", problem=BAD_IMAGE)
    return painted
