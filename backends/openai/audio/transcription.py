"""Transcribes a recording on a server, in pieces if necessary."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

from pydantic import JsonValue

from backends.common.error_rules import REFUSED
from backends.common.http import Http
from backends.common.http_replies import BadStatus
from backends.media.sounds import SoundError, SoundFault, as_wav
from backends.openai.audio.recordings import is_plain, plain_samples, plain_wav
from backends.openai.chat.completion import silence_s
from backends.openai.chat.reasoning import without_thoughts
from backends.openai.flavours.errors import (
    BAD_SOUND,
    LONG_SOUND,
    NO_HEARING,
    NO_IMAGES,
    NO_TRANSLATION,
    NOTHING_SAID,
    classify,
    classify_answer,
)
from backends.openai.flavours.flavour import AudioForm
from queueing.core.bounded_json import written
from queueing.core.errors import BackendError, OutOfMemory, Rejected, UnreadableAnswer
from queueing.core.ports import Report
from queueing.core.requests import File, Output, Progress, SpeechToText
from queueing.core.specs import Timeouts

SILENCE = (
    0.6  # from this probability on, a segment is silent if the model is also unsure of its words
)
SURE_SILENCE = 0.8  # from this probability on, a segment is always silent
UNSURE = -1.0  # mean log probability of its words
BLANK = ("[blank_audio]", "[silence]", "[no speech]")
NANOSECONDS = 1e7  # longer than any recording in seconds, shorter than any segment in ns

_TIMES = ("start", "end")
_NUMBERS = (*_TIMES, "temperature", "avg_logprob", "compression_ratio", "no_speech_prob")

Segment = dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechTranscript:
    """A transcript; `segments` are in the form of OpenAI's `verbose_json`, without silent ones.

    `segments` is None if the server sends none.
    """

    text: str
    segments: tuple[Segment, ...] | None = None
    language: str | None = None
    seconds: float | None = None

    def verbose(self, *, translated: bool) -> str:
        """Return OpenAI's `verbose_json`, or "" if the server sends no segments."""
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
    """Read the transcript in a server's response, or raise the error that it reports."""
    if not isinstance(answer, dict):
        raise UnreadableAnswer("unexpected answer: not an object")
    if answer.get("error") or answer.get("object") == "error":
        raise classify(200, answer)
    text, language = answer.get("text"), answer.get("language")
    if not isinstance(text, str):
        raise UnreadableAnswer("unexpected answer: no text")
    told = _segments(answer.get("segments"))
    spoken = [segment for segment in told or () if not _silent(segment)]
    numbered: list[Segment] = [{**segment, "id": at} for at, segment in enumerate(spoken)]
    words = _words(spoken) if len(spoken) < len(told or ()) else without_thoughts(text).strip()
    words = " ".join(words.split()) if told else words  # whisper.cpp ends each segment's line
    return SpeechTranscript(
        text="" if words.casefold() in BLANK else words,
        segments=None if told is None else tuple(numbered),
        language=language if isinstance(language, str) and language else None,
        seconds=_duration(answer.get("duration"), spoken),
    )


def _segments(told: JsonValue) -> list[Segment] | None:
    """Return the segments with times in seconds; None if one has no times."""
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
PAUSE_S = 20.0  # the end of a piece that is searched for its quietest moment
RATE = 16_000

_MOMENT = RATE // 10  # samples


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundPiece:
    """Part of a recording, between two sample positions; all of it if `end` is None."""

    whole: bytes
    begin: int = 0
    end: int | None = None

    @property
    def begins(self) -> float:
        """Its start in seconds."""
        return self.begin / RATE

    @property
    def seconds(self) -> float | None:
        """Its length in seconds; None for an undivided recording."""
        return None if self.end is None else (self.end - self.begin) / RATE

    def sound(self) -> bytes:
        """Return it as WAV; the copy is made only when it is sent."""
        samples = None if self.end is None else plain_samples(self.whole)
        return self.whole if samples is None else plain_wav(samples[self.begin : self.end])


def pieces_of(sound: bytes) -> list[SoundPiece]:
    """Return a recording in pieces of up to `PIECE_S` seconds; undivided if it is not plain WAV."""
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
    """Return the position of the middle of the quietest moment."""
    loudness = {
        at: sum(map(abs, samples[at : at + _MOMENT]))
        for at in range(0, len(samples) - _MOMENT + 1, _MOMENT)
    }
    return min(loudness, key=lambda at: loudness[at]) + _MOMENT // 2


def together(pieces: Sequence[SoundPiece], told: Sequence[SpeechTranscript]) -> SpeechTranscript:
    """Join the transcripts of the pieces."""
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


