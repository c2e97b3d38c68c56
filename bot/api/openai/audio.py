"""Requests for speech and transcripts, and their results in OpenAI's formats. Pure."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from backends.media.sounds import FORMS
from bot.api.calls import sse
from bot.api.calls.errors import no_sound, other_sound
from bot.api.openai.records import NAME_LIMIT, WORDS, ClientRecord
from bot.api.runs.views import WholeStream
from bot.requests.creation import PROMPT_LIMIT
from queueing.core.requests import Output, SpeechFormat, SpeechToText, TextToSpeech

TranscriptForm = Literal["json", "text", "srt", "verbose_json", "vtt"]
_TIMED = frozenset({"srt", "verbose_json", "vtt"})
NO_TIMES = "The model reported no times for the words. Request the format json or text."
_SEGMENT: Mapping[str, Any] = {
    "seek": 0,
    "tokens": [],
    "temperature": 0.0,
    "avg_logprob": 0.0,
    "compression_ratio": 0.0,
    "no_speech_prob": 0.0,
}
"""Defaults for segment fields that clients expect but servers may omit."""


class Translation(ClientRecord):
    """A recording to translate into English text."""

    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    prompt: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    response_format: TranscriptForm = "json"
    temperature: float | None = Field(default=None, ge=0, le=1)
    stream: bool = False

    @field_validator("response_format", mode="before")
    @classmethod
    def _known(cls, form: object) -> object:
        return form or "json"

    @property
    def wanted(self) -> SpeechToText:
        """The request to queue."""
        return SpeechToText(
            prompt=self.prompt or None,
            temperature=self.temperature,
            translate=True,
            timestamps=self.response_format in _TIMED,
        )


class Transcription(Translation):
    """A recording to transcribe."""

    language: str | None = Field(default=None, max_length=20, pattern=r"^[A-Za-z-]*$")

    @property
    def wanted(self) -> SpeechToText:
        """The request to queue."""
        language = (self.language or "").casefold()
        spoken = language if language not in {"", "auto"} else None
        return super().wanted.model_copy(update={"translate": False, "language": spoken})


def rendered(output: Output, form: TranscriptForm) -> dict[str, Any] | str:
    """Return a transcript in the given format: an object for JSON, otherwise a string.

    Raises `ValueError` if the format needs times and the model reported none.
    """
    if form == "json":
        return {"text": output.text}
    if form == "text":
        return output.text + "\n"
    told = json.loads(output.answer) if output.answer else {}
    segments = _segments(told)
    if form == "verbose_json":
        return {
            "task": told.get("task") or "transcribe",
            "language": told.get("language") or "",
            "duration": _number(told.get("duration")),
            "text": output.text,
            "segments": segments,
            **({"words": told["words"]} if told.get("words") else {}),
        }
    if not segments and output.text:
        raise ValueError(NO_TIMES)
    return _subtitles(segments, vtt=form == "vtt")


class TranscriptStream(WholeStream):
    """Streams a transcript: comments until it is ready, then its text in one event.

    Servers stream transcripts in different ways, so their streams are not forwarded.
    """

    def closing(self, output: Output) -> bytes:
        """Return the text and the final event."""
        delta = sse.data({"type": "transcript.text.delta", "delta": output.text})
        return delta + sse.data({"type": "transcript.text.done", "text": output.text})


def _segments(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the timed segments in OpenAI's format, with defaults for fields the server omitted."""
    given = told.get("segments") or []
    return [
        {
            "id": number,
            **_SEGMENT,
            **{name: value for name, value in each.items() if value is not None},
            "start": _number(each.get("start")),
            "end": _number(each.get("end")),
            "text": str(each.get("text") or ""),
        }
        for number, each in enumerate(given)
    ]


def _number(value: object) -> float:
    """Parse a number that a server may send as a string, as vLLM does."""
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def _subtitles(segments: Sequence[Mapping[str, Any]], *, vtt: bool) -> str:
    mark = "." if vtt else ","
    cues = []
    for number, each in enumerate(segments, start=1):
        head = "" if vtt else f"{number}\n"
        times = f"{_time(each['start'], mark)} --> {_time(each['end'], mark)}"
        cues.append(f"{head}{times}\n{each['text'].strip()}\n")
    return "\n".join([*(["WEBVTT\n"] if vtt else []), *cues])


def _time(seconds: float, mark: str) -> str:
    thousandths = round(seconds * 1000)
    hours, rest = divmod(thousandths, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{mark}{rest % 1000:03}"


TEXT_LIMIT = 4096  # characters, OpenAI's limit
_PIECE = 48 * 1024  # bytes of audio in one event
NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


class SpeechCall(ClientRecord):
    """A text to read aloud. Without `voice`, the model's default is used.

    The default format is MP3.
    """

    input: str = Field(min_length=1, max_length=TEXT_LIMIT, pattern=WORDS)
    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    voice: str | None = Field(default=None, max_length=NAME_LIMIT)
    instructions: str | None = Field(default=None, max_length=TEXT_LIMIT)
    response_format: SpeechFormat | None = None
    speed: float | None = Field(default=None, ge=0.25, le=4)
    stream_format: Literal["audio", "sse"] | None = None

    @field_validator("voice", mode="before")
    @classmethod
    def _by_id(cls, voice: object) -> object:
        return voice.get("id") if isinstance(voice, dict) else voice or None

    @field_validator("response_format", mode="before")
    @classmethod
    def _usual(cls, form: object) -> object:
        return form or None

    @property
    def form(self) -> SpeechFormat:
        """The audio format."""
        return self.response_format or "mp3"

    @property
    def wanted(self) -> TextToSpeech:
        """The request to queue."""
        return TextToSpeech(
            text=self.input,
            voice=self.voice,
            speed=self.speed,
            instructions=self.instructions or None,
            format=self.form,
        )


class SoundStream(WholeStream):
    """Streams audio: comments until it is ready, then its bytes in pieces."""

    def __init__(self, form: SpeechFormat) -> None:
        self._mime = FORMS[form]

    def closing(self, output: Output) -> bytes:
        """Return the audio in pieces and the final event, or an error if its format is wrong."""
        if not output.files:
            return self.failing(no_sound())
        file = output.files[0]
        if file.mime != self._mime:
            return self.failing(other_sound(file.mime, self._mime))
        data = file.data
        pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
        deltas = [
            sse.data({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            for piece in pieces
        ]
        return b"".join(deltas) + sse.data({"type": "speech.audio.done", "usage": {**NO_USAGE}})
