"""SwarmUI's calls: sessions, errors, and image generation over a websocket."""

import asyncio
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from pydantic import Field, JsonValue, ValidationError

from backends.common.file_types import is_image, mime_of
from backends.common.http import Http
from backends.common.http_replies import BadStatus
from backends.common.server_replies import ServerReply, read
from backends.images.image_request import ImageRequest
from backends.images.replies import classified, classify
from queueing.core.errors import BackendError, Unavailable, UnreadableAnswer
from queueing.core.requests import File, Progress

STOP_S = 5.0


class SwarmSession(ServerReply):
    """The response to GetNewSession."""

    session_id: str
    version: str = ""


class SwarmFile(ServerReply):
    """A model or LoRA file."""

    name: str
    loaded: bool | None = None
    is_supported_model_format: bool | None = None


class SwarmFiles(ServerReply):
    """The response to ListModels."""

    files: tuple[SwarmFile, ...]


class SwarmDone(ServerReply):
    """The response to a command that only succeeds or fails."""

    success: bool | None = None


class SwarmStatus(ServerReply):
    """The response to GetCurrentStatus."""

    status: dict[str, JsonValue]


class SwarmGpu(ServerReply):
    """A GPU in the response to GetServerResourceInfo, in bytes."""

    total_memory: int = 0
    free_memory: int = 0


class SwarmResources(ServerReply):
    """The response to GetServerResourceInfo; without NVIDIA's tools it lists no GPUs."""

    gpus: dict[str, SwarmGpu] = Field(default_factory=dict)


SwarmAnswer = TypeVar("SwarmAnswer", bound=ServerReply)


class SessionForgotten(Unavailable):
    """The server does not know the session any more, for example after a restart."""


class SwarmSessions:
    """Sessions of one server; each is used by one call at a time and then reused."""

    def __init__(self) -> None:
        self.version = ""  # the server's, known after the first session
        self._idle: list[str] = []

    async def renew(self, http: Http) -> str:
        """Return a new session."""
        made = read(SwarmSession, await http.post_json("/API/GetNewSession", {}))
        self.version = made.version or "?"
        return made.session_id

    def forget(self) -> None:
        """Discard all idle sessions."""
        self._idle.clear()

    async def asked(
        self,
        http: Http,
        call: str,
        body: Mapping[str, JsonValue],
        record: type[SwarmAnswer],
        limit_s: float | None,
    ) -> SwarmAnswer:
        """Make a call and return its response, retrying in a new session if the old one is gone."""
        for last in (False, True):
            try:
                async with self.lent(http) as session:
                    told = {**body, "session_id": session}
                    with classified():
                        return read(record, await _posted(http, call, told, limit_s))
            except SessionForgotten:
                self.forget()
                if last:
                    raise
        raise AssertionError  # unreachable: the second try returns or raises

    @asynccontextmanager
    async def lent(self, http: Http) -> AsyncIterator[str]:
        """Provide a session for exclusive use, and interrupt its work if the block fails."""
        session = self._idle.pop() if self._idle else await self.renew(http)
        try:
            yield session
        except SessionForgotten:
            raise
        except (asyncio.CancelledError, Unavailable, UnreadableAnswer):
            await _stop(http, session)
            raise
        except BackendError:
            self._idle.append(session)
            raise
        self._idle.append(session)


def checked(answer: JsonValue) -> JsonValue:
    """Return a response. Raises `SessionForgotten` if it reports an unknown session."""
    if isinstance(answer, dict) and answer.get("error_id") == "invalid_session_id":
        raise SessionForgotten("the session is unknown")
    return answer


async def _posted(
    http: Http, call: str, body: Mapping[str, JsonValue], limit_s: float | None
) -> JsonValue:
    try:
        return checked(await http.post_json(f"/API/{call}", dict(body), timeout_s=limit_s))
    except BadStatus as error:
        if "invalid_session_id" in error.body:
            raise SessionForgotten(str(error)) from error
        raise


async def _stop(http: Http, session: str) -> None:
    body: dict[str, JsonValue] = {"session_id": session, "other_sessions": False}
    with suppress(BackendError):
        await http.post_json("/API/InterruptAll", body, timeout_s=STOP_S)