FAULTS = {
    SoundFault.UNREADABLE: BAD_SOUND,
    SoundFault.SILENT: NOTHING_SAID,
    SoundFault.TOO_LONG: LONG_SOUND,
}
UNTOLD = "Invalid request"  # whisper.cpp's whole answer to unreadable audio
REFUSES_FORM = {400, 422, 500, 501}  # answers to an unsupported response format


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A sound to transcribe: the request, the model, and the sound in the form servers accept.

    `max_tokens` limits the answer of a chat model.
    """

    request: SpeechToText
    sound: File
    model_id: str
    timeouts: Timeouts
    max_tokens: int | None = None


async def plain_sound(files: Sequence[File]) -> File:
    """Return a job's one recording as WAV; unchanged without PyAV. Raises `Rejected`."""
    if len(files) != 1:
        raise Rejected(f"{len(files)} recordings instead of one", problem=BAD_SOUND)
    try:
        return files[0] if is_plain(files[0].data) else await as_wav(files[0])
    except SoundError as error:
        if error.fault is SoundFault.NO_LIBRARY:
            return files[0]
        raise Rejected(str(error), problem=FAULTS[error.fault]) from error


async def transcribe(http: Http, form: AudioForm, recording: Recording, report: Report) -> Output:
    """Return the text of a recording, "" if nothing is said, reporting each piece.

    Cancelling closes the connection. Raises `BackendError`s.
    """
    asked = recording.request
    pieces = await asyncio.to_thread(pieces_of, recording.sound.data)
    told: list[SpeechTranscript] = []
    timed = form.segments and (asked.timestamps or form.silence)
    for piece in pieces:
        told.append(await _transcript(http, form, recording, piece.sound(), timed=timed))
        timed = timed and not (told[-1].text and told[-1].segments is None)
        so_far = together(pieces, told).text if len(pieces) > 1 else None
        report(Progress(fraction=len(told) / len(pieces), text=so_far or None))
    whole = together(pieces, told)
    verbose = whole.verbose(translated=asked.translate) if asked.timestamps else ""
    return Output(text=whole.text, answer=verbose)


async def _transcript(
    http: Http, form: AudioForm, recording: Recording, sound: bytes, *, timed: bool
) -> SpeechTranscript:
    """Request segments if wanted, and retry without them if the model does not support them."""
    recording = replace(recording, sound=replace(recording.sound, data=sound))
    if timed:
        try:
            return await _request(http, form, recording, "verbose_json")
        except BadStatus as error:
            fault = _fault(error)
            told = isinstance(fault, OutOfMemory) or fault.problem not in (None, REFUSED)
            if told or error.status not in REFUSES_FORM:
                raise fault from error
    try:
        return await _request(http, form, recording, "json")
    except BadStatus as error:
        raise _fault(error) from error


def _fault(error: BadStatus) -> BackendError:
    """Return the error of a response. Some servers report a bad image, or "Invalid request"."""
    fault = classify_answer(error)
    if fault.problem == NO_IMAGES or error.body.strip() == UNTOLD:
        return Rejected(str(fault), problem=BAD_SOUND)
    return fault


async def _request(
    http: Http, form: AudioForm, recording: Recording, answer: str
) -> SpeechTranscript:
    path, fields = call_of(form, recording.request)
    if form.tokens and recording.max_tokens is not None:
        fields[form.tokens] = str(recording.max_tokens)
    return heard(
        await http.post_multipart(
            path,
            field="file",
            file=recording.sound,
            fields={"model": recording.model_id, "response_format": answer, **fields},
            timeout_s=silence_s(recording.timeouts),
        )
    )


def call_of(form: AudioForm, request: SpeechToText) -> tuple[str, dict[str, str]]:
    """Return a request's path, and its form fields except the model and response format. Pure.

    Raises `Rejected` for unsupported options.
    """
    fields, path = dict(form.always), form.transcriptions
    if path is None:
        raise Rejected("the server cannot transcribe", problem=NO_HEARING)
    if request.translate and form.translate is not None:
        fields[form.translate] = "true"
    elif request.translate and form.translations is None:
        raise Rejected("the server cannot translate", problem=NO_TRANSLATION)
    elif request.translate and form.translations is not None:
        path = form.translations
    if path == form.transcriptions and (language := request.language or form.any_language):
        fields["language"] = language
    if request.prompt:
        fields["prompt"] = form.words.format(request.prompt)
    if request.temperature is not None:
        fields["temperature"] = f"{request.temperature:g}"
    return path, fields
