"""Re-encodes sounds for servers and chats. In the helper process only: needs PyAV."""

import array
import io
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import av

from backends.media.helper.films.containers import made, opened, streams_of
from backends.media.helper.order import Answer, Faulty, Looks, MediaTask, Order

_WAV_HZ, _OPUS_HZ, _OPUS_BITS = 16_000, 48_000, 32_000
_BARS_MOST = 256
_BAR_S = 0.01  # what the loudest of is remembered until the length is known
_EVERY = 6  # one sample in so many is enough to tell how loud it is


def converted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Carry out an order for WAV or a voice message. Raises `Faulty`."""
    wav = order.task is MediaTask.WAV
    hz = _WAV_HZ if wav else _OPUS_HZ
    out, loudness = io.BytesIO(), _Loudness(hz)
    with made(out, "audio/wav" if wav else "audio/ogg") as target:
        stream = target.add_stream("pcm_s16le", rate=hz) if wav else _opus(target)
        stream.codec_context.layout = "mono"
        for frame in heard(data, order, hz):
            loudness.hear(frame)
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    if not loudness.samples:
        raise Faulty("silent")
    sound, bars = out.getvalue(), loudness.bars()
    answer = Answer(
        mime="audio/wav" if wav else "audio/ogg",
        looks=Looks(seconds=loudness.samples / hz, sound="pcm_s16le" if wav else "opus"),
        parts=(len(sound), len(bars)),
    )
    return answer, sound + bars


def _opus(target: Any) -> Any:
    stream = target.add_stream("libopus", rate=_OPUS_HZ, options={"application": "voip"})
    stream.codec_context.bit_rate = _OPUS_BITS
    return stream


def heard(data: bytes, order: Order, hz: int) -> Iterator[Any]:
    """Yield a file's sound in mono, at that rate. Raises `Faulty` if there is none, or too much."""
    heard = 0
    with opened(data, order.mime) as source:
        sound = next((each for each in streams_of(source) if each.type == "audio"), None)
        if sound is None:
            raise Faulty("silent")
        resampler = av.AudioResampler(format="s16", layout="mono", rate=hz)
        for frame in _decoded(source, sound):
            if frame is not None:
                frame.pts = None  # a stranger's clock makes no gaps
            for each in resampler.resample(frame):
                each.pts, each.time_base = heard, Fraction(1, hz)
                heard += each.samples
                if heard > order.seconds * hz:
                    raise Faulty("too-long")
                yield each


def _decoded(source: Any, sound: Any) -> Iterator[Any]:
    yield from source.decode(sound)
    yield None


class _Loudness:
    """Remembers the loudest sample of each short while."""

    def __init__(self, hz: int) -> None:
        self._hz = hz
        self._peaks: list[int] = []
        self.samples = 0

    def hear(self, frame: Any) -> None:
        """Take the next samples, which are 16 bits in mono."""
        wave = array.array("h", bytes(frame.planes[0])[: 2 * frame.samples])
        if sys.byteorder == "big":
            wave.byteswap()
        step = max(1, int(self._hz * _BAR_S))
        for at in range(0, len(wave), step):
            some = wave[at : at + step : _EVERY]
            self._peaks.append(max(abs(max(some)), abs(min(some))))
        self.samples += frame.samples

    def bars(self) -> bytes:
        """Return up to 256 bytes, of which the loudest is 255."""
        count = min(_BARS_MOST, len(self._peaks))
        edges = [len(self._peaks) * at // max(count, 1) for at in range(count + 1)]
        bars = [max(self._peaks[at:to]) for at, to in pairwise(edges)]
        loudest = max([*bars, 1])
        return bytes(bar * 255 // loudest for bar in bars)
