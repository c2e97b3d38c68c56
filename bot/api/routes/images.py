"""`POST /v1/images/generations` and `/edits`: generate images from a prompt and images.

Several images, or an image with a mask, require a model that edits. A single image is either edited
or used as a starting point, depending on the model.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from pydantic import ValidationError

from bot.api.calls.callers import Caller, leaves
from bot.api.calls.errors import ApiError, invalid
from bot.api.calls.forms import form_of, is_form
from bot.api.calls.request_files import CallImages, RequestFiles, RequestImages, require_number
from bot.api.openai.images import (
    EDITS,
    ImageEdit,
    ImageEditInJson,
    ImageFields,
    ImageGeneration,
    ImageReference,
    ImageStream,
    ImageWriter,
)
from bot.api.openai.records import read, wrong
from bot.api.runs.answers import AnswerSender
from bot.api.runs.submitter import Submitter
from bot.people.links import Links
from bot.requests.creation import Creation
from queueing.core.jobs import Job
from queueing.core.requests import Capability, File


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageAnswers:
    """Sends images. `url` is the API's public URL, if known.

    Otherwise, links begin with the URL that the caller used.
    """

    answering: AnswerSender
    links: Links
    url: str | None = None

    async def send(self, request: web.Request, job: Job, asked: ImageFields) -> web.StreamResponse:
        """Send a job's images in the form that the call requested. Raises `ApiError`."""
        created = int(time.time())
        if asked.stream:
            writer = ImageStream(
                created=created,
                size=asked.size or "auto",
                previews=asked.partial_images or 0,
                form=asked.output_format,
                kind="image_edit" if isinstance(asked, ImageEdit) else "image_generation",
            )
            return await self.answering.stream(request, job, writer)
        if asked.response_format != "url" or leaves(request):
            drawn = ImageWriter(created=created, form=asked.output_format)
            return await self.answering.whole(request, job, drawn.whole)
        async with self.answering.while_listening(request, job):
            url = await self._urls(request, job)
        images = ImageWriter(created=created, url=url)
        return await self.answering.whole(request, job, images.whole)

    async def _urls(self, request: web.Request, job: Job) -> Callable[[int], str]:
        base = (self.url or f"{request.scheme}://{request.host}").rstrip("/")
        path = await self.links.paths(job)
        return lambda number: f"{base}/v1/{path(number)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRoute:
    """Serves image generations."""

    submitting: Submitter
    answers: ImageAnswers

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = await read(ImageGeneration, request)
        drawing = Creation(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
        )
        job = await self.submitting.draw(request, caller, drawing)
        return await self.answers.send(request, job, asked)


Edit = tuple[ImageEdit, tuple[File, ...], tuple[File, ...]]
"""The request, its images, and at most one mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEditRoute:
    """Serves image edits."""

    submitting: Submitter
    answers: ImageAnswers
    images: RequestImages
    job_images: RequestFiles

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.images.of(caller)
        if is_form(request):
            asked, images, mask = await _in_form(request, taken)
        else:
            asked, images, mask = await self._in_json(request, taken)
        mask = tuple([await taken.masked(images[0], each, "mask") for each in mask])
        drawing = Creation(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
            files=(*images, *mask),
            edit=True if mask else None,
            mask=bool(mask),
        )
        job = await self.submitting.draw(request, caller, drawing)
        return await self.answers.send(request, job, asked)

    async def _in_json(self, request: web.Request, taken: CallImages) -> Edit:
        asked = await read(ImageEditInJson, request)
        require_number(len(asked.images), "images")
        await self.submitting.require(
            request, taken.caller, asked.model, *_needs(len(asked.images), asked.mask)
        )
        images = [
            await self._found(taken, each, f"images.{number}")
            for number, each in enumerate(asked.images)
        ]
        mask = [] if asked.mask is None else [await self._found(taken, asked.mask, "mask")]
        return asked, tuple(images), tuple(mask)

    async def _found(self, taken: CallImages, image: ImageReference, param: str) -> File:
        text, field = image.named
        return await self.job_images.find(taken, text, f"{param}.{field}")


async def no_variations(_request: web.Request, _caller: Caller) -> web.StreamResponse:
    """Reject `POST /v1/images/variations` and name the alternative."""
    raise _no_variations()


def _needs(images: int, mask: object) -> Sequence[Capability]:
    """Return the capabilities of which a model needs at least one."""
    return EDITS if images == 1 and mask is None else [Capability.IMAGE_EDIT]


async def _in_form(request: web.Request, taken: CallImages) -> Edit:
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
        raise invalid("mask: must be sent only once.", "mask")
    taken_images = [await taken.sent(each.data, each.param) for each in images]
    mask = [await taken.sent(each.data, each.param) for each in masks]
    return asked, tuple(taken_images), tuple(mask)


def _no_variations() -> ApiError:
    return ApiError(
        status=HTTPStatus.NOT_FOUND,
        message="Variations are not available here. To vary an image, send it to /v1/images/edits.",
    )
