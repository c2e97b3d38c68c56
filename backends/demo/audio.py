"""The demo's audio, without a model: speech, music, and placeholder transcripts.

WAV files are written with the standard library, so the demo needs no media library.
"""

import asyncio
import hashlib
import io
import json
import logging
import math
import random
import re
import wave
from array import array
from collections.abc import Iterable, Sequence
from functools import partial

from backends.demo.pace import Beat, Pace, known
from backends.media import sounds, videos
from queueing.core.errors import Rejected
from queueing.core.ports import Fetch
from queueing.core.requests import (
    File,
    Output,
    Progress,
    SpeechFormat,
    SpeechToText,
    TextToAudio,
    TextToSpeech,
    Work,
)

TITLE_MOST = 60  # characters
RATE = 16_000  # samples per second
_LOUD = 9_000  # peak, of 32 767
_LETTER_S, _WORD_LEAST_S, _WORD_MOST_S = 0.05, 0.16, 0.7
_PAUSE_S, _SENTENCE_S = 0.06, 0.3
_SCALE = (0, 2, 4, 7, 9, 12, 14, 16)  # a pentatonic scale in semitones: any order sounds good
_CHORDS = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))
_CHORD_S = 2.0
_BASE_HZ, _LOW_HZ = 220.0, 130.8
_FADE_S = 0.03


def spoken(text: str, *, voice: str | None = None, speed: float | None = None) -> bytes:
    """Return a WAV file with a tone for each word, whose pitch depends on the word."""
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
    """Return a WAV file of `seconds` length: four repeating chords with a melody."""
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
    """Return the words that are spoken, as one tone each."""
    return text.split()


def title_of(text: str) -> str:
    """Return a text as a file name, without characters that file systems reject."""
    plain = " ".join(re.sub(r"[^\w ,'!-]", " ", text[: 4 * TITLE_MOST]).split())
    return plain if len(plain) <= TITLE_MOST else plain[:TITLE_MOST].rsplit(" ", 1)[0]


def length_s(data: bytes) -> float | None:
    """Return the length of a WAV file in seconds; None for anything else."""
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
    """Return a number below `of` that depends only on the word."""
    return hashlib.blake2b(word.encode(errors="replace"), digest_size=2).digest()[0] % of


USUAL_MUSIC_S = 60.0
STEPS = 8
_log = logging.getLogger(__name__)


async def speak(request: TextToSpeech, pace: Pace) -> Fetch:
    """Play a tone for each word; the words become the file's name."""
    words = words_of(request.text)
    await _worked(pace, max(1, len(words)))
    data = await asyncio.to_thread(spoken, request.text, voice=request.voice, speed=request.speed)
    name = title_of(request.text) or "speech"
    return partial(_sound, name, data, request.format)


async def compose(request: TextToAudio, work: Work, pace: Pace) -> Fetch:
    """Play chords for the requested length."""
    seconds = request.seconds or USUAL_MUSIC_S
    steps = request.steps or STEPS
    await _worked(pace, steps, share=steps / STEPS * seconds / USUAL_MUSIC_S)
    data = await asyncio.to_thread(played, request.prompt, request.seed, seconds)
    name = title_of(request.prompt) or f"demo-{work.key[:8]}"
    return partial(_sound, name, data, None)


async def listen(request: SpeechToText, work: Work, pace: Pace) -> Fetch:
    """Return the recording's length and a notice that no model has listened to it."""
    if not work.files:
        raise Rejected("a transcription without a recording")
    seconds = await _heard_s(work.files[0])
    text = heard(request, seconds)
    words = text.split(" ")
    beat = Beat(pace.step_s(len(words)))
    for count in range(1, len(words) + 1):
        await beat.step()
        pace.report(Progress(fraction=count / len(words), text=" ".join(words[:count])))
    if not request.timestamps:
        return partial(known, Output(text=text))
    end = seconds or 0.0
    told = {
        "task": "translate" if request.translate else "transcribe",
        "language": "english",
        "duration": end,
        "text": text,
        "segments": [{"id": 0, "start": 0.0, "end": end, "text": text}],
    }
    return partial(known, Output(text=text, answer=json.dumps(told)))


def heard(request: SpeechToText, seconds: float | None) -> str:
    """Return the placeholder text of a transcript."""
    length = "is of a kind that cannot be measured here"
    if seconds is not None:
        length = f"is {seconds:.1f} seconds long"
    does = "translate into English" if request.translate else "write down"
    return (
        f"This is Usher's stand-in: no model listened. The recording {length}; "
        f"a real model would {does} here what is said in it."
    )


async def _worked(pace: Pace, steps: int, *, share: float = 1.0) -> None:
    beat = Beat(pace.step_s(steps) * share)
    for step in range(1, steps + 1):
        await beat.step()
        pace.report(Progress(fraction=step / steps, step=(step, steps)))


async def _heard_s(file: File) -> float | None:
    try:
        return (await videos.looked_at(file)).looks.seconds or length_s(file.data)
    except videos.VideoError:
        return length_s(file.data)


async def _sound(name: str, data: bytes, form: SpeechFormat | None) -> Output:
    """Return a sound in the requested format if it can be converted."""
    file = File(name=f"{name}.wav", mime="audio/wav", data=data)
    if form == "wav":
        return Output(files=(file,))
    try:
        return Output(files=(await sounds.as_form(file, form or "mp3"),))
    except sounds.SoundError as error:
        if error.fault is not sounds.SoundFault.NO_LIBRARY:
            _log.warning("the demo's audio stays a WAV: %s", error)
        return Output(files=(file,))
