"""The stand-ins for models that speak, make music and write down what they hear."""

import asyncio
import json
import logging
from functools import partial

from backends.demo.audio import length_s, played, spoken, title_of, words_of
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

USUAL_MUSIC_S = 60.0
STEPS = 8
_log = logging.getLogger(__name__)


async def speak(request: TextToSpeech, pace: Pace) -> Fetch:
    """Play a tone for each word; the words are the file's name."""
    words = words_of(request.text)
    await _worked(pace, max(1, len(words)))
    data = await asyncio.to_thread(spoken, request.text, voice=request.voice, speed=request.speed)
    name = title_of(request.text) or "speech"
    return partial(_sound, name, data, request.format)


async def compose(request: TextToAudio, work: Work, pace: Pace) -> Fetch:
    """Play chords for as long as the music is to be."""
    seconds = request.seconds or USUAL_MUSIC_S
    steps = request.steps or STEPS
    await _worked(pace, steps, share=steps / STEPS * seconds / USUAL_MUSIC_S)
    data = await asyncio.to_thread(played, request.prompt, request.seed, seconds)
    name = title_of(request.prompt) or f"demo-{work.key[:8]}"
    return partial(_sound, name, data, None)


async def listen(request: SpeechToText, work: Work, pace: Pace) -> Fetch:
    """Say how long the recording is, and that no model has listened to it."""
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
    """Return what is written instead of a transcript."""
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
    except videos.FilmError:
        return length_s(file.data)


async def _sound(name: str, data: bytes, form: SpeechFormat | None) -> Output:
    """Return a sound in its form where that can be made, in place of a real server's download."""
    file = File(name=f"{name}.wav", mime="audio/wav", data=data)
    if form == "wav":
        return Output(files=(file,))
    try:
        return Output(files=(await sounds.as_form(file, form or "mp3"),))
    except sounds.SoundError as error:
        if error.fault is not sounds.SoundFault.NO_LIBRARY:
            _log.warning("the demo's sound stays a WAV: %s", error)
        return Output(files=(file,))
