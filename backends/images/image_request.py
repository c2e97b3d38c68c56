"""What a picture server is asked for: a request with its pictures ready to be sent.

People's pictures are decoded within bounds and re-encoded, so that a server gets pixels and nothing
else. A mask comes with transparency where something is painted, and most servers want white there.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageOps

from backends.media.images import BAD_PICTURE, as_jpeg, as_png, open_picture, transparent_parts
from queueing.core.errors import Rejected
from queueing.core.requests import File, TextToImage

SIDE_MOST = 4096  # pixels; no model draws larger pictures
PIXELS_SENT = (
    4_000_000  # of all pictures together: no model looks at more, and servers limit bodies
)
PNG_MOST = 2 * 1024 * 1024  # bytes; a photo that is larger is sent as JPEG
GRID = 64  # the steps in which every family can draw


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPicture:
    """A picture as it is sent."""

    data: bytes
    mime: str = "image/png"

    @property
    def base64(self) -> str:
        """Its bytes as text."""
        return b64encode(self.data).decode()

    @property
    def address(self) -> str:
        """Its bytes as a data address."""
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureOrder:
    """One attempt, for a flavour to send.

    `model` is the server's own name, `size` the picture's in pixels, None for the server's choice.
    `loras` are the server's own names with their weights. In `mask` white is
    painted, in `clear_mask` what is transparent. `silence_s` is how long
    the server may take.
    """

    model: str
    request: TextToImage
    size: tuple[int, int] | None = None
    loras: tuple[tuple[str, float], ...] = ()
    pictures: tuple[SentPicture, ...] = ()
    mask: SentPicture | None = None
    clear_mask: SentPicture | None = None
    silence_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPictures:
    """A request's files as they are sent, and the size in pixels of the first."""

    pictures: tuple[SentPicture, ...] = ()
    size: tuple[int, int] | None = None
    mask: SentPicture | None = None
    clear_mask: SentPicture | None = None


def prepared(request: TextToImage, files: Sequence[File]) -> SentPictures:
    """Return the files of a request as servers take them. Blocking Pillow work.

    Raises `Rejected` for anything that is not a picture, and for a mask without transparency.
    """
    if not files:
        return SentPictures()
    *seen, last = files
    shown = seen if request.mask else files
    if not shown:
        raise Rejected("a mask without a picture", problem=BAD_PICTURE)
    opened = [_small(file, PIXELS_SENT // len(shown)) for file in shown]
    pictures = tuple(_encoded(picture) for picture in opened)
    if not request.mask:
        return SentPictures(pictures=pictures, size=opened[0].size)
    painted = _painted(last).resize(opened[0].size)
    clear = opened[0].copy()
    clear.putalpha(ImageOps.invert(painted))
    return SentPictures(
        pictures=pictures,
        size=opened[0].size,
        mask=SentPicture(data=as_png(painted)),
        clear_mask=SentPicture(data=as_png(clear)),
    )


def size_of(
    request: TextToImage, usual: tuple[int, int] | None, picture: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return the size to draw: what is asked, in the shape of the picture or of the usual size.

    None if neither is known.
    """
    if request.width and request.height:
        return request.width, request.height
    shape = picture or usual or (1, 1)
    if request.width:
        return request.width, _step(request.width * shape[1] / shape[0])
    if request.height:
        return _step(request.height * shape[0] / shape[1]), request.height
    if picture is None:
        return usual
    pixels = usual[0] * usual[1] if usual else 1024 * 1024
    scale = (pixels / (shape[0] * shape[1])) ** 0.5
    return _step(shape[0] * scale), _step(shape[1] * scale)


def _step(side: float) -> int:
    return min(max(round(side / GRID) * GRID, GRID), SIDE_MOST)


def _small(file: File, pixels: int) -> Image.Image:
    picture = open_picture(file)
    scale = (pixels / (picture.width * picture.height)) ** 0.5
    if scale < 1:
        picture.thumbnail((max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))
    return picture


def _encoded(picture: Image.Image) -> SentPicture:
    data = as_png(picture)
    if len(data) <= PNG_MOST:
        return SentPicture(data=data)
    return SentPicture(data=as_jpeg(picture, quality=95), mime="image/jpeg")


def _painted(file: File) -> Image.Image:
    """Return a mask in which white is painted."""
    painted = transparent_parts(file)
    if painted is None:
        raise Rejected("a mask without transparency", problem=BAD_PICTURE)
    return painted
