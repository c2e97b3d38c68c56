"""Opens, writes and copies video and audio containers. Only for the helper process: needs PyAV."""

import io
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import av

from backends.media.helper.protocol import Answer, Order

# Reader and writer are named for each type, so that formats which open further files by name cannot
# be reached.
_FORMATS: Mapping[str, tuple[str, str]] = {
    "video/mp4": ("mov", "mp4"),
    "video/quicktime": ("mov", "mov"),
    "audio/mp4": ("mov", "ipod"),
    "video/webm": ("matroska", "webm"),
    "video/x-matroska": ("matroska", "matroska"),
    "video/x-msvideo": ("avi", "avi"),
    "audio/flac": ("flac", "flac"),
    "audio/mpeg": ("mp3", "mp3"),
    "audio/ogg": ("ogg", "ogg"),
    "audio/wav": ("wav", "wav"),
}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "mp4": {"movflags": "+faststart"},  # playable while it is downloading
    "mov": {"movflags": "+faststart"},
    "ipod": {"movflags": "+faststart"},
    "mp3": {"id3v2_version": "0", "write_id3v1": "0"},
}


_LONGEST_S = 10_000_000
PIXELS_MOST = 50_000_000  # in one image


class Unreadable(Exception):
    """A file of an unsupported type, or without images and audio."""


def opened(data: bytes, mime: str) -> Any:
    """Open a file's container for reading."""
    if mime not in _FORMATS:
        raise Unreadable(mime)
    reader, _ = _FORMATS[mime]
    return av.open(io.BytesIO(data), format=reader)


def made(out: io.BytesIO, mime: str) -> Any:
    """Open a container for writing, without the name of the program that wrote it."""
    _, writer = _FORMATS[mime]

    def again(_url: str, _flags: int, _options: Any) -> io.BytesIO:
        return io.BytesIO(out.getvalue())  # to move the index to the front

    options = {"fflags": "+bitexact", **_OPTIONS.get(writer, {})}
    return av.open(out, "w", format=writer, options=options, io_open=again)


def streams_of(container: Any) -> list[Any]:
    """Return the video and audio streams of a container, without covers, subtitles and data."""
    return [
        stream
        for stream in container.streams
        if stream.type in {"video", "audio"} and not _is_cover(stream)
    ]


def images_of(container: Any) -> Any:
    """Return the video stream. Raises `Unreadable` if it is missing or its images are too large."""
    for stream in streams_of(container):
        if stream.type == "video":
            require_size(stream.codec_context.width, stream.codec_context.height)
            return stream
    raise Unreadable("no image")


def require_size(width: int, height: int) -> None:
    """Raise `Unreadable` for images that would exhaust the memory."""
    if width * height > PIXELS_MOST:
        raise Unreadable(f"{width}x{height} pixels")


def _is_cover(stream: Any) -> bool:
    return stream.type == "video" and bool(stream.disposition & av.stream.Disposition.attached_pic)


def length_of(data: bytes, mime: str) -> float:
    """Return the length of a video or audio file in seconds; 0 if it is unknown.

    The length that the container states is used if it is at most 1.5 times that of the packets. The
    header of streamed audio states no length, or the maximum.
    """
    with opened(data, mime) as source:
        stated = seconds_of(source)
        first, last = 0.0, 0.0
        for packet in source.demux(streams_of(source)):
            if packet.pts is not None and packet.time_base is not None:
                first = min(first, float(packet.pts * packet.time_base))
                last = max(last, float((packet.pts + (packet.duration or 0)) * packet.time_base))
    held = last - first
    if held and not 0 < stated <= 1.5 * held + 1:
        stated = held
    return stated if 0 < stated < _LONGEST_S else 0.0


def seconds_of(container: Any) -> float:
    """Return the length that a container states, in seconds; 0 if it states none."""
    if container.duration:
        return float(container.duration / av.time_base)
    lengths = [
        float(stream.duration * stream.time_base)
        for stream in container.streams
        if stream.duration and stream.time_base
    ]
    return max(lengths, default=0.0)


_SILENCE_HZ, _SAMPLES = 48_000, 1024
_SILENCE_MOST_S = 3600
_XIPH = frozenset({"vorbis", "theora"})


def cleaned(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Remove the metadata from a video or audio file."""
    return Answer(mime=order.mime), clean(data, order.mime)


def silenced(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Add a silent audio track to a video."""
    return Answer(mime=order.mime), with_silence(data, order.mime)


def clean(data: bytes, mime: str) -> bytes:
    """Return the file without tags, covers, subtitles, chapters and attachments."""
    out = io.BytesIO()
    with opened(data, mime) as source, made(out, mime) as target:
        streams = {stream.index: _copy(target, stream) for stream in streams_of(source)}
        if not streams:
            raise Unreadable("neither video nor audio")
        for packet in source.demux([source.streams[index] for index in streams]):
            if not packet.size:  # end of stream
                continue
            packet.stream = streams[packet.stream.index]
            target.mux(packet)
    if not out.tell():
        raise Unreadable("it contains no video or audio data")
    return out.getvalue()


def with_silence(data: bytes, mime: str) -> bytes:
    """Return a video with a silent audio track and without its tags.

    Raises `Unreadable` unless it is a video without audio whose length is known.
    """
    out = io.BytesIO()
    seconds = length_of(data, mime)
    if not 0 < seconds <= _SILENCE_MOST_S:
        raise Unreadable(f"cannot add {seconds:.0f} s of silence")
    with opened(data, mime) as source, made(out, mime) as target:
        video = images_of(source)
        if any(stream.type == "audio" for stream in streams_of(source)):
            raise Unreadable("it already has audio")
        seen = _copy(target, video)
        heard = target.add_stream("libopus" if mime == "video/webm" else "aac", rate=_SILENCE_HZ)
        heard.codec_context.layout = "mono"
        for packet in source.demux(video):
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
    """Return the three headers of Vorbis or Theora with an empty comment header in the middle."""
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
