"""Requests for speech, and sounds as a stream in OpenAI's format. Pure."""

import base64
from typing import Literal

from pydantic import Field, field_validator

from backends.media.sounds import FORMS
from bot.api.calls import sse
from bot.api.calls.errors import ApiError
from bot.api.calls.outcomes import no_sound, other_sound
from bot.api.openai.records import NAME_LIMIT, WORDS, ClientRecord
from bot.api.runs.runs import Run
from bot.api.runs.waiting import place_of
from queueing.core.requests import Output, SpeechFormat, TextToSpeech

TEXT_LIMIT = 4096  # characters, as OpenAI's
_PIECE = 48 * 1024  # bytes of a sound in one event
NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


class SpeechCall(ClientRecord):
    """A text to read aloud. Without `voice`, the model's own speaks; the usual form is MP3."""

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
        """The form of the sound."""
        return self.response_format or "mp3"

    @property
    def wanted(self) -> TextToSpeech:
        """The job's request."""
        return TextToSpeech(
            text=self.input,
            voice=self.voice,
            speed=self.speed,
            instructions=self.instructions or None,
            format=self.form,
        )


class SoundStream:
    """Streams a sound: comments until it is there, then its bytes in pieces.

    Implements `bot.api.runs.writers.Writer`.
    """

    def __init__(self, form: SpeechFormat) -> None:
        self._mime = FORMS[form]

    @property
    def begun(self) -> bool:
        """False: nothing of the sound is sent before it is whole."""
        return False

    def news(self, _run: Run) -> bytes:
        """Return nothing: servers send a sound whole."""
        return b""

    def place(self, run: Run) -> bytes:
        """Return a comment with the place in line."""
        return sse.comment(place_of(run))

    def keeping(self) -> bytes:
        """Return a comment, because these streams have no empty event."""
        return sse.PING

    def closing(self, output: Output) -> bytes:
        """Return the sound in pieces, and the end; an error if the server sent another form."""
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

    def failing(self, error: ApiError) -> bytes:
        """Return the error in place of the sound."""
        return sse.data(error.body)
