"""SwarmUI, by its own API.

Read in mcmonkeyprojects/SwarmUI at 062407c7 (2026-08): `docs/API.md`, `docs/APIRoutes/`,
`src/WebAPI/T2IAPI.cs`, `ModelsAPI.cs`, `BasicAPIFeatures.cs`, `BackendAPI.cs`,
`src/Text2Image/T2IPromptHandling.cs`. Every call is a POST with a session; errors come with any
status as `error` and `error_id`. `InterruptAll` stops what its own session runs, so that each attempt
has a session to itself. Closing the connection stops nothing. With `donotsave` results are data
addresses and nothing stays on its disk. `<...>` in a prompt is a command there (it can choose
another model or read files of words), so people's angle brackets are taken out of its reach. In a mask,
white is painted. Freeing its memory does not change what it lists as loaded, so that is
remembered here.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import ClassVar, TypeVar

from pydantic import JsonValue

from backends.common.http import Http, HttpFailed, HttpRefused
from backends.images.errors import classify
from backends.images.flavour import MIRRORED, GenericPictures, ListedPainter
from backends.images.order import PictureOrder
from backends.images.replies import DrawnPicture, PictureReply, picture_at, read, within_bounds
from queueing.core.errors import BackendError, Unavailable
from queueing.core.ports import Report

STOP_S = 5.0
FREE_S = 60.0
DEPTH = 20  # folders below each other, the most it lists


class SwarmSession(PictureReply):
    """The answer to GetNewSession."""

    session_id: str
    version: str = ""


class SwarmFile(PictureReply):
    """A file of models."""

    name: str
    loaded: bool | None = None
    is_supported_model_format: bool | None = None


class SwarmFiles(PictureReply):
    """The answer to ListModels."""

    files: tuple[SwarmFile, ...]


class SwarmDone(PictureReply):
    """The answer to a command that only succeeds or fails."""

    success: bool | None = None


class SwarmStatus(PictureReply):
    """The answer to GetCurrentStatus."""

    status: dict[str, JsonValue]


class SwarmPictures(PictureReply):
    """The answer to GenerateText2Image."""

    images: tuple[str, ...]


SwarmAnswer = TypeVar("SwarmAnswer", bound=PictureReply)


class SwarmUi(GenericPictures):
    """SwarmUI."""

    name: ClassVar[str] = "swarmui"
    takes: ClassVar[frozenset[str]] = MIRRORED | {
        *("negative", "steps", "guidance", "seed", "strength", "mask", "lora")
    }
    starts: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    frees_all: ClassVar[bool] = True
    shapes: ClassVar[bool] = True
    seeds: ClassVar[int] = 2**63 - 16  # each further picture adds one

    def __init__(self) -> None:
        self._idle: list[str] = []  # sessions that run nothing
        self._freed = False  # the list of what is loaded is out of date
        self._version = ""

    async def describe(self, http: Http) -> str | None:
        """Detect it by a new session; later by what that session may ask."""
        if self._version:
            await self._asked(http, "GetCurrentStatus", {}, SwarmStatus, 30.0)
            return self._version
        try:
            answer = await http.post_json("/API/GetNewSession", {})
            session = SwarmSession.model_validate(answer)
        except (HttpRefused, HttpFailed, ValueError):
            return None
        except Unavailable:  # also what a web page stands for; a dead server stays unavailable
            await _reach(http)
            return None
        self._idle.append(session.session_id)
        self._version = f"SwarmUI {session.version}".strip()
        return self._version

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return its models; none is loaded once its memory has been freed."""
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
        """Return the names of its LoRAs with their folders."""
        return tuple(file.name for file in await self._files(http, "LoRA"))

    async def load(self, http: Http, model: str, limit_s: float) -> None:
        """Load a model on all of its backends."""
        body: dict[str, JsonValue] = {"model": model}
        await self._asked(http, "SelectModel", body, SwarmDone, limit_s)
        self._freed = False

    async def unload(self, http: Http, model: str) -> None:  # noqa: ARG002 - it frees all of them
        """Free the memory of all of its backends."""
        body: dict[str, JsonValue] = {"system_ram": False, "backend": "all"}
        await self._asked(http, "FreeBackendMemory", body, SwarmDone, FREE_S)
        self._freed = True

    async def draw(
        self,
        http: Http,
        order: PictureOrder,
        report: Report,  # noqa: ARG002 - no progress is told
    ) -> Sequence[DrawnPicture]:
        """Draw in a session of its own, which is interrupted when the call is cancelled."""
        body = {**_core(order), **_pictures(order), **_loras(order)}
        limit_s = order.silence_s
        answer = await self._asked(http, "GenerateText2Image", body, SwarmPictures, limit_s)
        self._freed = False
        return within_bounds([picture_at(http, where) for where in answer.images])

    async def _files(self, http: Http, subtype: str) -> tuple[SwarmFile, ...]:
        body: dict[str, JsonValue] = {"path": "", "depth": DEPTH, "subtype": subtype}
        return (await self._asked(http, "ListModels", body, SwarmFiles, 30.0)).files

    async def _asked(
        self,
        http: Http,
        call: str,
        body: Mapping[str, JsonValue],
        record: type[SwarmAnswer],
        limit_s: float | None,
    ) -> SwarmAnswer:
        """Return the answer to a call, in a new session where the server has forgotten the old."""
        try:
            return await self._once(http, call, body, record, limit_s)
        except SessionForgotten:
            self._idle.clear()
            return await self._once(http, call, body, record, limit_s)

    async def _once(
        self,
        http: Http,
        call: str,
        body: Mapping[str, JsonValue],
        record: type[SwarmAnswer],
        limit_s: float | None,
    ) -> SwarmAnswer:
        async with self._session(http) as session:
            answer = await _posted(http, call, {**body, "session_id": session}, limit_s)
        return read(record, answer)

    @asynccontextmanager
    async def _session(self, http: Http) -> AsyncIterator[str]:
        """Lend a session that nothing else uses; interrupt what it runs if the call is cancelled."""
        if self._idle:
            session = self._idle.pop()
        else:
            session = read(SwarmSession, await http.post_json("/API/GetNewSession", {})).session_id
        try:
            yield session
        except SessionForgotten:
            raise
        except (asyncio.CancelledError, Unavailable):
            await _stop(http, session)
            raise
        except BackendError:
            self._idle.append(session)
            raise
        self._idle.append(session)


