"""SwarmUI's calls: each is a POST with a session, and errors come with any status."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from pydantic import Field, JsonValue

from backends.common.http import Http
from backends.common.http_replies import HttpFailed, HttpRefused
from backends.common.replies import ServerReply, read
from backends.images.errors import classified
from queueing.core.errors import BackendError, Unavailable, UnreadableAnswer

STOP_S = 5.0


class SwarmSession(ServerReply):
    """The answer to GetNewSession."""

    session_id: str
    version: str = ""


class SwarmFile(ServerReply):
    """A file of models."""

    name: str
    loaded: bool | None = None
    is_supported_model_format: bool | None = None


class SwarmFiles(ServerReply):
    """The answer to ListModels."""

    files: tuple[SwarmFile, ...]


class SwarmDone(ServerReply):
    """The answer to a command that only succeeds or fails."""

    success: bool | None = None


class SwarmStatus(ServerReply):
    """The answer to GetCurrentStatus."""

    status: dict[str, JsonValue]


class SwarmCard(ServerReply):
    """A card in the answer to GetServerResourceInfo, in bytes."""

    total_memory: int = 0
    free_memory: int = 0


class SwarmResources(ServerReply):
    """The answer to GetServerResourceInfo; without NVIDIA's tools it names no cards."""

    gpus: dict[str, SwarmCard] = Field(default_factory=dict)


SwarmAnswer = TypeVar("SwarmAnswer", bound=ServerReply)


class SessionForgotten(Unavailable):
    """The server knows the session no longer, as after its restart."""


class SwarmSessions:
    """Sessions of one server, each lent to one call at a time and used again."""

    def __init__(self) -> None:
        self.version = ""  # of the server, known with the first session
        self._idle: list[str] = []

    async def renew(self, http: Http) -> str:
        """Return a new session."""
        made = read(SwarmSession, await http.post_json("/API/GetNewSession", {}))
        self.version = made.version or "?"
        return made.session_id

    def forget(self) -> None:
        """Use no session of before."""
        self._idle.clear()

    async def asked(
        self,
        http: Http,
        call: str,
        body: Mapping[str, JsonValue],
        record: type[SwarmAnswer],
        limit_s: float | None,
    ) -> SwarmAnswer:
        """Return the answer to a call, in a new session where the server has forgotten the old."""
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
        raise AssertionError  # the second try returns or raises

    @asynccontextmanager
    async def lent(self, http: Http) -> AsyncIterator[str]:
        """Lend a session that nothing else uses; interrupt what it runs if the call breaks off."""
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
    """Return an answer. Raises `SessionForgotten`."""
    if isinstance(answer, dict) and answer.get("error_id") == "invalid_session_id":
        raise SessionForgotten("the session is unknown")
    return answer


async def _posted(
    http: Http, call: str, body: Mapping[str, JsonValue], limit_s: float | None
) -> JsonValue:
    try:
        return checked(await http.post_json(f"/API/{call}", dict(body), timeout_s=limit_s))
    except (HttpRefused, HttpFailed) as error:
        if "invalid_session_id" in error.body:
            raise SessionForgotten(str(error)) from error
        raise


async def _stop(http: Http, session: str) -> None:
    body: dict[str, JsonValue] = {"session_id": session, "other_sessions": False}
    with suppress(BackendError):
        await http.post_json("/API/InterruptAll", body, timeout_s=STOP_S)
