"""Checks untrusted images and masks before anything decodes them, and makes results fit.

Pillow runs in threads. It releases the interpreter lock, so the event loop keeps running.
"""

import asyncio
import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

from PIL import Image, ImageChops, ImageOps

from backends.common.file_types import CONVERTED, SENT, is_sound, is_video, mime_of, unread_image
from backends.media import videos
from backends.media.helper.pixels import in_eight_bits, is_clear, on_white
from backends.media.image_metadata import without_metadata
from backends.media.images import ImageError, ImageFault, as_common
from bot.core.refusals import Declined, Refusal, RefusalKind
from queueing.core.requests import File

IMAGE_MB = 20  # the most Telegram lets a bot download; used everywhere
MEGAPIXELS = 40
UPSCALED_MEGAPIXELS = 16  # a larger result of a model fits neither the server's memory nor a chat
ImageForm = Literal["png", "jpeg", "webp"]
_QUALITIES = (92, 85, 75, 60)
_SHRINK = 0.75
_SMALLEST_SIDE = 64
_UPLOAD_S = 20.0  # for a person's video; results wait for the same processes

_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PNG_SIZE = struct.Struct(">II5xI")  # width, height, encoding, checksum
_PNG_HEADER = len(_PNG) + _PNG_SIZE.size

# The warning is an error only where warnings are errors; the check here is stricter.
_BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)

_encoders = asyncio.Semaphore(2)


def require_weight(size: int) -> None:
    """Refuse a file that is too large for an image. Raises `Declined`."""
    if size > IMAGE_MB * 1_000_000:
        megabytes = size // 1_000_000
        raise Declined(Refusal(RefusalKind.IMAGE_TOO_LARGE, size=megabytes, limit=IMAGE_MB))


async def checked(data: bytes, name: str = "") -> File:
    """Return untrusted bytes as an image file. Raises `Declined`.

    Only PNG, JPEG and WebP are opened here; AVIF, BMP, GIF and TIFF are converted by another
    process. The number of pixels is read before anything is decoded, and the whole image must
    decode. The file gets a neutral name; `name` only helps to identify unreadable formats. The
    metadata of cameras and programs is removed.
    """
    if mime_of(data) in CONVERTED:
        data = await _converted(data)
    elif form := unread_image(data, name):
        raise Declined(Refusal(RefusalKind.UNREAD_IMAGE, form=form))
    async with _encoders:
        return await asyncio.to_thread(_checked, data)


_UNCONVERTED: Mapping[ImageFault, Refusal] = {
    ImageFault.HUGE: Refusal(RefusalKind.TOO_MANY_PIXELS, limit=MEGAPIXELS),
    ImageFault.RAW: Refusal(RefusalKind.UNREAD_IMAGE, form="RAW"),
    ImageFault.UNREADABLE: Refusal(RefusalKind.NOT_AN_IMAGE),
}


async def _converted(data: bytes) -> bytes:
    try:
        return await as_common(data)
    except ImageError as error:
        raise Declined(_UNCONVERTED[error.fault]) from error


async def bare(data: bytes) -> bytes:
    """Return a person's file as it may be stored: images, video and sound without metadata.

    Images that no chat shows become PNG or JPEG. A file that cannot be read becomes an empty file,
    because its contents are unknown. Other kinds of files stay as they are.
    """
    mime = mime_of(data)
    try:
        if mime in CONVERTED and mime != "image/gif":
            return await as_common(data)
        if is_video(mime) or is_sound(mime):
            return await videos.cleaned(data, wall_s=_UPLOAD_S)
        return await asyncio.to_thread(without_metadata, data)
    except (ValueError, videos.VideoError, ImageError):
        return b""


async def fitted(file: File, limit: int) -> File | None:
    """Return an image in at most `limit` bytes, re-encoded if necessary; None if impossible.

    Reduces quality first, then size. Files that are not images come back unchanged or as None.
    """
    if len(file.data) <= limit:
        return file
    if not file.mime.startswith("image/"):
        return None
    async with _encoders:
        return await asyncio.to_thread(_fitted, file, limit)


def in_form(file: File, form: ImageForm | None) -> File:
    """Return a result as an image in that form; unchanged without a form, or if it is not an image.

    Blocking.
    """
    mime = f"image/{form}"
    if form is None or file.mime == mime or not file.mime.startswith("image/"):
        return file
    out = io.BytesIO()
    with Image.open(io.BytesIO(file.data), formats=(*SENT, "GIF")) as opened:
        image = in_eight_bits(ImageOps.exif_transpose(opened))
        clear = form != "jpeg" and is_clear(image)
        image = image.convert("RGBA") if clear else on_white(image)
        image.save(out, form.upper(), quality=_QUALITIES[0])
    stem = file.name.rpartition(".")[0] or file.name
    return File(name=f"{stem}.{form}", mime=mime, data=out.getvalue())


async def dimensions(file: File) -> tuple[int, int] | None:
    """Return an image's width and height in pixels; None for anything else."""
    return _png_size(file.data) or await asyncio.to_thread(_dimensions, file)


async def require_upscalable(file: File) -> None:
    """Refuse an image that is already large. Raises `Declined`."""
    size = await dimensions(file)
    if size is not None and size[0] * size[1] > UPSCALED_MEGAPIXELS * 1_000_000:
        raise Declined(Refusal(RefusalKind.LARGE_ENOUGH, limit=UPSCALED_MEGAPIXELS))


