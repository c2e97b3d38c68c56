"""`POST /v1/audio/speech`: takes a text, returns it read aloud."""

from dataclasses import dataclass

from aiohttp import web

from backends.media import sounds
from backends.media.metadata.kinds import mime_of
from bot.gateway.answering import Answering
from bot.gateway.callers import Caller
from bot.gateway.file_answers import FileAnswers, MakeFile
from bot.gateway.openai.records import read
from bot.gateway.openai.speech import SoundStream, SpeechCall
from bot.gateway.outcomes import no_sound
from bot.gateway.submitting import Submitting
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
            return await self.answering.stream(request, job, SoundStream(asked.response_format))
        form = asked.response_format
        return await self.files.send(request, job, sounds.FORMS[form], in_form(form))


def in_form(form: SpeechFormat) -> MakeFile:
    """Return what makes the sound of a job in a form, whatever its server sent."""

    async def make(output: Output) -> File:
        if not output.files:
            raise no_sound()
        file = output.files[0]
        if sounds.FORMS[form] in {file.mime, mime_of(file.data)}:
            return File(name=file.name, mime=sounds.FORMS[form], data=file.data)
        try:
            return await sounds.as_form(file, form)
        except sounds.SoundError:
            raise no_sound(
                f"The server sent {file.mime} instead of {sounds.FORMS[form]}."
            ) from None

    return make
