"""Requests for images, and images in OpenAI's format. Pure."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from bot.api.calls import sse
from bot.api.calls.bodies import BODY_LIMIT
from bot.api.openai.records import NAME_LIMIT, ClientRecord, refused
from bot.api.runs.runs import Run
from bot.api.runs.views import WholeStream
from bot.requests.creation import PROMPT_LIMIT, DrawingOptions
from bot.requests.files.images import ImageForm, in_form
from queueing.core.requests import SEED_MAX, Capability, File, Output

EDITS = (Capability.IMAGE_TO_IMAGE, Capability.IMAGE_EDIT)


SIDE_LEAST, SIDE_MOST = 64, 8192
IMAGES_LIMIT = 16  # OpenAI's limit; models may accept fewer
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)
NO_USAGE: dict[str, Any] = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "total_tokens": 0,
}


class ImageFields(ClientRecord):
    """Fields of all image requests, with `negative_prompt`, `seed`, `steps`, `guidance`, `style`.

    `quality`, `moderation` and OpenAI's other fields are ignored.
    """

    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    n: int | None = Field(default=None, ge=1, le=4)
    size: str | None = None
    response_format: Literal["b64_json", "url"] | None = None
    output_format: ImageForm | None = None
    background: Annotated[JsonValue, refused("images are opaque", "auto", "opaque")] = None
    stream: bool | None = None
    partial_images: int | None = Field(default=None, ge=0, le=3)
    negative_prompt: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    seed: int | None = Field(default=None, ge=-1, le=SEED_MAX)
    steps: int | None = Field(default=None, ge=1, le=200)
    guidance: float | None = Field(default=None, ge=0, le=100)
    style: str | None = Field(default=None, max_length=NAME_LIMIT)

    @field_validator("size")
    @classmethod
    def _possible(cls, size: str | None) -> str | None:
        if size in {None, "", "auto"}:
            return None
        match = _SIZE.fullmatch(str(size))
        if match is None or not all(
            SIDE_LEAST <= int(side) <= SIDE_MOST for side in match.groups()
        ):
            raise ValueError("must be “auto”, or a size such as 1024x1024")
        return size

    @model_validator(mode="after")
    def _as_made(self) -> Self:
        if self.output_format is not None and self.response_format == "url":
            raise ValueError("output_format requires b64_json: linked files are not converted")
        return self

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height in pixels; None for the defaults."""
        if self.size is None:
            return None
        width, height = self.size.split("x")
        return int(width), int(height)

    @property
    def options(self) -> DrawingOptions:
        """The image's parameters, without the prompt."""
        return DrawingOptions(
            size=self.sides,
            steps=self.steps,
            seed=self.seed,
            negative=self.negative_prompt or None,
            guidance=self.guidance,
            count=self.n,
        )


class ImageGeneration(ImageFields):
    """An image to generate from a prompt alone."""


class ImageReference(ClientRecord):
    """An image in JSON: a data URL, a URL if the API may fetch those, or an uploaded file's id."""

    image_url: str | None = Field(default=None, min_length=1)
    file_id: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.image_url is None) == (self.file_id is None):
            raise ValueError("must have either image_url or file_id")
        return self

    @property
    def named(self) -> tuple[str, str]:
        """The reference to the image, and the name of the field that contains it."""
        if self.file_id is not None:
            return self.file_id, "file_id"
        return self.image_url or "", "image_url"


class ImageEdit(ImageFields):
    """Images to edit or combine.

    `strength` is for models that start from an image: how much the result may differ, from 0 to 1.
    """

    strength: float | None = Field(default=None, ge=0, le=1)

    @property
    def options(self) -> DrawingOptions:
        """The image's parameters, without the prompt."""
        return replace(super().options, strength=self.strength)


class ImageEditInJson(ImageEdit):
    """Images to edit or combine, sent as JSON instead of a form."""

    bytes_most = BODY_LIMIT

    images: tuple[ImageReference, ...] = Field(min_length=1, max_length=IMAGES_LIMIT)
    mask: ImageReference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageWriter:
    """Builds the response from a job's images.

    If URLs were requested, `url` maps the number of an image to its URL. Otherwise, images are
    converted to the requested format.
    """

    created: int
    form: ImageForm | None = None
    url: Callable[[int], str] | None = None

    def whole(self, output: Output) -> dict[str, Any]:
        """Return the answer to a call that does not stream."""
        images = enumerate(output.files, start=1)
        return {"created": self.created, "data": [self._one(n, file) for n, file in images]}

    def _one(self, number: int, file: File) -> dict[str, Any]:
        if self.url is not None:
            return {"url": self.url(number)}
        return {"b64_json": base64.b64encode(in_form(file, self.form).data).decode()}


@dataclass(kw_only=True, slots=True)
class ImageStream(WholeStream):
    """Streams an image: previews at even intervals during the work, then the images.

    Previews are not part of the answer.
    """

    created: int
    size: str
    previews: int
    form: ImageForm | None = None
    kind: Literal["image_generation", "image_edit"] = "image_generation"
    shown: int = 0

    def news(self, run: Run) -> bytes:
        """Return the next preview once enough of the work is done."""
        preview, fraction = run.preview, run.fraction or 0.0
        due = int(fraction * (self.previews + 1))
        if preview is None or self.shown >= min(due, self.previews):
            return b""
        self.shown += 1
        event = self._event("partial_image", preview)
        return sse.data({**event, "partial_image_index": self.shown - 1})

    def closing(self, output: Output) -> bytes:
        """Return an event for each image."""
        files = (in_form(file, self.form) for file in output.files)
        events = (self._event("completed", file) for file in files)
        return b"".join(sse.data({**event, "usage": NO_USAGE}) for event in events)

    def _event(self, name: str, file: File) -> dict[str, Any]:
        return {
            "type": f"{self.kind}.{name}",
            "b64_json": base64.b64encode(file.data).decode(),
            "created_at": self.created,
            "size": self.size,
            "quality": "auto",
            "background": "auto",
            "output_format": file.mime.removeprefix("image/"),
        }
