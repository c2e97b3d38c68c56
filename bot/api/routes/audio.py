"""`POST /v1/audio/transcriptions` and `/translations`: take a recording, return what is said in it."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from bot.api.calls.callers import Caller, Route
from bot.api.calls.errors import ApiError, invalid
from bot.api.calls.forms import form_of
from bot.api.calls.recordings import require_recording_weight
from bot.api.calls.request_files import RequestPictures
from bot.api.openai.audio import (
    TranscriptForm,
    Transcription,
    TranscriptStream,
    Translation,
    rendered,
)
from bot.api.openai.records import wrong
from bot.api.routes.file_answers import FileAnswers, MakeFile
from bot.api.runs.answers import Answering
from bot.api.runs.submitter import Submitting
from queueing.core.requests import Capability, File, Output

T = TypeVar("T", bound=Translation)
FIELD = "file"


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptionRoutes:
    """Serves transcripts."""

    submitting: Submitting
    answering: Answering
    files: FileAnswers
    pictures: RequestPictures

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by their methods and paths."""
        return {
            "POST /v1/audio/transcriptions": self.transcribe,
            "POST /v1/audio/translations": self.translate,
        }

    async def transcribe(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Write down what is said in a recording. Raises `ApiError`."""
        return await self._written(request, caller, Transcription)

    async def translate(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Write down in English what is said in a recording. Raises `ApiError`."""
        return await self._written(request, caller, Translation)

    async def _written(
        self, request: web.Request, caller: Caller, kind: type[Translation]
    ) -> web.StreamResponse:
        taken = self.pictures.of(caller)
        asked, sound = await _in_form(request, kind)
        await self.submitting.require(request, caller, asked.model, Capability.SPEECH_TO_TEXT)
        model = asked.model or self.submitting.usual_model(caller, Capability.SPEECH_TO_TEXT)
        recording = await taken.recorded(sound, FIELD)
        job = await self.submitting.submit(request, caller, model, asked.wanted, (recording,))
        form = asked.response_format
        if asked.stream:
            return await self.answering.stream(request, job, TranscriptStream())
        if form in {"json", "verbose_json"}:
            return await self.answering.whole(request, job, lambda output: rendered(output, form))
        return await self.files.send(request, job, "text/plain; charset=utf-8", as_text(form))


def as_text(form: TranscriptForm) -> MakeFile:
    """Return what makes a transcript a text in a form."""

    async def make(output: Output) -> File:
        try:
            text = str(rendered(output, form))
        except ValueError as error:
            raise ApiError(
                status=HTTPStatus.UNPROCESSABLE_ENTITY, message=str(error), repeat=False
            ) from None
        return File(name=f"transcript.{form}", mime="text/plain; charset=utf-8", data=text.encode())

    return make


async def _in_form(request: web.Request, kind: type[T]) -> tuple[T, bytes]:
    form = await form_of(request, files={FIELD}, weigh=require_recording_weight)
    try:
        asked = kind.model_validate({k: v for k, v in form.fields.items() if v})
    except ValidationError as error:
        raise wrong(error, kind) from None
    if len(form.files) != 1:
        raise invalid(f"{FIELD}: send exactly one recording.", FIELD)
    return asked, form.files[0].data
