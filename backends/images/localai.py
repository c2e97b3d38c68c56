"""LocalAI, which loads and unloads models and can hold several.

Based on mudler/LocalAI at 82c191af (2026-08): `core/http/endpoints/openai/image.go`,
`core/schema/openai.go`, `core/http/endpoints/localai/backend_monitor.go`, `core/http/routes/`.

It has no /v1/images/edits. Images go into the JSON of /v1/images/generations as plain base64:
`files` for the image to start from, `ref_images` for images to edit. It silently drops data URLs.
`|` in a prompt begins the negative prompt. The field for steps is `step`; guidance is set in the
model's own file. Without a size it creates 512x512. Its call for masks ignores size and seed, so
masks are refused here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from backends.common.http import Http
from backends.common.localai import LocalAiCalls, abilities, in_memory
from backends.images.flavour import MIRRORED, ImageFlavour, ListedPainter, mirrored, plain_prompt
from backends.images.image_request import ImageRequest
from backends.images.replies import DrawnImage, drawn, listing
from queueing.core.ports import Report
from queueing.core.requests import TextToImage

if TYPE_CHECKING:
    from pydantic import JsonValue


class LocalAi(LocalAiCalls, ImageFlavour):
    """LocalAI."""

    takes: ClassVar[frozenset[str]] = MIRRORED | {"negative", "steps", "seed"}
    starts: ClassVar[bool] = True
    shapes: ClassVar[bool] = True
    seeds: ClassVar[int] = 2**31  # it passes seeds on in 32 bits

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return the listed models, marking those that are loaded and those that create images."""
        loaded = await in_memory(http)
        told = {
            each.id: "image" in (each.capabilities or ()) for each in await abilities(http) or ()
        }
        return tuple(
            ListedPainter(id=name, loaded=name in loaded, draws=told.get(name))
            for name in await listing(http)
        )

    async def draw(
        self,
        http: Http,
        order: ImageRequest,
        report: Report,  # noqa: ARG002 - no progress is told
    ) -> Sequence[DrawnImage]:
        """Create images; input images are sent in the JSON of its only call."""
        request = order.request
        body = mirrored(order) | {
            "prompt": split_prompt(request),
            "seed": request.seed % self.seeds,
        }
        if request.steps is not None:
            body["step"] = request.steps
        images: list[JsonValue] = [image.base64 for image in order.images]
        if images:
            body["ref_images" if request.edit else "files"] = images
        path = "/v1/images/generations"
        return drawn(http, await http.post_json(path, body, timeout_s=order.silence_s))


def split_prompt(request: TextToImage) -> str:
    """Return the prompt and negative prompt in LocalAI's form."""
    prompt, negative = (
        plain_prompt(text).replace("|", "/") for text in (request.prompt, request.negative or "")
    )
    return f"{prompt}|{negative}" if negative else prompt
