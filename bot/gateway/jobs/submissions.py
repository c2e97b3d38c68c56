"""Reads requests for jobs: as JSON, or as a form that brings its pictures along."""

from typing import Any

from aiohttp import web
from pydantic import ValidationError

from bot.gateway.bodies import json_body
from bot.gateway.errors import invalid
from bot.gateway.jobs.records import JOB_REQUESTS, ChatJob, PictureJob
from bot.gateway.multipart import ClientForm, form_of, is_form
from bot.gateway.openai.records import wrong
from bot.gateway.pictures import CallPictures
from queueing.core.requests import File

FIELDS = ("pictures", "picture", "image", "file")
"""The fields of a form that hold pictures."""
REQUEST = "request"
REQUEST_LIMIT = 4 * 1024 * 1024  # bytes of a field


async def submission(
    request: web.Request, taken: CallPictures
) -> tuple[ChatJob | PictureJob, tuple[File, ...]]:
    """Return a request for a job, with the pictures sent in its form. Raises `ApiError`.

    A form has the request as JSON in its field `request`, or each field of a picture job by itself.
    """
    try:
        if not is_form(request):
            return JOB_REQUESTS.validate_json(await json_body(request), strict=True), ()
        form = await form_of(request, files=FIELDS, field_limit=REQUEST_LIMIT)
        asked = _asked(form)
    except ValidationError as error:
        raise wrong(error) from None
    if form.files and isinstance(asked, ChatJob):
        text = "a form can send files with a prompt only; in messages, use data URLs or /v1/files"
        raise invalid(f"{form.files[0].param}: {text}.", form.files[0].param)
    return asked, tuple([await taken.sent(each.data, each.param) for each in form.files])


def _asked(form: ClientForm) -> ChatJob | PictureJob:
    fields: dict[str, Any] = {name: text for name, text in form.fields.items() if text}
    whole = fields.pop(REQUEST, None)
    if whole is None:
        return PictureJob.model_validate(fields)
    if fields:
        name = next(iter(fields))
        raise invalid(f"{name}: belongs in the field “{REQUEST}”.", name)
    return JOB_REQUESTS.validate_json(whole, strict=True)
