"""Runs prompts on one ComfyUI server: each is sent once, watched, and stopped when it is given up.

Websocket messages are only hints (see `progress`), except the one that reports success; every other
outcome is read from the server. Prompts are never sent twice: a repeated id would run twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from backends.comfyui.answers import Ended, Stage
from backends.comfyui.errors import accepted_in_part, raise_if_failed, refusal, refused_prompt
from backends.comfyui.progress import Watch
from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph import Asked, Graph
from backends.comfyui.workflow.template import Template
from backends.common.http_replies import HttpRefused
from backends.common.websocket import listener
from queueing.core.concurrency import timeout, undisturbed
from queueing.core.errors import BackendError, ResultGone, Unavailable, UnreadableAnswer
from queueing.core.ports import Report

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

ASK_S = 2.0  # between two looks at a running attempt while its websocket is open
ASK_LOST_S = 0.5  # while it is not
GRACE_S = 5.0  # grace for a server that does not answer, before its attempt counts as lost
STOP_S = 2.5  # for a server to accept a stop; the bot's own shutdown waits for it
GIVE_WAY_S = 0.25  # how long fetching a result yields to the next prompt
STUCK_S = 60.0  # a stopped attempt may finish its node first; beyond this the worker is stuck


class Attempts:
    """The attempts at one server by key; remembers those that were stopped."""

    def __init__(
        self, server: ComfyUIServer, socket_url: str, headers: Mapping[str, str], *, name: str
    ) -> None:
        self._server = server
        self._socket_url = socket_url
        self._headers = headers
        self._name = name
        self._session: aiohttp.ClientSession | None = None
        self._stopped: dict[
            str, float
        ] = {}  # stopped, not yet seen to end; the value is when it was stopped
        self._stops: set[asyncio.Task[None]] = set()
        self._left = False  # attempts cancelled from now on keep running on the server
        self._none_on_its_way = asyncio.Event()
        self._none_on_its_way.set()

    async def run(
        self, key: str, graph: Graph, workflow: Template, request: Asked, report: Report
    ) -> Ended:
        """Send a prompt and return how it ended, as far as the server has told.

        Raises `BackendError` for a failed attempt. If the call is cancelled, the attempt is stopped
        on the server.
        """
        async with self._watching(key, graph, report) as watch:
            await watch.settled()  # what is told from the first message on outlives the history
            await self._send(key, graph, workflow, request)
            ended = await self._until_ended(key, watch)
        raise_if_failed(workflow, ended)
        return ended

    async def follow(self, key: str, workflow: Template, report: Report) -> Ended:
        """Watch a prompt that was sent earlier until it ends; returns and raises as `run` does."""
        async with self._watching(key, workflow.nodes, report) as watch:
            ended = await self._until_ended(key, watch)
        raise_if_failed(workflow, ended)
        return ended

    def leave(self) -> None:
        """Let everything keep running from now on, even if its caller is cancelled."""
        self._left = True

    async def give_way(self) -> None:
        """Yield to a prompt that is being sent: until it arrives the server has nothing to do."""
        with suppress(TimeoutError):
            async with timeout(GIVE_WAY_S):
                await self._none_on_its_way.wait()

    async def raise_if_stuck(self) -> None:
        """Raise `Unavailable` if a stopped attempt is still running: the server's worker hangs."""
        now = asyncio.get_running_loop().time()
        for key, since in list(self._stopped.items()):
            seen = await self._server.look(key)
            if isinstance(seen, Ended) or seen is Stage.UNKNOWN:
                del self._stopped[key]
            elif now - since > STUCK_S:
                raise Unavailable(f"its worker hangs on attempt {key}: restart the server")
            else:
                await self._stop_on_server(key)

    async def aclose(self) -> None:
        """Finish stopping cancelled attempts, then close the websocket session. Idempotent."""
        if self._stops:
            await asyncio.wait(self._stops)  # each is bounded by STOP_S
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _watching(self, key: str, graph: Graph, report: Report) -> AsyncIterator[Watch]:
        """Listen to an attempt; stop it on the server if the caller gives up."""
        if self._session is None:  # made here: it belongs to the running loop
            self._session = listener(self._headers)
        watch = Watch(self._socket_url, key, graph, report)
        try:
            async with watch.listening(self._session):
                yield watch
        except asyncio.CancelledError:
            if not self._left:
                await self._stop(key)
            raise
        except (Unavailable, UnreadableAnswer):
            await self._stop(key)
            raise

    async def _send(self, key: str, graph: Graph, workflow: Template, request: Asked) -> None:
        """Put a prompt into the server's queue once, even if the answer is lost."""
        sending = asyncio.ensure_future(self._server.send(key, graph))
        self._none_on_its_way.clear()
        sending.add_done_callback(lambda _: self._none_on_its_way.set())
        try:
            answer = await undisturbed(sending)
        except asyncio.CancelledError:
            # It may still arrive, so the stop must be sent after it.
            with suppress(BackendError, TimeoutError):
                async with timeout(STOP_S / 2):
                    await sending
            raise
        except HttpRefused as refused:
            raise refused_prompt(refused, workflow, request) from refused
        except (Unavailable, UnreadableAnswer):
            if await self._server.look(key) is Stage.UNKNOWN:
                raise
            return  # only the answer was lost
        if accepted_in_part(answer):
            await self._stop(key)
            raise refusal(answer, workflow, request)

    async def _until_ended(self, key: str, watch: Watch) -> Ended:
        """Poll at every hint and at intervals until the attempt has ended.

        When the server reports success, the result is read later: it is idle until this returns.
        """
        await watch.settled()
        clock = asyncio.get_running_loop().time
        answered_at, failures, unknown = clock(), 0, 0
        while not watch.done:
            try:
                seen = await self._server.look(key, said_ended=watch.said_ended)
            except (Unavailable, UnreadableAnswer):
                failures += 1
                if failures > 2 and clock() - answered_at > GRACE_S:
                    raise
            else:
                if isinstance(seen, Ended):
                    return seen
                if seen is Stage.WAITING:
                    await self._tell_ahead(key, watch)
                elif seen is Stage.RUNNING:
                    watch.runs()
                answered_at, failures = clock(), 0
                unknown = unknown + 1 if seen is Stage.UNKNOWN else 0
            if unknown > 1:  # once may be a look at the moment it moves between two lists
                raise _forgotten(watch)
            if not unknown:
                await watch.wait(ASK_S, ASK_LOST_S)
        return watch.told

    async def _tell_ahead(self, key: str, watch: Watch) -> None:
        # Optional: the next look notices when the server is away.
        with suppress(Unavailable, UnreadableAnswer):
            watch.waits_behind(await self._server.ahead(key))

    async def _stop(self, key: str) -> None:
        """Stop an attempt on the server, even if this call is cancelled again."""
        self._stopped[key] = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._stop_on_server(key))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)
        await undisturbed(task)

    async def _stop_on_server(self, key: str) -> None:
        try:
            async with timeout(STOP_S):
                await self._server.stop(key)
        except (BackendError, TimeoutError) as error:
            log.info("%s: attempt %s could not be stopped: %s", self._name, key, error)


def _forgotten(watch: Watch) -> BackendError:
    """Return what it means that the server does not know an attempt any more."""
    if watch.unbroken:
        return ResultGone("the server does not know the attempt any more")
    return Unavailable("the server does not know the attempt any more: restarted?")
