"""LocalAI: loads and unloads, several models at once.

Read in mudler/LocalAI at 82c191af (2026-08): `core/http/endpoints/openai/image.go`,
`core/schema/openai.go`, `core/http/endpoints/localai/backend_monitor.go`, `core/http/routes/`.
It has no /v1/images/edits: pictures go into the JSON of /v1/images/generations as base64 without a
data address, `files` for the picture to start from and `ref_images` for those to edit; a data address
is dropped silently. `|` in a prompt begins the negative prompt. Steps are `step`, guidance belongs
to the model's own file. Without a size it draws 512x512. Its call for masks ignores size and seed,
so that masks are refused here. `/backend/load` and `/backend/shutdown` wait until it has happened.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_answers import HttpRefused
from backends.common.model_server import LoadWish
from backends.common.replies import ServerReply, ask, read
from backends.images.flavour import MIRRORED, ListedPainter, PictureFlavour, mirrored, plain_prompt
from backends.images.order import PictureOrder
from backends.images.replies import DrawnPicture, ListedName, drawn, listing
from queueing.core.errors import BadModel
from queueing.core.ports import Report
from queueing.core.requests import TextToImage


class LocalAiSystem(ServerReply):
    """GET /system."""

    loaded_models: tuple[ListedName, ...] | None


class LocalAiVersion(ServerReply):
    """GET /version."""

    version: str = ""


class AbleModel(ServerReply):
    """An entry of /v1/models/capabilities."""

    id: str
    capabilities: tuple[str, ...] | None = None


class AbleModels(ServerReply):
    """GET /v1/models/capabilities."""

    data: tuple[AbleModel, ...]


class LocalAi(PictureFlavour):
    """LocalAI."""

    name: ClassVar[str] = "localai"
    takes: ClassVar[frozenset[str]] = MIRRORED | {"negative", "steps", "seed"}
    starts: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    shapes: ClassVar[bool] = True
    seeds: ClassVar[int] = 2**31  # it passes them on in 32 bits

    async def describe(self, http: Http) -> str | None:
        """Detect it by /system."""
        if await ask(http, "/system", LocalAiSystem) is None:
            return None
        version = await ask(http, "/version", LocalAiVersion)
        return f"LocalAI {version.version if version else ''}".strip()

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return the list with what is loaded, and with what draws where it is told."""
        system = read(LocalAiSystem, await http.get_json("/system"))
        loaded = {entry.id for entry in system.loaded_models or ()}
        able = await ask(http, "/v1/models/capabilities", AbleModels)
        told = {each.id: "image" in (each.capabilities or ()) for each in able.data} if able else {}
        return tuple(
            ListedPainter(id=name, loaded=name in loaded, draws=told.get(name))
            for name in await listing(http)
        )

    async def load(self, http: Http, served: ListedPainter, wish: LoadWish) -> None:  # noqa: ARG002 - set in its configuration
        """Ask for the load; it returns when the model is in memory."""
        try:
            await http.post_json("/backend/load", {"model": served.id}, timeout_s=None)
        except HttpRefused as error:
            if error.status not in {404, 405} or served.id in error.body:
                raise
            raise BadModel("this LocalAI is too old to load a model by /backend/load") from error

    async def unload(self, http: Http, served: ListedPainter) -> None:
        """Stop the model's process."""
        try:
            await http.post_json("/backend/shutdown", {"model": served.id}, timeout_s=60.0)
        except HttpRefused as error:
            if error.status != 404:
                raise

    async def draw(
        self,
        http: Http,
        order: PictureOrder,
        report: Report,  # noqa: ARG002 - no progress is told
    ) -> Sequence[DrawnPicture]:
        """Send the pictures in the JSON of the one call it has."""
        request = order.request
        body = mirrored(order) | {
            "prompt": split_prompt(request),
            "seed": request.seed % self.seeds,
        }
        if request.steps is not None:
            body["step"] = request.steps
        pictures: list[JsonValue] = [picture.base64 for picture in order.pictures]
        if pictures:
            body["ref_images" if request.edit else "files"] = pictures
        path = "/v1/images/generations"
        return drawn(http, await http.post_json(path, body, timeout_s=order.silence_s))


def split_prompt(request: TextToImage) -> str:
    """Return the prompt and what is not wanted as LocalAI splits them."""
    prompt, negative = (
        plain_prompt(text).replace("|", "/") for text in (request.prompt, request.negative or "")
    )
    return f"{prompt}|{negative}" if negative else prompt
