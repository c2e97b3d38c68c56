"""Base class of image server flavours: how one kind of server lists, loads, unloads and creates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

from backends.common.http import FormPart, Http
from backends.common.model_server import LoadWish, ServedModel
from backends.common.server_replies import ask
from backends.images.image_request import ImageRequest
from backends.images.replies import DrawnImage, NameListing, drawn, listing
from queueing.core.ports import Report
from queueing.core.requests import Capability

EDITORS = re.compile(r"edit|kontext|flux[._-]?2|klein|omnigen", re.IGNORECASE)
MIRRORED = frozenset({"width", "height", "count", "edit"})  # fields of OpenAI's own calls


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPainter(ServedModel):
    """A model as its server lists it.

    `draws` is False for a model that cannot create images, and None if the list does not show it.
    """

    draws: bool | None = None


class ImageFlavour:
    """One kind of server. The base class handles any server with OpenAI's image API.

    `takes` are the request fields that it honours. Methods raise the `BackendError`s of `Http`.
    """

    name: ClassVar[str] = "generic"
    takes: ClassVar[frozenset[str]] = MIRRORED | {"mask"}
    # whether all its models can start from an image, not only editing models
    starts: ClassVar[bool] = False
    nameless: ClassVar[bool] = False
    can_unload: ClassVar[bool] = False
    stops_loads: ClassVar[bool] = False
    frees_all: ClassVar[bool] = False  # one unload frees all its models
    eager: ClassVar[bool] = False  # a request loads an unloaded model
    shapes: ClassVar[bool] = False  # an edit must have a size
    seeds: ClassVar[int] = 2**63  # number of valid seeds, counted from 0
    note: ClassVar[str] = "It keeps its model loaded, so its memory is never free for other models."

    async def admit(self, http: Http) -> None:
        """Accept the key, because every call that could test it would start work."""

    async def describe(self, http: Http) -> str | None:
        """Return "name version" if the server is of this flavour, or else None."""
        return (
            "OpenAI-compatible image server" if await ask(http, "/v1/models", NameListing) else None
        )

    def notes(self) -> tuple[str, ...]:
        """Return notes for `usher check`."""
        return () if self.can_unload else (self.note,)

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return the server's models."""
        return tuple(ListedPainter(id=name) for name in await listing(http))

    async def memory(self, http: Http) -> tuple[int, int] | None:  # noqa: ARG002 - for others
        """Return (total, free) of the server's GPU in MB; None if it does not report them."""
        return None

    async def load(self, http: Http, served: ListedPainter, wish: LoadWish) -> None:
        """Request a load; may return before it is complete."""

    async def unload(self, http: Http, served: ListedPainter) -> None:
        """Request the unload of a model; may return before it is complete."""

    async def loras(self, http: Http) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """Return the server's own names for its LoRAs."""
        return ()

    async def draw(
        self,
        http: Http,
        order: ImageRequest,
        report: Report,  # noqa: ARG002 - no progress is told
    ) -> Sequence[DrawnImage]:
        """Create images. Cancelling stops the work if the server can stop it."""
        body = {**mirrored(order), **self.own_fields(order)}
        if not order.images:
            answer = await http.post_json("/v1/images/generations", body, timeout_s=order.silence_s)
        else:
            fields = {key: str(value) for key, value in body.items()}
            path = "/v1/images/edits"
            parts = edited(order)
            answer = await http.post_form(path, parts, fields, timeout_s=order.silence_s)
        return drawn(http, answer)

    def own_fields(self, order: ImageRequest) -> Mapping[str, JsonValue]:  # noqa: ARG002 - none here
        """Return the request fields that this server supports in addition to OpenAI's."""
        return {}


def able(name: str, flavour: ImageFlavour) -> frozenset[Capability]:
    """Guess a model's capabilities from its name, because servers do not report them."""
    draws = {Capability.TEXT_TO_IMAGE}
    if EDITORS.search(name):
        return frozenset(draws | {Capability.IMAGE_TO_IMAGE, Capability.IMAGE_EDIT})
    return frozenset(draws | ({Capability.IMAGE_TO_IMAGE} if flavour.starts else set()))


def mirrored(order: ImageRequest) -> dict[str, JsonValue]:
    """Return the request as fields of OpenAI's own calls."""
    request = order.request
    body: dict[str, JsonValue] = {
        "model": order.model,
        "prompt": plain_prompt(request.prompt),
        "n": request.count,
        "response_format": "b64_json",
    }
    return body | ({"size": f"{order.size[0]}x{order.size[1]}"} if order.size else {})


def edited(order: ImageRequest) -> tuple[FormPart, ...]:
    """Return the images and the mask as form parts for OpenAI's edits call."""
    one = len(order.images) == 1
    parts = [
        FormPart(
            name="image" if one else "image[]",
            file=f"image-{number}",
            data=sent.data,
            mime=sent.mime,
        )
        for number, sent in enumerate(order.images, start=1)
    ]
    if order.clear_mask is not None:
        parts.append(FormPart(name="mask", file="mask.png", data=order.clear_mask.data))
    return tuple(parts)


def plain_prompt(prompt: str) -> str:
    """Return a prompt without the marker from which stable-diffusion.cpp reads settings."""
    return prompt.replace("sd_cpp_extra_args", "sd cpp extra args")
