"""Converts audio for servers and chats. Only for the helper process: needs PyAV."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av

from backends.media.helper.containers import made, opened, streams_of
from backends.media.helper.protocol import Answer, Faulty, Looks, MediaTask, Order

_WAV_HZ, _OPUS_HZ, _OPUS_BITS = 16_000, 48_000, 32_000


def converted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Convert audio to WAV or to a voice message. Raises `Faulty`."""
    wav = order.task is MediaTask.WAV
    hz = _WAV_HZ if wav else _OPUS_HZ
    out, samples = io.BytesIO(), 0
    with made(out, "audio/wav" if wav else "audio/ogg") as target:
        stream = target.add_stream("pcm_s16le", rate=hz) if wav else _opus(target)
        stream.codec_context.layout = "mono"
        for frame in heard(data, order, hz):
            samples += frame.samples
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    if not samples:
        raise Faulty("silent")
    answer = Answer(
        mime="audio/wav" if wav else "audio/ogg",
        looks=Looks(seconds=samples / hz, sound="pcm_s16le" if wav else "opus"),
    )
    return answer, out.getvalue()


def _opus(target: Any) -> Any:
    stream = target.add_stream("libopus", rate=_OPUS_HZ, options={"application": "voip"})
    stream.codec_context.bit_rate = _OPUS_BITS
    return stream


def heard(data: bytes, order: Order, hz: int) -> Iterator[Any]:
    """Yield a file's audio in mono at that rate. Raises `Faulty` if it has none or too much."""
    heard = 0
    with opened(data, order.mime) as source:
        sound = next((each for each in streams_of(source) if each.type == "audio"), None)
        if sound is None:
            raise Faulty("silent")
        resampler = av.AudioResampler(format="s16", layout="mono", rate=hz)
        for frame in _decoded(source, sound):
            if frame is not None:
                frame.pts = None  # untrusted timestamps must not create gaps
            for each in resampler.resample(frame):
                each.pts, each.time_base = heard, Fraction(1, hz)
                heard += each.samples
                if heard > order.seconds * hz:
                    raise Faulty("too-long")
                yield each


def _decoded(source: Any, sound: Any) -> Iterator[Any]:
    yield from source.decode(sound)
    yield None


_BITS = 64_000  # for speech in mono


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """A codec and its rate, with a container given by its media type or by FFmpeg's name."""

    codec: str
    hz: int
    mime: str = ""
    container: str = ""


_FORMS: Mapping[str, _Form] = {
    "mp3": _Form(codec="libmp3lame", hz=24_000, mime="audio/mpeg"),
    "opus": _Form(codec="libopus", hz=48_000, mime="audio/ogg"),
    "aac": _Form(codec="aac", hz=24_000, container="adts"),
    "flac": _Form(codec="flac", hz=24_000, mime="audio/flac"),
    "wav": _Form(codec="pcm_s16le", hz=24_000, mime="audio/wav"),
    "pcm": _Form(codec="pcm_s16le", hz=24_000, container="s16le"),
}


def encoded(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Convert audio to the ordered format. Raises `Faulty`."""
    form, out, samples = _FORMS[order.form], io.BytesIO(), 0
    with _container(out, form) as target:
        stream = target.add_stream(form.codec, rate=form.hz)
        stream.codec_context.layout = "mono"
        stream.codec_context.bit_rate = _BITS
        for frame in heard(data, order, form.hz):
            samples += frame.samples
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    if not samples:
        raise Faulty("silent")
    return Answer(looks=Looks(seconds=samples / form.hz, sound=form.codec)), out.getvalue()


def _container(out: io.BytesIO, form: _Form) -> Any:
    if form.mime:
        return made(out, form.mime)
    return av.open(out, "w", format=form.container)
