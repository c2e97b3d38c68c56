"""Copies picture and sound into a new container and nothing else. In the helper process only.

ComfyUI writes prompt and graph into the tags of films and sounds. Nothing is re-encoded, so picture
and sound stay bit for bit the same, as do orientation and colours.
"""

import io
from typing import Any

from backends.media.films.containers import Unreadable, made, opened, streams_of

_XIPH = frozenset({"vorbis", "theora"})


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
