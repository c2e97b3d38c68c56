"""Inspects videos and audio, and extracts images from videos. Only for the helper process."""

import io
from collections.abc import Iterator
from typing import Any

from PIL import Image

from backends.common.file_types import MOVING, MOVING_TYPES
from backends.media.helper.containers import (
    Unreadable,
    images_of,
    length_of,
    opened,
    require_size,
    streams_of,
)
from backends.media.helper.pixels import in_eight_bits, on_white
from backends.media.helper.protocol import Answer, Looks, Order

_STILL_SIDE_MOST = 320  # pixels, the size chats accept as a thumbnail
_STILL_BYTES_MOST = 200_000


def looked(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Inspect a video or audio file."""
    looks, still = look(data, order.mime)
    return Answer(mime="image/jpeg" if still else "", looks=looks), still


def look(data: bytes, mime: str) -> tuple[Looks, bytes]:
    """Return a file's properties, and a video's first image as a small JPEG."""
    with opened(data, mime) as source:
        streams = streams_of(source)
        sounds = [each for each in streams if each.type == "audio"]
        seconds = length_of(data, mime)
        sound = sounds[0].codec_context.name if sounds else ""
        if len(sounds) == len(streams):
            return Looks(seconds=seconds, sound=sound), b""
        images = images_of(source)
        frame = next(source.decode(images))
        require_size(frame.width, frame.height)
        image = frame.to_image().rotate(frame.rotation, expand=True)
        looks = Looks(
            width=image.width,
            height=image.height,
            seconds=seconds,
            image=images.codec_context.name,
            pixels=images.codec_context.pix_fmt or "",
            sound=sound,
        )
        image.thumbnail((_STILL_SIDE_MOST, _STILL_SIDE_MOST))
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=80)
        return looks, out.getvalue() if out.tell() <= _STILL_BYTES_MOST else b""


_SIDE_MOST = 768  # pixels
_QUALITY = 85
_DECODED_MOST = 400  # frames per image; if a video's index is wrong, other frames are used


def extracted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Extract some of a video's images."""
    found = _of_moving if order.mime in MOVING_TYPES else _of_video
    images = [_jpeg(frame) for frame in found(data, order.mime, order.images)]
    if not images:
        raise Unreadable("no image")
    answer = Answer(mime="image/jpeg", looks=Looks(), parts=tuple(len(image) for image in images))
    return answer, b"".join(images)


def _of_video(data: bytes, mime: str, most: int) -> Iterator[Image.Image]:
    """Yield an image from the middle of each of `most` equal parts."""
    with opened(data, mime) as source:
        stream = images_of(source)
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
    """Return the frame shown at a moment, or the last one decoded before it."""
    shown = None
    for number, frame in enumerate(source.decode(stream)):
        if shown is not None and frame.time is not None and frame.time > moment:
            return shown
        shown = frame
        if number >= _DECODED_MOST:
            return shown
    return shown


def _of_moving(data: bytes, _: str, most: int) -> Iterator[Image.Image]:
    with Image.open(io.BytesIO(data), formats=MOVING) as image:
        require_size(*image.size)
        frames = getattr(image, "n_frames", 1)
        for at in sorted({int(frames * (part + 0.5) / most) for part in range(most)}):
            image.seek(at)
            yield on_white(in_eight_bits(image))


def _jpeg(image: Image.Image) -> bytes:
    image.thumbnail((_SIDE_MOST, _SIDE_MOST))
    out = io.BytesIO()
    image.convert("RGB").save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
