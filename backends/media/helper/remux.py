"""Copies picture and sound into a new container and nothing else. In the helper process only.

ComfyUI writes prompt and graph into the tags of films and sounds. Nothing is re-encoded, so picture
and sound stay bit for bit the same, as do orientation and colours.
"""

import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av

from backends.media.helper.containers import (
    Unreadable,
    length_of,
    made,
    opened,
    pictures_of,
    streams_of,
)
from backends.media.helper.protocol import Answer, Order

_SILENCE_HZ, _SAMPLES = 48_000, 1024
_SILENCE_MOST_S = 3600
_XIPH = frozenset({"vorbis", "theora"})


def cleaned(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Carry out an order to clean a film or sound."""
    return Answer(mime=order.mime), clean(data, order.mime)


def silenced(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Carry out an order to give a film a track of silence."""
    return Answer(mime=order.mime), with_silence(data, order.mime)


def clean(data: bytes, mime: str) -> bytes:
    """Return the file without tags, covers, subtitles, chapters and attachments."""
    out = io.BytesIO()
    with opened(data, mime) as source, made(out, mime) as target:
        streams = {stream.index: _copy(target, stream) for stream in streams_of(source)}
        if not streams:
            raise Unreadable("neither picture nor sound")
        for packet in source.demux([source.streams[index] for index in streams]):
            if not packet.size:  # marks the end
                continue
            packet.stream = streams[packet.stream.index]
            target.mux(packet)
    if not out.tell():
        raise Unreadable("nothing to see or hear in it")
    return out.getvalue()


def with_silence(data: bytes, mime: str) -> bytes:
    """Return a silent film with a track of silence, and without its tags.

    Raises `Unreadable` for anything but a silent film of a known length.
    """
    out = io.BytesIO()
    seconds = length_of(data, mime)
    if not 0 < seconds <= _SILENCE_MOST_S:
        raise Unreadable(f"{seconds:.0f} s of silence")
    with opened(data, mime) as source, made(out, mime) as target:
        film = pictures_of(source)
        if any(stream.type == "audio" for stream in streams_of(source)):
            raise Unreadable("it has sound already")
        seen = _copy(target, film)
        heard = target.add_stream("libopus" if mime == "video/webm" else "aac", rate=_SILENCE_HZ)
        heard.codec_context.layout = "mono"
        for packet in source.demux(film):
            if packet.size:
                packet.stream = seen
                target.mux(packet)
        for frame in _silence(int(seconds * _SILENCE_HZ)):
            target.mux(heard.encode(frame))
        target.mux(heard.encode(None))
    return out.getvalue()


def _silence(samples: int) -> Iterator[Any]:
    for at in range(0, samples, _SAMPLES):
        frame: Any = av.AudioFrame(format="fltp", layout="mono", samples=_SAMPLES)
        frame.planes[0].update(bytes(frame.planes[0].buffer_size))
        frame.sample_rate, frame.pts = _SILENCE_HZ, at
        frame.time_base = Fraction(1, _SILENCE_HZ)
        yield frame


def _copy(target: Any, stream: Any) -> Any:
    copied = target.add_stream_from_template(stream)
    copied.metadata.clear()
    if stream.codec_context.name in _XIPH and stream.codec_context.extradata:
        copied.codec_context.extradata = without_comment(bytes(stream.codec_context.extradata))
    return copied


def without_comment(headers: bytes) -> bytes:
    """Return the three headers of Vorbis or Theora with an empty comment in the middle."""
    first, at = _laced(headers, 1)
    second, at = _laced(headers, at)
    start, comment = at + first, headers[at + first : at + first + second]
    name = comment[:7]
    empty = name + bytes(8) + (b"\x01" if name == b"\x03vorbis" else b"")
    lacing = bytes([headers[0]]) + _lace(first) + _lace(len(empty))
    return lacing + headers[at:start] + empty + headers[start + second :]


def _laced(headers: bytes, at: int) -> tuple[int, int]:
    length = 0
    while headers[at] == 255:
        length, at = length + 255, at + 1
    return length + headers[at], at + 1


def _lace(length: int) -> bytes:
    return b"\xff" * (length // 255) + bytes([length % 255])