class SessionForgotten(Unavailable):
    """The server knows the session no longer, as after its restart."""


async def _posted(
    http: Http, call: str, body: Mapping[str, JsonValue], limit_s: float | None
) -> JsonValue:
    try:
        answer = await http.post_json(f"/API/{call}", dict(body), timeout_s=limit_s)
    except (HttpRefused, HttpFailed) as error:
        if "invalid_session_id" in error.body:
            raise SessionForgotten(str(error)) from error
        raise classify(error.status, error.body) from error
    if isinstance(answer, dict) and answer.get("error_id") == "invalid_session_id":
        raise SessionForgotten("the session is unknown")
    return answer


async def _stop(http: Http, session: str) -> None:
    body: dict[str, JsonValue] = {"session_id": session, "other_sessions": False}
    with suppress(BackendError):
        await http.post_json("/API/InterruptAll", body, timeout_s=STOP_S)


async def _reach(http: Http) -> None:
    """Return if the server answers anything. Raises `Unavailable`."""
    with suppress(HttpRefused, HttpFailed):
        await http.get_bytes("/", limit=1024 * 1024)


def tame(prompt: str) -> str:
    """Return a prompt in which angle brackets are no commands."""
    return prompt.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}").replace(
        ">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
    )


def _core(order: PictureOrder) -> Mapping[str, JsonValue]:
    request = order.request
    found: dict[str, JsonValue] = {
        "images": request.count,
        "prompt": tame(request.prompt),
        "negativeprompt": None if request.negative is None else tame(request.negative),
        "model": order.model,
        "seed": request.seed % SwarmUi.seeds,
        "steps": request.steps,
        "cfgscale": request.guidance,
        "width": order.size[0] if order.size else None,
        "height": order.size[1] if order.size else None,
        "donotsave": True,
    }
    return {key: value for key, value in found.items() if value is not None}


def _loras(order: PictureOrder) -> Mapping[str, JsonValue]:
    if not order.loras:
        return {}
    names: list[JsonValue] = [name for name, _ in order.loras]
    weights: list[JsonValue] = [str(weight) for _, weight in order.loras]
    return {"loras": names, "loraweights": weights}


def _pictures(order: PictureOrder) -> Mapping[str, JsonValue]:
    pictures: list[JsonValue] = [_data_address(data) for data in order.pictures]
    if not pictures:
        return {}
    if not order.request.edit:
        strength = order.request.strength
        start: dict[str, JsonValue] = {"initimage": pictures[0]}
        return start if strength is None else start | {"initimagecreativity": strength}
    if order.mask is None:
        return {"promptimages": pictures}
    return {
        "promptimages": pictures,
        "initimage": pictures[0],
        "maskimage": _data_address(order.mask),
        "initimagecreativity": 1,
    }


def _data_address(data: bytes) -> str:
    return f"data:image/png;base64,{b64encode(data).decode()}"