PREVIEW_LIMIT = 1024 * 1024  # characters of base64
MESSAGES_MOST = 100_000
SEEDS = 2**63 - 16  # each further image adds 1


class SwarmShare(ServerReply):
    """The progress of an image, from 0 to 1."""

    batch_index: str = "0"
    overall_percent: float = 0.0
    preview: str | None = None


class SwarmMessage(ServerReply):
    """A message of GenerateText2ImageWS."""

    gen_progress: SwarmShare | None = None
    image: str | None = None
    batch_index: str = "0"
    discard_indices: tuple[int, ...] = ()
    socket_intention: str = ""


class SwarmDrawing:
    """The state of one image generation by its messages. `images` are addresses in order."""

    def __init__(self, count: int) -> None:
        self.closed = False  # the server has sent everything
        self._count = count
        self._images: dict[str, str] = {}
        self._shares: dict[str, float] = {}
        self._told = 0.0
        self._left = MESSAGES_MOST

    @property
    def images(self) -> Sequence[str]:
        """The final images. Intermediate ones have a negative index."""
        return [where for index, where in self._images.items() if not index.startswith("-")]

    def hear(self, message: JsonValue) -> Progress | None:
        """Process a message; return the progress it reports.

        Raises the error that it contains.
        """
        self._left -= 1
        checked(message)
        if isinstance(message, dict) and message.get("error"):
            raise classify(200, message)
        try:
            read = SwarmMessage.model_validate(message)
        except ValidationError:
            raise UnreadableAnswer("unexpected message from SwarmUI") from None
        if self._left < 0:
            raise UnreadableAnswer("SwarmUI sends too many messages")
        self._collect(read)
        return None if read.gen_progress is None else self._progress(read.gen_progress)

    def _collect(self, read: SwarmMessage) -> None:
        if read.image is not None:
            self._images[read.batch_index] = read.image
        for index in read.discard_indices:
            self._images.pop(str(index), None)
        self.closed = read.socket_intention == "close"

    def _progress(self, share: SwarmShare) -> Progress:
        self._shares[share.batch_index] = min(max(share.overall_percent, 0.0), 1.0)
        done = min(sum(self._shares.values()) / self._count, 1.0)
        self._told = max(self._told, done)
        return Progress(fraction=self._told, preview=_preview(share.preview))


def _preview(address: str | None) -> File | None:
    if address is None or len(address) > PREVIEW_LIMIT:
        return None
    try:
        data = binascii.a2b_base64(address.partition(",")[2], strict_mode=True)
    except ValueError:
        return None
    mime = mime_of(data)
    name = f"preview.{mime.rpartition('/')[2]}"
    return File(name=name, mime=mime, data=data) if is_image(mime) else None


def drawing_of(order: ImageRequest) -> dict[str, JsonValue]:
    """Return SwarmUI's parameters for a request."""
    request = order.request
    found: dict[str, JsonValue] = {
        "images": request.count,
        "prompt": tame(request.prompt),
        "negativeprompt": None if request.negative is None else tame(request.negative),
        "model": order.model,
        "seed": request.seed % SEEDS,
        "steps": request.steps,
        "cfgscale": request.guidance,
        "width": order.size[0] if order.size else None,
        "height": order.size[1] if order.size else None,
        "donotsave": True,
        **_loras(order),
        **_images(order),
    }
    return {key: value for key, value in found.items() if value is not None}


def tame(prompt: str) -> str:
    """Return a prompt with its angle brackets replaced, so that they are not commands."""
    return prompt.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}").replace(
        ">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
    )


def _loras(order: ImageRequest) -> Mapping[str, JsonValue]:
    if not order.loras:
        return {}
    names: list[JsonValue] = [name for name, _ in order.loras]
    weights: list[JsonValue] = [str(weight) for _, weight in order.loras]
    return {"loras": names, "loraweights": weights}


def _images(order: ImageRequest) -> Mapping[str, JsonValue]:
    images: list[JsonValue] = [image.address for image in order.images]
    if not images:
        return {}
    if not order.request.edit:
        return {"initimage": images[0], "initimagecreativity": order.request.strength}
    if order.mask is None:
        return {"promptimages": images}
    return {
        "promptimages": images,
        "initimage": images[0],
        "maskimage": order.mask.address,
        "initimagecreativity": 1,
    }
