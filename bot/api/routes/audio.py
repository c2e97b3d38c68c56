"""`POST /v1/audio/speech`, `/transcriptions` and `/translations`: results as plain files.

White space would become part of a file. So a call that takes long gets its headers, and then
nothing until the file is ready. If it fails after the headers, the connection is broken, because a
truncated file would look complete.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from backends.common.file_types import is_sound, mime_of
from backends.media import sounds
from bot.api.calls.bodies import body_of
from bot.api.calls.callers import Caller, Route
from bot.api.calls.errors import ApiError, invalid, no_sound, other_sound
from bot.api.calls.forms import form_of
from bot.api.calls.request_files import RequestImages, require_recording_weight
from bot.api.openai.audio import (
    SoundStream,
    SpeechCall,
    TranscriptForm,
    Transcription,
    TranscriptStream,
    Translation,
    rendered,
)
from bot.api.openai.records import read, wrong
from bot.api.runs.answers import AnswerSender, headers_of, unfinished
from bot.api.runs.runs import Run
from bot.api.runs.submitter import Submitter
from queueing.core.jobs import Job
from queueing.core.requests import Capability, File, Output, SpeechFormat

MakeFile = Callable[[Output], Awaitable[File]]
"""Builds the response's file from a job's output. Raises `ApiError`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileAnswers:
    """Sends results as files."""

    answering: AnswerSender

    async def send(
        self, request: web.Request, job: Job, mime: str, make: MakeFile
    ) -> web.StreamResponse:
        """Send a file of this media type once it is ready.

        Raises `ApiError` before the headers are sent.
        """

        async def in_time(run: Run) -> web.Response:
            file = await make(await self.answering.output_of(run))
            headers = {"Content-Type": file.mime, **headers_of(run.job)}
            return web.Response(body=body_of(file.data), headers=headers)

        async def late(run: Run, news: asyncio.Event, ends: float) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": mime, **headers_of(run.job)})
            await response.prepare(request)
            try:
                if not await self.answering.until_final(run, news, ends):
                    raise unfinished(run)
                file = await make(await self.answering.output_of(run))
                await self.answering.attendance.answer(request)
            except ApiError:
                self.answering.attendance.cut(request)
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write(file.data)
            await response.write_eof()
            return response

        return await self.answering.complete(request, job, in_time, late)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechRoute:
    """Serves speech."""

    submitting: Submitter
    answering: AnswerSender
    files: FileAnswers

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = await read(SpeechCall, request)
        model = asked.model or self.submitting.usual_model(caller, Capability.TEXT_TO_SPEECH)
        job = await self.submitting.submit(request, caller, model, asked.wanted)
        if asked.stream_format == "sse":
            return await self.answering.stream(request, job, SoundStream(asked.form))
        make = in_form(asked.form, usual=asked.response_format is None)
        return await self.files.send(request, job, sounds.FORMS[asked.form], make)


def in_form(form: SpeechFormat, *, usual: bool = False) -> MakeFile:
    """Return a function that converts a job's audio to a format, whatever its server produced.

    `usual` means that the caller named no format. Audio that cannot be converted is then sent as it
    is, because most programs play several formats.
    """

    async def make(output: Output) -> File:
        if not output.files:
            raise no_sound()
        file, mime = output.files[0], sounds.FORMS[form]
        known = mime_of(file.data)
        if mime in {file.mime, known}:
            return File(name=file.name, mime=mime, data=file.data)
        try:
            return await sounds.as_form(file, form)
        except sounds.SoundError:
            if usual and is_sound(known):
                return File(name=file.name, mime=known, data=file.data)
            raise other_sound(file.mime, mime) from None

    return make


T = TypeVar("T", bound=Translation)
FIELD = "file"


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptionRoutes:
    """Serves transcripts."""

    submitting: Submitter
    answering: AnswerSender
    files: FileAnswers
    images: RequestImages

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by method and path."""
        return {
            "POST /v1/audio/transcriptions": self.transcribe,
            "POST /v1/audio/translations": self.translate,
        }

    async def transcribe(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Transcribe a recording. Raises `ApiError`."""
        return await self._written(request, caller, Transcription)

    async def translate(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Transcribe a recording in English. Raises `ApiError`."""
        return await self._written(request, caller, Translation)

    async def _written(
        self, request: web.Request, caller: Caller, kind: type[Translation]
    ) -> web.StreamResponse:
        taken = self.images.of(caller)
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
    """Return a function that writes a transcript in a text format."""

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
