"""Follows one attempt on a ComfyUI server by its websocket, and wakes the task that awaits its end.

A socket may be lost, silent or half-open without notice, so its messages decide nothing here. The
module reports progress, signals when to poll the server, and collects the reported outputs.
"""

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import aiohttp
from pydantic import Field, JsonValue
from yarl import URL

from backends.comfyui.answers import Ended, files_of
from backends.comfyui.workflow.graph.analysis import planned_steps
from backends.comfyui.workflow.graph.nodes import Graph, upstream_of
from backends.common.websocket import MESSAGE_LIMIT
from queueing.core.bounded_json import BoundedRecord, require_few_values
from queueing.core.concurrency import came
from queueing.core.ports import Report
from queueing.core.requests import File, Progress

HANDSHAKE = json.dumps({"type": "feature_flags", "data": {"supports_preview_metadata": True}})
"""The first frame of every connection. It requests previews that name their prompt."""

_LABELLED_PREVIEW = 4  # binary frame type: an image with a JSON header
_SAMPLER_WEIGHT = 30  # the sampler takes most of the time; every other node weighs 1
_STEPS_MOST = 100_000  # a larger number is invalid
_SUFFIXES = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


class MessageData(BoundedRecord):
    """The fields used from all message types; unknown fields are ignored."""

    prompt_id: str | None = None
    node: str | None = None
    nodes: list[str] | None = None
    value: float | None = Field(default=None, ge=0, le=_STEPS_MOST)
    max: float | None = Field(default=None, ge=0, le=_STEPS_MOST)
    output: JsonValue = None


class Message(BoundedRecord):
    """One text message from the server."""

    type: str
    data: MessageData

    def ends(self, key: str) -> bool:
        """Whether the server has finished this attempt and written its history."""
        return self.type == "executing" and self.data.prompt_id == key and self.data.node is None

    def begins(self, key: str) -> bool:
        """Whether this attempt begins; later messages report its nodes' outputs."""
        return self.type == "execution_start" and self.data.prompt_id == key

    def made(self, key: str) -> dict[str, JsonValue]:
        """Return the output that a node of this attempt reports; empty for other messages."""
        mine = self.type == "executed" and self.data.prompt_id == key
        return self.data.output if mine and isinstance(self.data.output, dict) else {}

    def succeeds(self, key: str) -> bool:
        """Whether every node of this attempt has run. Its history is not written yet."""
        return self.type == "execution_success" and self.data.prompt_id == key


class _PreviewHeader(BoundedRecord):
    prompt_id: str
    image_type: str = "image/jpeg"


def read_message(text: str) -> Message | None:
    """Return a text message; None for other types and invalid text."""
    try:
        require_few_values(text.encode(errors="replace"))
        return Message.model_validate_json(text)
    except ValueError:  # TooManyValues, or a ValidationError
        return None


def read_preview(frame: bytes, key: str) -> File | None:
    """Return the image in a binary frame if it belongs to this attempt, or else None.

    Drops unlabelled frames, because the server broadcasts other people's previews in them.
    """
    try:
        kind, length = struct.unpack_from(">II", frame)
        require_few_values(frame[8 : 8 + length])
        header = _PreviewHeader.model_validate_json(frame[8 : 8 + length])
    except (struct.error, ValueError):
        return None
    suffix = _SUFFIXES.get(header.image_type)
    if kind != _LABELLED_PREVIEW or header.prompt_id != key or suffix is None:
        return None
    return File(name=f"preview.{suffix}", mime=header.image_type, data=frame[8 + length :])


class Tracker:
    """Tracks one attempt through its graph; its fraction and steps never decrease.

    The steps of all samplers are added up: a video's second expert continues the count of the
    first.
    """

    def __init__(self, key: str, graph: Graph) -> None:
        self._key = key
        self._graph = graph
        self._steps = planned_steps(graph)  # per sampler; 0 until known
        self._knows_samplers = bool(self._steps)
        self._weights = {
            node_id: _SAMPLER_WEIGHT if node_id in self._steps else 1 for node_id in graph
        }
        self._done: set[str] = set()
        self._current: str | None = None
        self._fraction = 0.0
        self._made = 0  # steps reported

    def follow(self, message: Message) -> Progress | None:
        """Return this attempt's progress from a message, or None."""
        data = message.data
        if data.prompt_id != self._key:
            return None
        match message.type:
            case "execution_start":
                return self._progress()
            case "execution_cached":
                self._done.update(data.nodes or ())
                return self._progress()
            case "executing" if data.node is not None:
                self._enter(data.node)
                total = sum(self._steps.values())
                between = 0 < self._made < total  # the next sampler continues the count
                return self._progress(step=(self._made, total) if between else None)
            case "progress" if data.value is not None and data.max:
                self._enter(data.node)
                steps = max(int(data.max), 1)  # some nodes count to 1 in fractions
                return self._stepped(data.node, min(int(data.value), steps), steps)
            case _:
                return None

    def _stepped(self, node: str | None, made: int, steps: int) -> Progress:
        slow = steps > 1 and not self._knows_samplers
        if node is not None and node in self._weights and slow:
            self._steps[node], self._weights[node] = steps, _SAMPLER_WEIGHT
        if node is None or node not in self._steps:
            return self._progress(within=made / steps)
        self._steps[node] = steps  # the server's number is exact
        earlier = sum(self._steps[each] for each in self._done & self._steps.keys() - {node})
        total = sum(self._steps.values())
        self._made = max(self._made, min(earlier + made, total))
        return self._progress(within=made / steps, step=(self._made, max(total, self._made)))

    def _enter(self, node: str | None) -> None:
        if node == self._current:
            return
        if self._current is not None:
            self._done.add(self._current)
        self._current = node
        if node is not None:  # earlier messages may have been missed
            self._done |= upstream_of(self._graph, node)

    def _progress(self, *, within: float = 0.0, step: tuple[int, int] | None = None) -> Progress:
        current = self._weigh({self._current} - self._done)
        done = self._weigh(self._done) + min(within, 1.0) * current
        total = sum(self._weights.values()) or 1
        self._fraction = max(self._fraction, min(done / total, 1.0))
        return Progress(fraction=self._fraction, step=step if step and step[1] > 1 else None)

    def _weigh(self, nodes: Collection[str | None]) -> float:
        return sum(self._weights.get(node, 0) for node in nodes if node is not None)


