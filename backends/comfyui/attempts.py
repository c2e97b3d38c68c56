"""Runs prompts on one ComfyUI server: sends each once, watches it, and stops it if cancelled.

Websocket messages are only hints (see `progress`), except the one that reports success. Every other
outcome is read from the server. A prompt is never sent again with the same id, because the server
would run it twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from yarl import URL

from backends.comfyui.answers import Ended, Stage
from backends.comfyui.errors import accepted_in_part, raise_if_failed, refusal, refused_prompt
from backends.comfyui.progress import Watch
from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.nodes import Asked, Graph
from backends.comfyui.workflow.template import Template
from backends.common.http_replies import HttpRefused
from backends.common.websocket import listener, opens
from queueing.core.concurrency import came, timeout, undisturbed
from queueing.core.errors import BackendError, ResultGone, Unavailable, UnreadableAnswer
from queueing.core.ports import Report

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

ASK_S = 2.0  # poll interval of a running attempt while its websocket is open
ASK_LOST_S = 0.5  # poll interval while it is closed
GRACE_S = 5.0  # how long a server may not answer before its attempt counts as lost
STOP_S = 2.5  # for a server to accept a stop; the bot's shutdown waits for it
GIVE_WAY_S = 0.25  # how long fetching a result waits while the next prompt is sent
STUCK_S = 60.0  # a stopped attempt may finish its node; after this, the worker hangs


class Attempts:
    """The attempts on one server, by key, including stopped ones that have not ended."""

    def __init__(
        self,
        server: ComfyUIServer,
        socket_url: URL,
        headers: Mapping[str, str],
        *,
        name: str,
        proxy: str | None = None,
    ) -> None:
        self._server = server
        self._socket_url = socket_url
        self._headers = headers
        self._proxy = proxy
        self._name = name
        self._session: aiohttp.ClientSession | None = None
        self._hears: bool | None = None  # whether the websocket opens, None before the first try
        self._stopped: dict[str, float] = {}  # stop times of attempts that have not ended
        self._stops: set[asyncio.Task[None]] = set()
        self._keeps_running = False  # whether cancelled attempts keep running on the server
        self._none_being_sent = asyncio.Event()
        self._none_being_sent.set()

    async def run(
        self, key: str, graph: Graph, workflow: Template, request: Asked, report: Report
    ) -> Ended:
        """Send a prompt and return how it ended, as far as the server reported it.

        Raises `BackendError` for a failed attempt. Cancelling the call stops the attempt on the
        server.
        """
        async with self._watching(key, graph, report) as watch:
            await watch.settled()  # listen first: the messages are needed if the history is cleared
            await self._send(key, graph, workflow, request)
            ended = await self._until_ended(key, watch)
        raise_if_failed(workflow, ended)
        return ended

    async def follow(self, key: str, workflow: Template, report: Report) -> Ended:
        """Watch a prompt that was sent earlier until it ends; returns and raises like `run`."""
        async with self._watching(key, workflow.nodes, report) as watch:
            ended = await self._until_ended(key, watch)
        raise_if_failed(workflow, ended)
        return ended

    def leave(self) -> None:
        """Let attempts keep running on the server when their callers are cancelled."""
        self._keeps_running = True

    async def give_way(self) -> None:
        """Wait while a prompt is being sent, because the server is idle until it arrives."""
        await came(self._none_being_sent, GIVE_WAY_S)

    async def hears(self) -> bool:
        """Return whether the server's websocket can be opened; tried once."""
        if self._hears is None:
            self._hears = await opens(self._socket_url, self._headers)
        return self._hears

    async def raise_if_stuck(self) -> None:
        """Raise `Unavailable` if the worker hangs: a stopped attempt still runs after `STUCK_S`."""
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
            await asyncio.wait(self._stops)  # each takes at most `STOP_S`
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _watching(self, key: str, graph: Graph, report: Report) -> AsyncIterator[Watch]:
        """Listen to an attempt; stop it on the server if the caller gives up."""
        if self._session is None:  # created here because it belongs to the running loop
            self._session = listener(self._headers)
        watch = Watch(self._socket_url, key, graph, report, proxy=self._proxy)
        try:
            async with watch.listening(self._session):
                yield watch
        except asyncio.CancelledError:
            if not self._keeps_running:
                await self._stop(key)
            raise
        except (Unavailable, UnreadableAnswer):
            await self._stop(key)
            raise

    async def _send(self, key: str, graph: Graph, workflow: Template, request: Asked) -> None:
        """Put a prompt into the server's queue once, even if the answer is lost."""
        sending = asyncio.ensure_future(self._server.send(key, graph))
        self._none_being_sent.clear()
        sending.add_done_callback(lambda _: self._none_being_sent.set())
        try:
            answer = await undisturbed(sending)
        except asyncio.CancelledError:
            # The prompt may still arrive, so stop it afterwards.
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

        Returns at once on a success message, because the server stays idle until then. The result
        is read later.
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
                    await self._report_ahead(key, watch)
                elif seen is Stage.RUNNING:
                    watch.runs()
                answered_at, failures = clock(), 0
                unknown = unknown + 1 if seen is Stage.UNKNOWN else 0
            if unknown > 1:  # a single miss may fall into its move between two lists
                raise _forgotten(watch)
            if not unknown:
                await watch.wait(ASK_S, ASK_LOST_S)
        return watch.told

    async def _report_ahead(self, key: str, watch: Watch) -> None:
        # Optional: the next poll notices if the server is away.
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
    """Return the error for an attempt that the server no longer knows."""
    if watch.unbroken:
        return ResultGone("the server no longer knows the attempt")
    return Unavailable("the server no longer knows the attempt; was it restarted?")
