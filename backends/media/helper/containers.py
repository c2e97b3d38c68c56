"""Opens and creates the containers of films and sounds. In the helper process only: needs PyAV."""

import io
from collections.abc import Mapping
from typing import Any

import av

# Reader and writer are named for each kind, so none that opens further files by name is reached.
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
    "mp4": {"movflags": "+faststart"},  # playable before it has arrived whole
    "mov": {"movflags": "+faststart"},
    "ipod": {"movflags": "+faststart"},
    "mp3": {"id3v2_version": "0", "write_id3v1": "0"},
}


_LONGEST_S = 10_000_000
PIXELS_MOST = 50_000_000  # of one picture


class Unreadable(Exception):
    """A file of a kind that is not supported here, or without picture and sound."""


def opened(data: bytes, mime: str) -> Any:
    """Return a file's container for reading."""
    if mime not in _FORMATS:
        raise Unreadable(mime)
    reader, _ = _FORMATS[mime]
    return av.open(io.BytesIO(data), format=reader)


def made(out: io.BytesIO, mime: str) -> Any:
    """Return a container to write into, which does not name the program that wrote it."""
    _, writer = _FORMATS[mime]

    def again(_url: str, _flags: int, _options: Any) -> io.BytesIO:
        return io.BytesIO(out.getvalue())  # for the index that is moved to the front

    options = {"fflags": "+bitexact", **_OPTIONS.get(writer, {})}
    return av.open(out, "w", format=writer, options=options, io_open=again)


def streams_of(container: Any) -> list[Any]:
    """Return the pictures and sounds of a container: no covers, subtitles, chapters or data."""
    return [
        stream
        for stream in container.streams
        if stream.type in {"video", "audio"} and not _is_cover(stream)
    ]


def pictures_of(container: Any) -> Any:
    """Return the stream of pictures. Raises `Unreadable` if there is none, or it is enormous."""
    for stream in streams_of(container):
        if stream.type == "video":
            require_size(stream.codec_context.width, stream.codec_context.height)
            return stream
    raise Unreadable("no picture")


def require_size(width: int, height: int) -> None:
    """Refuse pictures that would take all memory. Raises `Unreadable`."""
    if width * height > PIXELS_MOST:
        raise Unreadable(f"{width}x{height} pixels")


def _is_cover(stream: Any) -> bool:
    return stream.type == "video" and bool(stream.disposition & av.stream.Disposition.attached_pic)


def length_of(data: bytes, mime: str) -> float:
    """Return the length of a film or sound; 0 if it is unknown.

    What a container states is believed up to half as much again as its packets hold: the header of
    a sound that was streamed says nothing, or the most it can say.
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
    """Return the length of a film or sound, 0 if its container does not state it."""
    if container.duration:
        return float(container.duration / av.time_base)
    lengths = [
        float(stream.duration * stream.time_base)
        for stream in container.streams
        if stream.duration and stream.time_base
    ]
    return max(lengths, default=0.0)
