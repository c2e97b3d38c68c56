"""Describes a film or sound and extracts its first picture. In the helper process only."""

import io

from backends.media.helper.containers import (
    length_of,
    opened,
    pictures_of,
    require_size,
    streams_of,
)
from backends.media.helper.protocol import Answer, Looks, Order

_SIDE_MOST = 320  # the size chats accept as a still
_BYTES_MOST = 200_000


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
        image.thumbnail((_SIDE_MOST, _SIDE_MOST))
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=80)
        return looks, out.getvalue() if out.tell() <= _BYTES_MOST else b""
