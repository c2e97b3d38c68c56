"""`POST /v1/jobs`: parses a JSON or form request, loads its files, and submits the job."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from bot.api.calls.bodies import BODY_LIMIT, json_body, too_many_values
from bot.api.calls.callers import Caller
from bot.api.calls.errors import invalid
from bot.api.calls.forms import ClientForm, FormFile, form_of, is_form
from bot.api.calls.request_files import (
    CallImages,
    RequestFiles,
    RequestImages,
    require_number,
    require_recording_weight,
)
from bot.api.jobs.records import (
    FIRST_AND_LAST,
    JOB_REQUESTS,
    AnyJobRequest,
    ChatJob,
    ImageJob,
    JobRequest,
    MusicJob,
    SpeechJob,
    TranscriptionJob,
    VideoJob,
)
from bot.api.jobs.webhook_calls import HookSettings
from bot.api.jobs.webhooks import allowed
from bot.api.openai.chat import passed_on_chat
from bot.api.openai.images import EDITS
from bot.api.openai.records import wrong
from bot.api.runs.submitter import FindFile, Submitter
from bot.core.origin import Webhook
from bot.requests.creation import Creation
from queueing.core.bounded_json import TooManyValues, require_few_values
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, File, SpeechToText, TextToSpeech

FIELDS = ("images", "image", "file", "mask", "recording")
"""The form fields that contain files."""
REQUEST = "request"
REQUEST_LIMIT = 4 * 1024 * 1024  # bytes per field

FormFiles = tuple[FormFile, ...]


async def submission(request: web.Request) -> tuple[AnyJobRequest, FormFiles]:
    """Parse a request for a job. Returns it with the form's files, which are not checked yet.

    A form contains the request as JSON in its field `request`, or each of its fields separately.
    Raises `ApiError`.
    """
    try:
        if not is_form(request):
            return await json_body(request, _parsed, limit=BODY_LIMIT), ()
        form = await form_of(
            request, files=FIELDS, field_limit=REQUEST_LIMIT, weigh=require_recording_weight
        )
        asked = _asked(form)
    except ValidationError as error:
        raise wrong(error, JobRequest) from None
    if form.files and isinstance(asked, ChatJob):
        text = "not for chat jobs; in messages, use data URLs or files sent to /v1/files"
        raise invalid(f"{form.files[0].param}: {text}.", form.files[0].param)
    if form.files and isinstance(asked, MusicJob | SpeechJob):
        param = form.files[0].param
        raise invalid(f"{param}: a {asked.kind} job takes no files.", param)
    if not isinstance(asked, ImageJob) and (masks := form.named("mask")):
        raise invalid(f"{masks[0].param}: only image jobs take a mask.", masks[0].param)
    return asked, form.files


def _asked(form: ClientForm) -> AnyJobRequest:
    fields: dict[str, Any] = {name: text for name, text in form.fields.items() if text}
    whole = fields.pop(REQUEST, None)
    if whole is None:
        return JOB_REQUESTS.validate_python(fields)
    if fields:
        name = next(iter(fields))
        raise invalid(
            f"{name}: must be part of the field “{REQUEST}”, which is also present.", name
        )
    text = whole.encode()
    try:
        require_few_values(text)
    except TooManyValues as error:
        raise too_many_values(error) from None
    return _parsed(text)


def _parsed(text: bytes) -> AnyJobRequest:
    return JOB_REQUESTS.validate_json(text, strict=True)


ASKS_WITH_IMAGES = [Capability.VISION]
VIDEOS_FROM = [Capability.IMAGE_TO_VIDEO]
LISTENS = Capability.SPEECH_TO_TEXT


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJobs:
    """Submits jobs from requests to `POST /v1/jobs`."""

    submitting: Submitter
    images: RequestImages
    job_images: RequestFiles
    hooks: HookSettings = field(default_factory=HookSettings)

    async def accept(self, request: web.Request, caller: Caller) -> Job:
        """Submit the job that a request describes. Raises `ApiError`."""
        taken = self.images.of(caller)
        asked, sent = await submission(request)
        hook = self._hook(asked.webhook, caller)
        match asked:
            case ImageJob():
                drawing = await self._drawing(request, taken, asked, sent)
            case VideoJob():
                drawing = await self._video(request, taken, asked, sent)
            case MusicJob():
                drawing = asked.drawing()
            case _:
                model, wanted, files = await self._wanted(request, taken, asked, sent)
                submit = self.submitting.submit
                return await submit(
                    request, caller, model, wanted, files, hook=hook, when=asked.when
                )
        return await self.submitting.draw(request, caller, drawing, hook=hook, when=asked.when)

    async def _wanted(
        self,
        request: web.Request,
        taken: CallImages,
        asked: ChatJob | SpeechJob | TranscriptionJob,
        sent: FormFiles,
    ) -> tuple[str, Chat | TextToSpeech | SpeechToText, tuple[File, ...]]:
        match asked:
            case ChatJob():
                find = self._finding(request, taken, asked.model, ASKS_WITH_IMAGES)
                return asked.model, *(await passed_on_chat(asked, find))
            case SpeechJob():
                usual = partial(self.submitting.usual_model, taken.caller)
                return asked.model or usual(Capability.TEXT_TO_SPEECH), asked.wanted, ()
            case TranscriptionJob():
                await self.submitting.require(request, taken.caller, asked.model, LISTENS)
                model = asked.model or self.submitting.usual_model(taken.caller, LISTENS)
                return model, asked.wanted, (await self._recording(taken, asked, sent),)

    async def _drawing(
        self, request: web.Request, taken: CallImages, asked: ImageJob, sent: FormFiles
    ) -> Creation:
        masks = [each for each in sent if each.name == "mask"]
        shown = [each for each in sent if each.name != "mask"]
        named = [(text, f"images.{n}") for n, text in enumerate(asked.images)]
        named += [(asked.file_id, "file_id")] if asked.file_id is not None else []
        require_number(len(named) + len(shown), "images")
        if len(masks) + (asked.mask is not None) > 1:
            raise invalid("mask: must be sent only once.", "mask")
        several = len(named) + len(shown) > 1 or masks or asked.mask is not None or asked.edit
        needs = [Capability.IMAGE_EDIT] if several else EDITS
        find = self._finding(request, taken, asked.model, needs)
        files = [await find(text, param) for text, param in named]
        files += [await taken.sent(each.data, each.param) for each in shown]
        mask = [await taken.sent(each.data, each.param) for each in masks]
        mask += [await find(asked.mask, "mask")] if asked.mask is not None else []
        if mask and not files:
            raise invalid("mask: requires an image.", "mask")
        mask = [await taken.masked(files[0], each, "mask") for each in mask]
        if asked.edit and not files:
            raise invalid("edit: requires an image to change.", "edit")
        drawing = asked.drawing((*files, *mask))
        return replace(drawing, edit=True, mask=True) if mask else drawing

    async def _video(
        self, request: web.Request, taken: CallImages, asked: VideoJob, sent: FormFiles
    ) -> Creation:
        if len(asked.images) + len(sent) > FIRST_AND_LAST:
            raise invalid(
                "images: a video job takes at most two, the first and the last frame.", "images"
            )
        find = self._finding(request, taken, asked.model, VIDEOS_FROM)
        files = [await find(text, f"images.{n}") for n, text in enumerate(asked.images)]
        files += [await taken.sent(each.data, each.param) for each in sent]
        return asked.drawing(tuple(files))

    async def _recording(self, taken: CallImages, asked: TranscriptionJob, sent: FormFiles) -> File:
        if (asked.file is not None) + len(sent) != 1:
            raise invalid("file: send exactly one recording.", "file")
        if asked.file is not None:
            return await self.job_images.hear(taken, asked.file, "file")
        return await taken.recorded(sent[0].data, sent[0].param)

    def _finding(
        self,
        request: web.Request,
        taken: CallImages,
        model: str | None,
        needs: Sequence[Capability],
    ) -> FindFile:
        find = partial(self.job_images.find, taken)
        return self.submitting.finding(request, taken.caller, model, needs, find)

    def _hook(self, address: str | None, caller: Caller) -> Webhook | None:
        if address is None:
            return None
        return Webhook(url=allowed(address, self.hooks.origins), key=caller.key_number)