def _png_size(data: bytes) -> tuple[int, int] | None:
    """Return the size in a PNG's header; None for anything else. Most servers draw PNGs."""
    if not data.startswith(_PNG) or len(data) < _PNG_HEADER:
        return None
    width, height, check = _PNG_SIZE.unpack_from(data, len(_PNG))
    intact = zlib.crc32(data[12 : _PNG_HEADER - 4]) == check  # checksum of chunk name and values
    return (width, height) if intact and width and height else None


def _dimensions(file: File) -> tuple[int, int] | None:
    try:
        with Image.open(io.BytesIO(file.data), formats=SENT) as image:
            return image.size
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return None


def _checked(data: bytes) -> File:
    try:
        data = without_metadata(data)
        with Image.open(io.BytesIO(data), formats=SENT) as image:
            _require_size(image)
            image.load()
            kind = str(image.format)
    except Declined:
        raise
    except _BOMB:
        raise Declined(Refusal(RefusalKind.TOO_MANY_PIXELS, limit=MEGAPIXELS)) from None
    except Exception:  # noqa: BLE001  as above
        raise Declined(Refusal(RefusalKind.NOT_AN_IMAGE)) from None
    return File(name=f"image.{kind.lower()}", mime=f"image/{kind.lower()}", data=data)


def _require_size(image: Image.Image) -> None:
    if image.width * image.height > MEGAPIXELS * 1_000_000:
        raise Declined(Refusal(RefusalKind.TOO_MANY_PIXELS, limit=MEGAPIXELS))


def _fitted(file: File, limit: int) -> File | None:
    try:
        with Image.open(io.BytesIO(file.data), formats=SENT) as opened:
            image = in_eight_bits(ImageOps.exif_transpose(opened))
            clear = is_clear(image)
            image = image.convert("RGBA") if clear else on_white(image)
    except Exception:  # noqa: BLE001
        return None  # a server's result may be as broken as a person's image
    form, ending = ("WEBP", "webp") if clear else ("JPEG", "jpg")  # JPEG has no transparency
    while min(image.size) >= _SMALLEST_SIDE:
        for quality in _QUALITIES:
            out = io.BytesIO()
            image.save(out, form, quality=quality)
            if out.tell() <= limit:
                stem = file.name.rpartition(".")[0] or file.name
                mime = f"image/{form.lower()}"
                return File(name=f"{stem}.{ending}", mime=mime, data=out.getvalue())
        image = image.resize((int(image.width * _SHRINK), int(image.height * _SHRINK)))
    return None


_OPAQUE = 255
_MARKED_MOST = 127  # of opacity; more opaque parts stay
_STROKE_LEAST = 250  # of brightness; less is no white stroke
_SOFT = 8  # by how much an edge may be darker


async def mask_of(image: File, given: File | None = None) -> File:
    """Return a PNG of the image's size that is transparent where the image is to be painted.

    `given` is the person's mask. Without one, the image's own transparent parts count. A mask
    without transparency marks by white or another bright colour. Both files are checked images.
    Raises `Declined` if nothing is marked, or if a result is not a readable image.
    """
    try:
        return await asyncio.to_thread(_mask, image, given)
    except (OSError, ValueError) as error:
        raise Declined(Refusal(RefusalKind.NOT_AN_IMAGE)) from error


def _mask(image: File, given: File | None) -> File:
    with Image.open(io.BytesIO(image.data), formats=SENT) as opened:
        size = ImageOps.exif_transpose(opened).size
    with Image.open(io.BytesIO((given or image).data), formats=SENT) as opened:
        marks = in_eight_bits(ImageOps.exif_transpose(opened))
        layered = marks.convert("RGBA")
        kept = layered.getchannel("A")
        if given is not None and _least(kept) == _OPAQUE:
            kept = ImageChops.invert(_brightest(layered))
        elif given is not None and _is_strokes(layered):
            most = _most(kept)
            kept = kept.point(lambda alpha: _OPAQUE - alpha * _OPAQUE // most)
    if _least(kept) > _MARKED_MOST:
        raise Declined(Refusal(RefusalKind.EMPTY_MASK))
    mask = Image.new("RGBA", size)
    mask.putalpha(kept.resize(size))
    out = io.BytesIO()
    mask.save(out, "PNG")
    return File(name="mask.png", mime="image/png", data=out.getvalue())


def _brightest(marks: Image.Image) -> Image.Image:
    """Return the brightest channel of each pixel, because some people mark in red or blue.

    If that marks everything, the file is an ordinary image, of which only white counts.
    """
    red, green, blue = marks.convert("RGB").split()
    brightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return brightest if _least(brightest) <= _MARKED_MOST else marks.convert("L")


def _is_strokes(mask: Image.Image) -> bool:
    """Return whether a mask is a layer of white strokes, as drawing programs export it.

    Soft edges may be as bright as they are opaque, or white.
    """
    alpha = mask.getchannel("A")
    bright = alpha.point(
        lambda value: _STROKE_LEAST if value >= _STROKE_LEAST else max(value - _SOFT, 0)
    )
    missing = ImageChops.subtract(bright, mask.convert("L"))
    return _most(alpha) > _SOFT and _most(missing) == 0


def _least(channel: Image.Image) -> int:
    return min(_values(channel))


def _most(channel: Image.Image) -> int:
    return max(_values(channel))


def _values(channel: Image.Image) -> Sequence[int]:
    """Return the values that occur in an image with one channel of 8 bits."""
    return [value for value, count in enumerate(channel.histogram()) if count]
