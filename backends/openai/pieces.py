"""Divides a long recording at its pauses, and joins what was written down of the pieces. Pure.

So the progress of a long one is known, a cancelled one stops soon, and servers that take ten minutes
at most take it as well. Only plain sounds (`sounds.is_plain`) are divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from backends.openai.recordings import plain_samples, plain_wav
from backends.openai.transcripts import Heard, Segment

PIECE_S = 120.0
PAUSE_S = 20.0  # at the end of a piece, where its quietest moment is looked for
RATE = 16_000

_MOMENT = RATE // 10  # samples


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundPiece:
    """A part of a recording, from one of its samples to another; without an end, all of it."""

    whole: bytes
    begin: int = 0
    end: int | None = None

    @property
    def begins(self) -> float:
        """When it begins, in seconds."""
        return self.begin / RATE

    @property
    def seconds(self) -> float | None:
        """How long it is; None for a recording that was not divided."""
        return None if self.end is None else (self.end - self.begin) / RATE

    def sound(self) -> bytes:
        """Return it as WAV: a copy, made when it is sent."""
        samples = None if self.end is None else plain_samples(self.whole)
        return self.whole if samples is None else plain_wav(samples[self.begin : self.end])


def pieces_of(sound: bytes) -> list[SoundPiece]:
    """Return a recording in pieces of up to `PIECE_S` seconds; one of another form as it is."""
    samples = plain_samples(sound)
    piece, pause = int(PIECE_S * RATE), int(PAUSE_S * RATE)
    if samples is None or len(samples) <= piece:
        return [SoundPiece(whole=sound)]
    ends, begins = [], 0
    while len(samples) - begins > piece:
        begins += piece - pause + _quietest(samples[begins + piece - pause : begins + piece])
        ends.append(begins)
    bounds = pairwise((0, *ends, len(samples)))
    return [SoundPiece(whole=sound, begin=begin, end=end) for begin, end in bounds]


def _quietest(samples: memoryview) -> int:
    """Return where the quietest moment is, its middle."""
    loudness = {
        at: sum(map(abs, samples[at : at + _MOMENT]))
        for at in range(0, len(samples) - _MOMENT + 1, _MOMENT)
    }
    return min(loudness, key=lambda at: loudness[at]) + _MOMENT // 2


def together(pieces: Sequence[SoundPiece], told: Sequence[Heard]) -> Heard:
    """Return what was written down of the pieces as one transcript."""
    if len(told) == 1 and pieces[0].seconds is None:
        return told[0]
    segments = [
        _moved(segment, piece.begins)
        for piece, each in zip(pieces, told, strict=False)
        for segment in each.segments or ()
    ]
    numbered: list[Segment] = [{**segment, "id": at} for at, segment in enumerate(segments)]
    untimed = any(each.text and each.segments is None for each in told)
    languages = [each.language for each in told if each.language and each.text]
    return Heard(
        text=" ".join(each.text for each in told if each.text),
        segments=None if untimed else tuple(numbered),
        language=next(iter(languages), None),
        seconds=sum(piece.seconds or 0.0 for piece in pieces[: len(told)]),
    )


def _moved(segment: Segment, begins: float) -> Segment:
    times = {name: segment[name] for name in ("start", "end")}
    return segment | {
        name: round(time + begins, 3) for name, time in times.items() if isinstance(time, float)
    }
