"""Gives a sound the form that a program asks for. In the helper process only: needs PyAV."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import av

from backends.media.helper.audio import heard
from backends.media.helper.containers import made
from backends.media.helper.protocol import Answer, Faulty, Looks, Order

_BITS = 64_000  # of speech in mono


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """A codec at a rate, and the container: by its media type, or by FFmpeg's name for it."""

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
    """Carry out an order for a sound in a form. Raises `Faulty`."""
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
