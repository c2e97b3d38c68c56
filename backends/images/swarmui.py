"""SwarmUI, through its own API.

Based on mcmonkeyprojects/SwarmUI at 062407c7 (2026-08): `docs/API.md`, `docs/APIRoutes/`,
`src/WebAPI/T2IAPI.cs`, `ModelsAPI.cs`, `BasicAPIFeatures.cs`, `BackendAPI.cs`,
`src/Text2Image/T2IPromptHandling.cs`.

Every call is a POST with a session. Errors arrive with any status as `error` and `error_id`.
`InterruptAll` stops everything that its own session runs, so each attempt has a separate session.
Closing the connection stops nothing. `GenerateText2ImageWS` reports progress with previews. With
`donotsave`, results are data URLs and nothing is saved on the server's disk.

`<...>` in a prompt is a command that can choose another model or read word lists, so people's angle
brackets are replaced. White in a mask is painted. SwarmUI still lists models as loaded after their
memory was freed, so this module remembers that it freed them.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from backends.common.http import Http
from backends.common.http_replies import BadStatus, parse_json
from backends.common.model_server import LoadWish
from backends.images.flavour import MIRRORED, ImageFlavour, ListedPainter
from backends.images.image_request import ImageRequest
from backends.images.replies import DrawnImage, image_at, within_bounds
from backends.images.swarmui_api import (
    SEEDS,
    SessionForgotten,
    SwarmDone,
    SwarmDrawing,
    SwarmFile,
    SwarmFiles,
    SwarmResources,
    SwarmSessions,
    SwarmStatus,
    drawing_of,
)
from queueing.core.errors import (
    BackendError,
    Unavailable,
    UnreadableAnswer,
)
from queueing.core.ports import Report

if TYPE_CHECKING:
    from pydantic import JsonValue

FREE_S = 60.0
MEMORY_S = 3.0
MB = 1024 * 1024
DEPTH = 20  # folder levels, the server's maximum


class SwarmUi(ImageFlavour):
    """SwarmUI."""

    name: ClassVar[str] = "swarmui"
    takes: ClassVar[frozenset[str]] = MIRRORED | {
        *("negative", "steps", "guidance", "seed", "strength", "mask", "lora")
    }
    starts: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    frees_all: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    shapes: ClassVar[bool] = True
    seeds: ClassVar[int] = SEEDS

    def __init__(self) -> None:
        self._sessions = SwarmSessions()
        self._freed = False  # whether the server's list of loaded models is outdated

    async def describe(self, http: Http) -> str | None:
        """Detect it by opening a session; return its name and version, or None."""
        try:
            await self._sessions.asked(http, "GetCurrentStatus", {}, SwarmStatus, 30.0)
        except (
            Unavailable,
            UnreadableAnswer,
        ):  # or a web page. `_require_answer` raises if the server is down
            await _require_answer(http)
            return None
        except BackendError:
            return None
        return f"SwarmUI {self._sessions.version}"

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return its models. After its memory was freed, none of them counts as loaded."""
        listed = await self._files(http, "Stable-Diffusion")
        return tuple(
            ListedPainter(
                id=file.name,
                loaded=False if self._freed else file.loaded,
                draws=file.is_supported_model_format,
            )
            for file in listed
        )

    async def loras(self, http: Http) -> tuple[str, ...]:
        """Return the names of its LoRAs, including folders."""
        return tuple(file.name for file in await self._files(http, "LoRA"))

    async def memory(self, http: Http) -> tuple[int, int] | None:
        """Return the memory of the server's GPU; None if it has several, as any may be in use."""
        try:
            told = await self._sessions.asked(
                http, "GetServerResourceInfo", {}, SwarmResources, MEMORY_S
            )
        except BackendError:  # perhaps not permitted; health checks notice a server that is down
            return None
        gpus = list(told.gpus.values())
        if len(gpus) != 1 or not gpus[0].total_memory:
            return None
        return gpus[0].total_memory // MB, gpus[0].free_memory // MB

    async def load(self, http: Http, served: ListedPainter, wish: LoadWish) -> None:  # noqa: ARG002 - it has no settings
        """Load a model on all its backends."""
        body: dict[str, JsonValue] = {"model": served.id}
        await self._sessions.asked(http, "SelectModel", body, SwarmDone, None)
        self._freed = False

    async def unload(self, http: Http, served: ListedPainter) -> None:  # noqa: ARG002 - it frees all of them
        """Free the memory of all its backends."""
        body: dict[str, JsonValue] = {"system_ram": False, "backend": "all"}
        await self._sessions.asked(http, "FreeBackendMemory", body, SwarmDone, FREE_S)
        self._freed = True

    async def draw(self, http: Http, order: ImageRequest, report: Report) -> Sequence[DrawnImage]:
        """Create images in a separate session, which is interrupted if the call is cancelled."""
        try:
            images = await self._generate(http, order, report)
        except SessionForgotten:
            self._sessions.forget()
            images = await self._generate(http, order, report)
        self._freed = False
        return within_bounds([image_at(http, where) for where in images])

    async def _generate(self, http: Http, order: ImageRequest, report: Report) -> Sequence[str]:
        drawing = SwarmDrawing(order.request.count)
        async with self._sessions.lent(http) as session:
            body: dict[str, JsonValue] = {**drawing_of(order), "session_id": session}
            path = "/API/GenerateText2ImageWS"
            async with http.talk(path, body, silence_s=order.silence_s) as texts:
                async for text in texts:
                    if progress := drawing.hear(parse_json(text)):
                        report(progress)
                    if drawing.closed:
                        return drawing.images
            raise Unavailable("SwarmUI's websocket closed before the end")

    async def _files(self, http: Http, subtype: str) -> tuple[SwarmFile, ...]:
        body: dict[str, JsonValue] = {"path": "", "depth": DEPTH, "subtype": subtype}
        return (await self._sessions.asked(http, "ListModels", body, SwarmFiles, 30.0)).files


async def _require_answer(http: Http) -> None:
    """Return if the server responds at all. Raises `Unavailable`."""
    with suppress(BadStatus):
        await http.get_bytes("/", limit=1024 * 1024)
