"""`POST /v1/images/edits`: takes a picture and a prompt, as a form or as JSON; returns pictures."""

from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from pydantic import ValidationError

from bot.gateway.bodies import json_body
from bot.gateway.callers import Caller
from bot.gateway.errors import ApiError, invalid
from bot.gateway.image_answers import ImageAnswers
from bot.gateway.jobs.pictures import JobPictures
from bot.gateway.multipart import form_of, is_form
from bot.gateway.openai.images import ImageEdit, ImageEditInJson
from bot.gateway.openai.records import read, wrong
from bot.gateway.pictures import CallPictures, RequestPictures, require_number
from bot.gateway.submitting import Submitting
from bot.requests.drawing import Drawing
from queueing.core.requests import Capability, File

NO_MASK = "mask: no model here takes a mask."
NO_VARIATIONS = ApiError(
    status=HTTPStatus.NOT_FOUND,
    message="Variations are not available here. To vary a picture, send it to /v1/images/edits.",
)


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
            asked, picture = await _in_form(request, taken)
        else:
            asked, picture = await self._in_json(request, taken)
        drawing = Drawing(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
            files=(picture,),
        )
        job = await self.submitting.draw(request, caller, drawing)
        return await self.answers.send(request, job, asked)

    async def _in_json(self, request: web.Request, taken: CallPictures) -> tuple[ImageEdit, File]:
        asked = read(ImageEditInJson, await json_body(request))
        if asked.mask is not None:
            raise invalid(NO_MASK, "mask")
        require_number(len(asked.images), "images")
        self.submitting.require(request, asked.model, Capability.IMAGE_TO_IMAGE)
        text, field = asked.images[0].named
        return asked, await self.job_pictures.find(taken, text, f"images.0.{field}")


async def no_variations(_request: web.Request, _caller: Caller) -> web.StreamResponse:
    """Refuse `POST /v1/images/variations`, and name what there is instead."""
    raise NO_VARIATIONS


async def _in_form(request: web.Request, taken: CallPictures) -> tuple[ImageEdit, File]:
    form = await form_of(request, files={"image", "images", "mask"})
    try:
        asked = ImageEdit.model_validate({k: v for k, v in form.fields.items() if v})
    except ValidationError as error:
        raise wrong(error) from None
    if form.named("mask"):
        raise invalid(NO_MASK, "mask")
    if not form.files:
        raise invalid("image: this field is required.", "image")
    require_number(len(form.files), "image")
    first = form.files[0]
    return asked, await taken.sent(first.data, first.param)
