"""Reads what a server wrote down of a recording, long ones piece by piece. Pure.

Numbers come as numbers, as texts (vLLM's duration) and in nanoseconds (old versions of LocalAI);
models write words for silence, which are left out where the server tells how likely it is.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from pydantic import JsonValue

from backends.openai.answer_reader import without_thoughts
from backends.openai.flavours.errors import classify
from backends.openai.recordings import plain_samples, plain_wav
from queueing.core.bounded_json import written
from queueing.core.errors import UnreadableAnswer

SILENCE = 0.6  # from here on a segment is no speech if the model is also unsure of its words
SURE_SILENCE = 0.8  # from here on it is none whatever the model says
UNSURE = -1.0  # mean logarithm of the probabilities of its words
BLANK = ("[blank_audio]", "[silence]", "[no speech]")
NANOSECONDS = 1e7  # no recording has as many seconds, and no segment fewer nanoseconds

_TIMES = ("start", "end")
_NUMBERS = (*_TIMES, "temperature", "avg_logprob", "compression_ratio", "no_speech_prob")

Segment = dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechTranscript:
    """A transcript; `segments` are in the shape of OpenAI's `verbose_json`, without silent ones.

    They are None where the server tells none.
    """

    text: str
    segments: tuple[Segment, ...] | None = None
    language: str | None = None
    seconds: float | None = None

    def verbose(self, *, translated: bool) -> str:
        """Return it as OpenAI's `verbose_json`; "" if the server tells no segments."""
        if self.segments is None:
            return ""
        whole: dict[str, JsonValue] = {
            "task": "translate" if translated else "transcribe",
            "language": "english" if translated else self.language,
            "duration": self.seconds,
            "text": self.text,
            "segments": list(self.segments),
        }
        return written({name: value for name, value in whole.items() if value is not None})


def heard(answer: JsonValue) -> SpeechTranscript:
    """Return the transcript in a server's answer; raise the error that is in it instead."""
    if not isinstance(answer, dict):
        raise UnreadableAnswer("unexpected answer: no object")
    if answer.get("error") or answer.get("object") == "error":
        raise classify(200, answer)
    text, language = answer.get("text"), answer.get("language")
    if not isinstance(text, str):
        raise UnreadableAnswer("unexpected answer: no text")
    told = _segments(answer.get("segments"))
    spoken = [segment for segment in told or () if not _silent(segment)]
    numbered: list[Segment] = [{**segment, "id": at} for at, segment in enumerate(spoken)]
    words = _words(spoken) if len(spoken) < len(told or ()) else without_thoughts(text).strip()
    words = " ".join(words.split()) if told else words  # whisper.cpp ends a line with each segment
    return SpeechTranscript(
        text="" if words.casefold() in BLANK else words,
        segments=None if told is None else tuple(numbered),
        language=language if isinstance(language, str) and language else None,
        seconds=_duration(answer.get("duration"), spoken),
    )


def _segments(told: JsonValue) -> list[Segment] | None:
    """Return the segments with numbers as numbers of seconds; None where one has no times."""
    if not isinstance(told, list):
        return None
    segments = [_segment(each) for each in told if isinstance(each, dict)]
    if any(each[name] is None for each in segments for name in _TIMES):
        return None
    if any((_number(each["end"]) or 0) >= NANOSECONDS for each in segments):
        return [_scaled(each) for each in segments]
    return segments


def _segment(told: Mapping[str, JsonValue]) -> Segment:
    text, tokens = told.get("text"), told.get("tokens")
    segment: Segment = {"text": text if isinstance(text, str) else ""}
    segment |= {
        name: number for name in _NUMBERS if (number := _number(told.get(name))) is not None
    }
    listed = tokens if isinstance(tokens, list) else []
    segment["tokens"] = [token for token in listed if isinstance(token, int)]
    return {**dict.fromkeys(_TIMES), **segment}


def _scaled(segment: Segment) -> Segment:
    return segment | {name: (_number(segment[name]) or 0.0) / 1e9 for name in _TIMES}


def _silent(segment: Segment) -> bool:
    text = segment["text"]
    if not isinstance(text, str) or text.strip().casefold() in {"", *BLANK}:
        return True
    silence, sure = _number(segment.get("no_speech_prob")), _number(segment.get("avg_logprob"))
    if silence is None or silence < SILENCE:
        return False
    return silence >= SURE_SILENCE or (sure is not None and sure < UNSURE)


def _words(segments: Sequence[Segment]) -> str:
    return " ".join(str(segment["text"]) for segment in segments)


def _duration(told: JsonValue, segments: Sequence[Segment]) -> float | None:
    seconds = _number(told)
    if not seconds:
        return max((_number(each["end"]) or 0.0 for each in segments), default=None)
    return seconds / 1e9 if seconds >= NANOSECONDS else seconds


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        number = float(value)
        return number if isfinite(number) else None
    return None


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


def together(pieces: Sequence[SoundPiece], told: Sequence[SpeechTranscript]) -> SpeechTranscript:
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
    return SpeechTranscript(
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
