"""`POST /v1/images/edits`: takes pictures and a prompt, as a form or as JSON; returns pictures.

Several pictures, or one with a mask, need a model that edits. One alone is changed or started from,
whichever the model does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from pydantic import ValidationError

from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, invalid
from bot.api.calls.forms import form_of, is_form
from bot.api.calls.pictures import JobPictures
from bot.api.calls.request_files import CallPictures, RequestPictures, require_number
from bot.api.openai.images import EDITS, ImageEdit, ImageEditInJson, ImageReference
from bot.api.openai.records import read, wrong
from bot.api.routes.image_answers import ImageAnswers
from bot.api.runs.submitter import Submitting
from bot.requests.creation import Drawing
from queueing.core.requests import Capability, File

Edit = tuple[ImageEdit, tuple[File, ...], tuple[File, ...]]
"""What is asked for, its pictures, and a mask if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEditRoute:
    """Serves image edits."""

    submitting: Submitting
    answers: ImageAnswers
    pictures: RequestPictures
    job_pictures: JobPictures

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.pictures.of(caller)
        if is_form(request):
            asked, pictures, mask = await _in_form(request, taken)
        else:
            asked, pictures, mask = await self._in_json(request, taken)
        mask = tuple([await taken.masked(pictures[0], each, "mask") for each in mask])
        drawing = Drawing(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
            files=(*pictures, *mask),
            edit=True if mask else None,
            mask=bool(mask),
        )
        job = await self.submitting.draw(request, caller, drawing)
        return await self.answers.send(request, job, asked)

    async def _in_json(self, request: web.Request, taken: CallPictures) -> Edit:
        asked = await read(ImageEditInJson, request)
        require_number(len(asked.images), "images")
        await self.submitting.require(
            request, taken.caller, asked.model, *_needs(len(asked.images), asked.mask)
        )
        pictures = [
            await self._found(taken, each, f"images.{number}")
            for number, each in enumerate(asked.images)
        ]
        mask = [] if asked.mask is None else [await self._found(taken, asked.mask, "mask")]
        return asked, tuple(pictures), tuple(mask)

    async def _found(self, taken: CallPictures, picture: ImageReference, param: str) -> File:
        text, field = picture.named
        return await self.job_pictures.find(taken, text, f"{param}.{field}")


async def no_variations(_request: web.Request, _caller: Caller) -> web.StreamResponse:
    """Refuse `POST /v1/images/variations`, and name what there is instead."""
    raise _no_variations()


def _needs(pictures: int, mask: object) -> Sequence[Capability]:
    """Return what a model must be able to do, in one of these ways."""
    return EDITS if pictures == 1 and mask is None else [Capability.IMAGE_EDIT]


async def _in_form(request: web.Request, taken: CallPictures) -> Edit:
    form = await form_of(request, files={"image", "images", "mask"})
    try:
        asked = ImageEdit.model_validate({k: v for k, v in form.fields.items() if v})
    except ValidationError as error:
        raise wrong(error, ImageEdit) from None
    masks = form.named("mask")
    images = [each for each in form.files if each.name != "mask"]
    if not images:
        raise invalid("image: this field is required.", "image")
    require_number(len(images), "image")
    if len(masks) > 1:
        raise invalid("mask: was sent twice.", "mask")
    pictures = [await taken.sent(each.data, each.param) for each in images]
    mask = [await taken.sent(each.data, each.param) for each in masks]
    return asked, tuple(pictures), tuple(mask)


def _no_variations() -> ApiError:
    return ApiError(
        status=HTTPStatus.NOT_FOUND,
        message="Variations are not available here. To vary a picture, send it to /v1/images/edits.",
    )
