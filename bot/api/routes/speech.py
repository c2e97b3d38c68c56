"""`POST /v1/audio/speech`: takes a text, returns it read aloud."""

from dataclasses import dataclass

from aiohttp import web

from backends.common.file_types import is_sound, mime_of
from backends.media import sounds
from bot.api.calls.callers import Caller
from bot.api.calls.outcomes import no_sound, other_sound
from bot.api.openai.records import read
from bot.api.openai.speech import SoundStream, SpeechCall
from bot.api.routes.file_answers import FileAnswers, MakeFile
from bot.api.runs.answers import Answering
from bot.api.runs.submitter import Submitting
from queueing.core.requests import Capability, File, Output, SpeechFormat


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechRoute:
    """Serves speech."""

    submitting: Submitting
    answering: Answering
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
    """Return what makes the sound of a job in a form, whatever its server sent.

    If that is only the `usual` form, which nobody asked for, a sound that cannot be converted is
    sent as it is: every program plays more than one kind.
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