log = logging.getLogger(__name__)

CONNECT_S = 0.5  # after this, polling begins without the websocket
RECONNECT_S = 1.0
OUTPUTS_LIMIT = 1024 * 1024  # characters of messages; a file takes about a hundred
SILENCE_S = 15.0  # silence before reconnecting; a slow step may take longer


class Watch:
    """Listens for one attempt, with the attempt's key as client id.

    A separate id for each attempt protects it from a half-open socket of an earlier one. After a
    crash of the bot, the same id receives the attempt's remaining messages.
    """

    def __init__(
        self, url: URL, key: str, graph: Graph, report: Report, *, proxy: str | None = None
    ) -> None:
        self._url = url.with_query({"clientId": key})
        self._proxy = proxy
        self._key = key
        self._tracker = Tracker(key, graph)
        self._report = report
        self._last = Progress()
        self.said_ended = False  # a hint: the history should contain the end
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
        """Whether the connection has never broken, so the server cannot have restarted."""
        return self._connected and not self._breaks

    @property
    def told(self) -> Ended:
        """A successful attempt's result by its messages; no files if some may be missing."""
        return Ended(files=files_of(self._outputs or ()), told=True)

    def waits_behind(self, ahead: int) -> None:
        """Report how many prompts are ahead, if that number has changed."""
        if ahead and ahead != self._last.ahead:
            self._report_progress(Progress(ahead=ahead))

    def runs(self) -> None:
        """Report that the attempt has begun, unless it has reported progress."""
        if self._last.fraction is None:
            self._report_progress(Progress(fraction=0.0))

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
        """Wait until connected, for at most `CONNECT_S`; messages sent before are missed."""
        await came(self._settled, CONNECT_S)

    async def wait(self, live_s: float, lost_s: float) -> None:
        """Wait until the server should be polled: after a hint or a time.

        `live_s` is the longest wait while the socket is open, and `lost_s` while it is closed.
        """
        await came(self._wake, live_s if self._connected else lost_s)
        self._wake.clear()

    async def _listen(self, session: aiohttp.ClientSession) -> None:
        while True:
            try:
                await self._receive(session)
            except (aiohttp.ClientError, OSError) as error:
                log.debug("attempt %s: websocket: %s", self._key, type(error).__name__)
            finally:
                self._connected, self._outputs = False, None
            self._breaks += 1
            self._settled.set()
            self._wake.set()  # a lost socket often means that the server is down
            await asyncio.sleep(RECONNECT_S)

    async def _receive(self, session: aiohttp.ClientSession) -> None:
        """Connect and listen until the socket ends or is silent for `SILENCE_S`."""
        async with session.ws_connect(
            self._url,
            proxy=self._proxy,
            max_msg_size=MESSAGE_LIMIT,
            heartbeat=20,
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),  # a half-open peer never replies
        ) as socket:
            await socket.send_str(HANDSHAKE)
            while True:
                message = await socket.receive(timeout=SILENCE_S)
                match message.type:
                    case aiohttp.WSMsgType.TEXT:
                        self._handle_text(message.data)
                    case aiohttp.WSMsgType.BINARY:
                        self._handle_frame(message.data)
                    case _:
                        return

    def _handle_text(self, text: str) -> None:
        # The first message shows that the server has registered the client, so it misses nothing
        # from here on.
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
            self._report_progress(progress)

    def _keep_output(self, message: Message, size: int) -> None:
        """Collect the attempt's outputs from its first message on, up to `OUTPUTS_LIMIT`."""
        if message.begins(self._key):
            self._outputs, self._outputs_size = [], 0
        if self._outputs is not None and (made := message.made(self._key)):
            self._outputs.append(made)
            self._outputs_size += size
            if self._outputs_size > OUTPUTS_LIMIT:
                self._outputs = None

    def _handle_frame(self, frame: bytes) -> None:
        preview: File | None = read_preview(frame, self._key)
        if preview is not None:
            self._report_progress(replace(self._last, preview=preview))

    def _report_progress(self, progress: Progress) -> None:
        self._last = replace(progress, preview=None)
        self._report(progress)
