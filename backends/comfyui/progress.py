"""Listens to a ComfyUI server for one attempt and wakes the task that waits for its end.

A socket may be lost, deaf or half-open without notice, so nothing is decided here. It reports
progress, signals when the server is worth asking, and keeps what the server says it made.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import aiohttp
from pydantic import JsonValue

from backends.comfyui.answers import Ended, files_of
from backends.comfyui.messages import HANDSHAKE, Message, Tracker, read_message, read_preview
from backends.comfyui.workflow.graph import Graph
from backends.common.websocket import MESSAGE_LIMIT
from queueing.core.concurrency import timeout
from queueing.core.ports import Report
from queueing.core.requests import File, Progress

log = logging.getLogger(__name__)

CONNECT_S = 0.5  # after this, polling begins; the websocket may follow
RECONNECT_S = 1.0
OUTPUTS_LIMIT = 1024 * 1024  # characters of messages; a file takes a hundred
SILENCE_S = 15.0  # silence of a connection before a new one is tried; a slow step may take longer


class Watch:
    """Listens for one attempt. The client id is the attempt's key.

    So each attempt has an id of its own that a half-open socket of an earlier attempt cannot
    disturb, and after a crash of the bot the same id receives the rest of the attempt's messages.
    """

    def __init__(self, url: str, key: str, graph: Graph, report: Report) -> None:
        self._url = f"{url}?clientId={key}"
        self._key = key
        self._tracker = Tracker(key, graph)
        self._report = report
        self._last = Progress()
        self.said_ended = False  # a hint: the history should contain the end by now
        self._wake = asyncio.Event()
        self._connected = False
        self._breaks = 0
        self._settled = asyncio.Event()  # connected, or the first try failed
        self._succeeded = False
        self.done = False  # the server reported that the attempt succeeded
        self._outputs: list[dict[str, JsonValue]] | None = None  # None: some may be missing
        self._outputs_size = 0

    @property
    def unbroken(self) -> bool:
        """Whether the server has been connected all along, so that it was not restarted."""
        return self._connected and not self._breaks

    @property
    def told(self) -> Ended:
        """What the server told of the end of an attempt that succeeded; no file if it told not all."""
        return Ended(files=files_of(self._outputs or ()), told=True)

    def waits_behind(self, ahead: int) -> None:
        """Report how many prompts are ahead, when that number has changed."""
        if ahead and ahead != self._last.ahead:
            self._tell(Progress(ahead=ahead))

    def runs(self) -> None:
        """Report that the attempt has begun, unless something about it has been heard."""
        if self._last.fraction is None:
            self._tell(Progress(fraction=0.0))

    @asynccontextmanager
    async def listening(self, session: aiohttp.ClientSession) -> AsyncIterator[None]:
        """Listen while the context lasts; connects in the background."""
        listener = asyncio.create_task(self._listen(session))
        try:
            yield
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    async def settled(self) -> None:
        """Return once connected, or soon without a connection; earlier messages are missed."""
        with suppress(TimeoutError):
            async with timeout(CONNECT_S):
                await self._settled.wait()

    async def wait(self, live_s: float, lost_s: float) -> None:
        """Return when the server is worth asking: a hint arrived, or time passed.

        `live_s` is the longest wait while the socket is open, `lost_s` while it is not.
        """
        with suppress(TimeoutError):
            async with timeout(live_s if self._connected else lost_s):
                await self._wake.wait()
        self._wake.clear()

    async def _listen(self, session: aiohttp.ClientSession) -> None:
        while True:
            try:
                await self._hear(session)
            except (aiohttp.ClientError, OSError) as error:
                log.debug("attempt %s: websocket: %s", self._key, type(error).__name__)
            finally:
                self._connected, self._outputs = False, None
            self._breaks += 1
            self._settled.set()
            self._wake.set()  # a lost socket often means a dead server
            await asyncio.sleep(RECONNECT_S)

    async def _hear(self, session: aiohttp.ClientSession) -> None:
        """Connect and listen until the socket ends or is silent for `SILENCE_S`."""
        async with session.ws_connect(
            self._url,
            max_msg_size=MESSAGE_LIMIT,
            heartbeat=20,
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),  # a half-open peer never answers
        ) as socket:
            await socket.send_str(HANDSHAKE)
            while True:
                message = await socket.receive(timeout=SILENCE_S)
                match message.type:
                    case aiohttp.WSMsgType.TEXT:
                        self._hear_text(message.data)
                    case aiohttp.WSMsgType.BINARY:
                        self._hear_frame(message.data)
                    case _:
                        return

    def _hear_text(self, text: str) -> None:
        # The first message shows that the server has registered the client: nothing is missed
        # from now on.
        self._connected = True
        self._settled.set()
        message = read_message(text)
        if message is None:
            return
        self._keep_output(message, len(text))
        self._succeeded = self._succeeded or message.succeeds(self._key)
        if message.ends(self._key):
            self.said_ended, self.done = True, self._succeeded
            self._wake.set()
        progress = self._tracker.follow(message)
        if progress is not None:
            self._tell(progress)

    def _keep_output(self, message: Message, size: int) -> None:
        """Keep what was made, from the attempt's first message to its last, unless it is too much."""
        if message.begins(self._key):
            self._outputs, self._outputs_size = [], 0
        if self._outputs is not None and (made := message.made(self._key)):
            self._outputs.append(made)
            self._outputs_size += size
            if self._outputs_size > OUTPUTS_LIMIT:
                self._outputs = None

    def _hear_frame(self, frame: bytes) -> None:
        preview: File | None = read_preview(frame, self._key)
        if preview is not None:
            self._tell(replace(self._last, preview=preview))

    def _tell(self, progress: Progress) -> None:
        self._last = replace(progress, preview=None)
        self._report(progress)
