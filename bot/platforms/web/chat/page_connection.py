"""The WebSocket connection of an open page, for both the chat and the operator's page.

A WebSocket has three advantages over server-sent events with POSTs. A person's messages stay in
order. A repeated message needs no cookie handling. And browsers allow only six event streams per
site, which seven tabs would exhaust.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import TypeAdapter, ValidationError

from bot.core.platform import ChatLease
from bot.http.clients import TokenBucket, sparing
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.protocol import Language, NotTaken
from bot.texts.catalogue import language_of
from queueing.core.bounded_json import TooManyValues, require_few_values
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import Fenced, StoreError
from queueing.core.requests import Record

_log = sparing(logging.getLogger(__name__))

FRAMES_PER_S = 30.0
FRAMES_BURST = 150
HEARTBEAT_S = 20.0
CLOSE_S = 2.0  # time a page has to close its connection
TOO_MANY_TABS = 4429  # a close code, for the same reason as NOT_KNOWN
NOT_KNOWN = 4401  # a close code, because browsers do not show pages why a handshake was refused
MAX_VALUES = 5_000  # in a frame's JSON; the largest frames are long texts, not many values
MAX_REPLIES = 200  # queued for a page that does not read them

Message = TypeVar("Message")


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSession:
    """Who opened a page, and until when it may stay open.

    `chosen` is the person's own language, `language` their browser's. `known` returns whether the
    page's token is still valid. `lease` is held while this process serves the pages.
    """

    socket: web.WebSocketResponse
    person: WebPerson
    calls: Calls
    chosen: str | None
    language: str | None
    known: Callable[[], bool]
    lease: ChatLease


class PageConnection(ABC, Generic[Message]):
    """Handles a page's frames in order, and sends it news whenever it is woken.

    News is read at the moment of sending, so a slow page gets the newest state and never a backlog.
    """

    def __init__(self, seat: PageSession, frames: TypeAdapter[Message]) -> None:
        self.person = seat.person
        self.known = seat.known
        self._seat = seat
        self._frames = frames
        self._calls = seat.calls
        self._language = seat.chosen or seat.language
        self._replies: deque[Record] = deque()
        self._woken = asyncio.Event()
        self._bucket = TokenBucket(per_s=FRAMES_PER_S, burst=FRAMES_BURST)

    @abstractmethod
    async def _carry_out(self, message: Message) -> None:
        """Handle one frame."""

    @abstractmethod
    async def _send_news(self) -> None:
        """Send everything the page does not show yet."""

    def wake(self) -> None:
        """Schedule sending news. Calls before it is sent are merged."""
        self._woken.set()

    def speak(self, chosen: str | None) -> None:
        """Switch the page to the person's chosen language, or else the browser's."""
        language = chosen or self._seat.language
        if language != self._language:
            self._language = language
            self._reply(Language(language=language_of(language)))

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        async with TaskGroup() as group:
            writer = group.create_task(self._write())
            try:
                await self._read()
            finally:
                writer.cancel()

    async def close(self) -> None:
        """Close the connection because the server stops. The page reconnects by itself."""
        await self._seat.socket.close(code=WSCloseCode.GOING_AWAY)

    # ------------------------------------------------------------ from the page

    async def _read(self) -> None:
        async for frame in self._seat.socket:
            too_many = not self._bucket.take(asyncio.get_running_loop().time())
            if frame.type is not WSMsgType.TEXT or too_many or len(self._replies) > MAX_REPLIES:
                await self._seat.socket.close(code=WSCloseCode.POLICY_VIOLATION)
                return
            if not await self._may_go_on():
                return
            await self._take(frame.data)

    async def _take(self, text: str) -> None:
        try:
            require_few_values(text.encode(), MAX_VALUES)
            message = self._frames.validate_json(text)
        except TooManyValues:
            await self._seat.socket.close(code=WSCloseCode.POLICY_VIOLATION)
            return
        except ValidationError as error:
            count = error.error_count()
            _log.info("web chat: %s sent an invalid frame: %d errors", self.person.id, count)
            self._reply(NotTaken(key=None, reason="invalid"))
            return
        try:
            await self._carry_out(message)
        except Exception as error:  # noqa: BLE001  # no frame, whatever it contains, ends the page
            if isinstance(error, Fenced) or not self._seat.lease.held:
                await self.close()  # no reply, so the page repeats it to the new process
                return
            _log.exception("web chat: a frame from %s failed", self.person.id)
            reason = "not-stored" if isinstance(error, StoreError) else "invalid"
            self._reply(NotTaken(key=getattr(message, "key", None), reason=reason))

    async def _may_go_on(self) -> bool:
        """Return whether the page may stay open; otherwise close it."""
        if not self.known():  # the token was revoked while the page was open
            await self._seat.socket.close(code=NOT_KNOWN)
        elif not self._seat.lease.held:
            await self.close()
        else:
            return True
        return False

    # ------------------------------------------------------------ to the page

    def _reply(self, record: Record) -> None:
        self._replies.append(record)
        self._woken.set()

    async def _write(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not await self._may_go_on():
                return
            while self._replies:
                await self._send(self._replies.popleft().model_dump_json())
            await self._send_news()

    async def _send(self, text: str) -> None:
        # The reader notices the lost connection. A new page reads everything it missed.
        try:
            await self._seat.socket.send_str(text)
        except ConnectionError:
            _log.debug("web chat: a page of %s disconnected", self.person.id)
