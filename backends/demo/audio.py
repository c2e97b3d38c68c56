"""Sounds without a model: a tone for each word, chords for music. Pure.

A wave file is written with the standard library, so the demo sounds without any film library.
"""

import hashlib
import io
import math
import random
import re
import wave
from array import array
from collections.abc import Iterable, Sequence

TITLE_MOST = 60  # characters
RATE = 16_000  # samples per second
_LOUD = 9_000  # of 32 767
_LETTER_S, _WORD_LEAST_S, _WORD_MOST_S = 0.05, 0.16, 0.7
_PAUSE_S, _SENTENCE_S = 0.06, 0.3
_SCALE = (0, 2, 4, 7, 9, 12, 14, 16)  # a pentatonic scale in semitones: every order sounds well
_CHORDS = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))
_CHORD_S = 2.0
_BASE_HZ, _LOW_HZ = 220.0, 130.8
_FADE_S = 0.03


def spoken(text: str, *, voice: str | None = None, speed: float | None = None) -> bytes:
    """Return a wave file with a tone for each word, higher or lower by the word."""
    pitch = 2 ** (_number(voice or "", 12) / 12)
    said = array("h")
    for word in words_of(text):
        seconds = min(max(len(word) * _LETTER_S, _WORD_LEAST_S), _WORD_MOST_S) / (speed or 1.0)
        step = _SCALE[_number(word.casefold(), len(_SCALE))]
        said += _tone([_BASE_HZ * pitch * 2 ** (step / 12)], seconds)
        pause_s = _SENTENCE_S if word[-1] in ".!?" else _PAUSE_S
        said += _silence(pause_s / (speed or 1.0))
    return _wave(said or _silence(_SENTENCE_S))


def played(prompt: str, seed: int, seconds: float) -> bytes:
    """Return a wave file of that length: four chords with a melody, over and over."""
    notes = random.Random(f"{prompt}|{seed}")  # noqa: S311 - art, not security
    round_ = array("h")
    samples = max(1, round(seconds * RATE))
    for chord in _CHORDS:
        if len(round_) >= samples:
            break
        melody = [notes.choice(_SCALE) for _ in range(4)]
        round_ += _bar(chord, melody)
    times = -(-samples // len(round_))
    return _wave((round_ * times)[:samples])


def words_of(text: str) -> list[str]:
    """Return what is spoken as one tone each."""
    return text.split()


def title_of(text: str) -> str:
    """Return words as the name of a file: without what a file system could trip over."""
    plain = " ".join(re.sub(r"[^\w ,'!-]", " ", text[: 4 * TITLE_MOST]).split())
    return plain if len(plain) <= TITLE_MOST else plain[:TITLE_MOST].rsplit(" ", 1)[0]


def length_s(data: bytes) -> float | None:
    """Return the length of a wave file in seconds, None for anything else."""
    try:
        with wave.open(io.BytesIO(data)) as sound:
            return float(sound.getnframes() / (sound.getframerate() or 1))
    except (wave.Error, EOFError):
        return None


def _bar(chord: Sequence[int], melody: Iterable[int]) -> "array[int]":
    low = [_LOW_HZ * 2 ** (step / 12) for step in chord]
    bar = array("h")
    for step in melody:
        bar += _tone([*low, 2 * _BASE_HZ * 2 ** (step / 12)], _CHORD_S / 4)
    return bar


def _tone(pitches: Sequence[float], seconds: float) -> "array[int]":
    count, fade = round(seconds * RATE), _FADE_S * RATE
    turns = [math.tau * hz / RATE for hz in pitches]
    loud = _LOUD / len(turns)
    return array(
        "h",
        (
            int(loud * min(1.0, n / fade, (count - n) / fade) * sum(math.sin(t * n) for t in turns))
            for n in range(count)
        ),
    )


def _silence(seconds: float) -> "array[int]":
    return array("h", bytes(2 * round(seconds * RATE)))


def _wave(samples: "array[int]") -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(samples.tobytes())
    return out.getvalue()


def _number(word: str, of: int) -> int:
    """Return a number below `of` that depends on the word alone."""
    return hashlib.blake2b(word.encode(errors="replace"), digest_size=2).digest()[0] % of
