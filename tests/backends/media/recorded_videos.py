"""Small videos and sounds, with a secret planted wherever their containers allow text."""

import array
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import av
from PIL import Image

from tests.backends.media.planted import SECRET

_FRAMES: Any = av.VideoFrame
_RATE = 48_000
_SAMPLES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """How a video or a sound is made: container and codecs, and what the result should be."""

    container: str
    mime: str
    image: str = ""
    sound: str = ""


KINDS: Mapping[str, Kind] = {
    "mp4": Kind(container="mp4", mime="video/mp4", image="libx264", sound="aac"),
    "mov": Kind(container="mov", mime="video/quicktime", image="libx264", sound="aac"),
    "webm": Kind(container="webm", mime="video/webm", image="libvpx-vp9", sound="libopus"),
    "webm-vorbis": Kind(container="webm", mime="video/webm", image="libvpx", sound="vorbis"),
    "mkv": Kind(container="matroska", mime="video/x-matroska", image="libx264", sound="aac"),
    "avi": Kind(container="avi", mime="video/x-msvideo", image="mpeg4"),
    "m4a": Kind(container="ipod", mime="audio/mp4", sound="aac"),
    "flac": Kind(container="flac", mime="audio/flac", sound="flac"),
    "mp3": Kind(container="mp3", mime="audio/mpeg", sound="libmp3lame"),
    "ogg": Kind(container="ogg", mime="audio/ogg", sound="libopus"),
    "ogg-vorbis": Kind(container="ogg", mime="audio/ogg", sound="vorbis"),
    "wav": Kind(container="wav", mime="audio/wav", sound="pcm_s16le"),
}


@cache
def video(
    kind: str,
    *,
    size: tuple[int, int] = (64, 48),
    frames: int = 12,
    silent: bool = False,
    pixels: str = "yuv420p",
) -> bytes:
    """Return a video or a sound of that kind, tagged with the secret."""
    how, out = KINDS[kind], io.BytesIO()
    movflags = {"movflags": "use_metadata_tags"} if how.container in {"mp4", "mov"} else {}
    with av.open(out, "w", format=how.container, options=movflags) as made:
        target: Any = made
        for name in ("prompt", "workflow", "title", "comment", "artist"):
            target.metadata[name] = SECRET
        image = _image(target, how, size, pixels) if how.image else None
        sound = _sound(target, how) if how.sound and not silent else None
        if image is not None:
            for number in range(frames):
                noise = Image.effect_noise(size, 40 + number).convert("RGB")
                target.mux(image.encode(_FRAMES.from_image(noise)))
            target.mux(image.encode(None))
        if sound is not None:
            _speak(target, sound)
    return out.getvalue()


def _image(target: Any, how: Kind, size: tuple[int, int], pixels: str) -> Any:
    quick = {"deadline": "realtime", "cpu-used": "8"} if "vpx" in how.image else {}
    stream = target.add_stream(how.image, rate=16, options=quick)
    stream.width, stream.height = size
    stream.pix_fmt = pixels
    stream.metadata["title"] = SECRET
    stream.metadata["handler_name"] = SECRET
    return stream


def _sound(target: Any, how: Kind) -> Any:
    options = {"strict": "experimental"} if how.sound == "vorbis" else {}
    stream = target.add_stream(how.sound, rate=_RATE, options=options)
    stream.codec_context.layout = "stereo"
    stream.metadata["title"] = SECRET
    return stream


def _speak(target: Any, sound: Any) -> None:
    wanted = sound.codec_context.format
    resampler = av.AudioResampler(format=wanted, layout="stereo", rate=_RATE)
    for number in range(30):
        frame: Any = av.AudioFrame(format="s16", layout="stereo", samples=_SAMPLES)
        wave = (
            round(8000 * math.sin((number * _SAMPLES + at // 2) * 0.05))
            for at in range(2 * _SAMPLES)
        )
        frame.planes[0].update(array.array("h", wave).tobytes())
        frame.sample_rate, frame.pts, frame.time_base = (
            _RATE,
            number * _SAMPLES,
            Fraction(1, _RATE),
        )
        for each in resampler.resample(frame):
            target.mux(sound.encode(each))
    target.mux(sound.encode(None))


def shown_and_heard(data: bytes) -> list[tuple[str, int | None, bytes]]:
    """Return every decoded frame: its kind, its time and its pixels or waves."""
    found = []
    with av.open(io.BytesIO(data)) as source:
        container: Any = source
        for packet in container.demux():
            for frame in packet.decode():
                planes = b"".join(bytes(plane) for plane in frame.planes)
                found.append((type(frame).__name__, frame.pts, planes))
    return sorted(found, key=lambda each: (each[0], each[1] or 0))


def tags_of(data: bytes) -> str:
    """Return all that a reader finds beside image and sound, and the bytes themselves."""
    with av.open(io.BytesIO(data)) as source:
        container: Any = source
        found = [repr(container.metadata)]
        for stream in container.streams:
            found += [repr(stream.metadata), stream.type]
            extra = getattr(stream.codec_context, "extradata", None)
            found.append(repr(bytes(extra or b"")))
    return "\n".join([*found, data.decode("latin-1")])
