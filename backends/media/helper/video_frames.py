"""Describes films and sounds, and takes images out of films. In the helper process only."""

import io
from collections.abc import Iterator
from typing import Any

from PIL import Image

from backends.common.file_types import MOVING, MOVING_TYPES
from backends.media.helper.containers import (
    Unreadable,
    length_of,
    opened,
    pictures_of,
    require_size,
    streams_of,
)
from backends.media.helper.protocol import Answer, Looks, Order

_STILL_SIDE_MOST = 320  # the size chats accept as a still
_STILL_BYTES_MOST = 200_000


def looked(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Carry out an order to look at a file."""
    looks, still = look(data, order.mime)
    return Answer(mime="image/jpeg" if still else "", looks=looks), still


def look(data: bytes, mime: str) -> tuple[Looks, bytes]:
    """Return what a file is, and for a film its first picture as a small JPEG."""
    with opened(data, mime) as source:
        streams = streams_of(source)
        sounds = [each for each in streams if each.type == "audio"]
        seconds = length_of(data, mime)
        sound = sounds[0].codec_context.name if sounds else ""
        if len(sounds) == len(streams):
            return Looks(seconds=seconds, sound=sound), b""
        pictures = pictures_of(source)
        frame = next(source.decode(pictures))
        require_size(frame.width, frame.height)
        image = frame.to_image().rotate(frame.rotation, expand=True)
        looks = Looks(
            width=image.width,
            height=image.height,
            seconds=seconds,
            picture=pictures.codec_context.name,
            pixels=pictures.codec_context.pix_fmt or "",
            sound=sound,
        )
        image.thumbnail((_STILL_SIDE_MOST, _STILL_SIDE_MOST))
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=80)
        return looks, out.getvalue() if out.tell() <= _STILL_BYTES_MOST else b""


_SIDE_MOST = 768  # pixels
_QUALITY = 85
_DECODED_MOST = 400  # frames between two pictures; a film whose index is far off shows others


def extracted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Carry out an order for some of a film's pictures."""
    found = _of_moving if order.mime in MOVING_TYPES else _of_film
    pictures = [_jpeg(image) for image in found(data, order.mime, order.pictures)]
    if not pictures:
        raise Unreadable("no picture")
    answer = Answer(
        mime="image/jpeg", looks=Looks(), parts=tuple(len(picture) for picture in pictures)
    )
    return answer, b"".join(pictures)


def _of_film(data: bytes, mime: str, most: int) -> Iterator[Image.Image]:
    """Yield a picture out of the middle of each of `most` equal parts."""
    with opened(data, mime) as source:
        stream = pictures_of(source)
        seconds = length_of(data, mime)
        start, last = float((stream.start_time or 0) * stream.time_base), None
        for at in range(most):
            moment = start + seconds * (at + 0.5) / most
            if seconds:
                source.seek(int(moment / stream.time_base), stream=stream)
            frame = _frame_at(source, stream, moment)
            if frame is not None and frame.pts != last:
                last = frame.pts
                require_size(frame.width, frame.height)
                yield frame.to_image().rotate(frame.rotation, expand=True)
            if not seconds:
                return


def _frame_at(source: Any, stream: Any, moment: float) -> Any:
    """Return the frame that is shown at a moment, or the last before it that can be had."""
    shown = None
    for number, frame in enumerate(source.decode(stream)):
        if shown is not None and frame.time is not None and frame.time > moment:
            return shown
        shown = frame
        if number >= _DECODED_MOST:
            return shown
    return shown


def _of_moving(data: bytes, _: str, most: int) -> Iterator[Image.Image]:
    with Image.open(io.BytesIO(data), formats=MOVING) as picture:
        require_size(*picture.size)
        frames = getattr(picture, "n_frames", 1)
        for at in sorted({int(frames * (part + 0.5) / most) for part in range(most)}):
            picture.seek(at)
            flat = Image.new("RGB", picture.size, "white")
            layer = picture.convert("RGBA")
            flat.paste(layer, mask=layer.getchannel("A"))
            yield flat


def _jpeg(image: Image.Image) -> bytes:
    image.thumbnail((_SIDE_MOST, _SIDE_MOST))
    out = io.BytesIO()
    image.convert("RGB").save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
