"""Reads requests for jobs: as JSON, or as a form that brings its files along."""

from typing import Any

from aiohttp import web
from pydantic import ValidationError

from bot.api.calls.bodies import BODY_LIMIT, json_body, too_many_values
from bot.api.calls.errors import invalid
from bot.api.calls.forms import ClientForm, FormFile, form_of, is_form
from bot.api.calls.recordings import require_recording_weight
from bot.api.jobs.media_records import MusicJob, SpeechJob
from bot.api.jobs.records import JOB_REQUESTS, AnyJobRequest, ChatJob, JobRequest, PictureJob
from bot.api.openai.records import wrong
from queueing.core.bounded_json import TooManyValues, require_few_values

FIELDS = ("pictures", "picture", "image", "file", "mask", "recording")
"""The fields of a form that hold files."""
REQUEST = "request"
REQUEST_LIMIT = 4 * 1024 * 1024  # bytes of a field

FormFiles = tuple[FormFile, ...]


async def submission(request: web.Request) -> tuple[AnyJobRequest, FormFiles]:
    """Return a request for a job, and the files sent in its form, unchecked. Raises `ApiError`.

    A form has the request as JSON in its field `request`, or each field by itself.
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
        text = "a form can send files with a prompt only; in messages, use data URLs or /v1/files"
        raise invalid(f"{form.files[0].param}: {text}.", form.files[0].param)
    if form.files and isinstance(asked, MusicJob | SpeechJob):
        param = form.files[0].param
        raise invalid(f"{param}: {asked.kind} is made from words alone.", param)
    if not isinstance(asked, PictureJob) and (masks := form.named("mask")):
        raise invalid(f"{masks[0].param}: only pictures have one.", masks[0].param)
    return asked, form.files


def _asked(form: ClientForm) -> AnyJobRequest:
    fields: dict[str, Any] = {name: text for name, text in form.fields.items() if text}
    whole = fields.pop(REQUEST, None)
    if whole is None:
        return JOB_REQUESTS.validate_python(fields)
    if fields:
        name = next(iter(fields))
        raise invalid(f"{name}: belongs in the field “{REQUEST}”.", name)
    text = whole.encode()
    try:
        require_few_values(text)
    except TooManyValues as error:
        raise too_many_values(error) from None
    return _parsed(text)


def _parsed(text: bytes) -> AnyJobRequest:
    return JOB_REQUESTS.validate_json(text, strict=True)
