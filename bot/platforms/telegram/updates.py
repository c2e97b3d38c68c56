"""Fetches updates, collects those of one act, and confirms each only once it has been handled.

Telegram forgets an update as soon as a later request passes it. So the offset moves only past
updates whose effects are durable, and a crash makes Telegram send the others again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from telegram import Bot, Update
from telegram.error import InvalidToken, NetworkError, RetryAfter, TelegramError
from telegram.request import HTTPXRequest

from backends.common.proxies import through
from bot.core.arrivals import Arrival
from bot.core.errors import ServedElsewhere
from bot.core.platform import ChatLease
from bot.platforms.telegram.acts import act_of, belongs, most_of, wait_s
from bot.platforms.telegram.errors import pause_s
from queueing.core.concurrency import TaskGroup, came, timeout

# Telegram remembers the list, so it is always sent.
ALLOWED_UPDATES = ("message", "callback_query", "my_chat_member")
POLL_S = 30
SETTLE_S = 0.5  # longest time a slow call delays the next request for updates
CONFIRM_S = 0.3  # for the last confirmation during a stop
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

_log = logging.getLogger(__name__)

Arrived = Callable[[Update], Arrival]
"""Reserves an update's place after its sender's earlier updates in the chat."""

Answered = Callable[[], None]
"""Records that Telegram answers again."""

Serve = Callable[[Sequence[Update], Arrival], Awaitable[None]]
"""Handles an update, or all updates of one act together. On return, they may be confirmed.

The `Arrival` is that of the first part. Must not raise.
"""


@dataclass(frozen=True, slots=True)
class _Came:
    """An update that is not handled yet, and its reserved place."""

    update: Update
    arrival: Arrival


@dataclass(slots=True)
class _Act:
    """The parts of an act that have arrived but are not handled yet."""

    parts: deque[_Came] = field(default_factory=deque)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    whole: bool = False  # nothing that comes later belongs to it

    def end(self) -> None:
        """Stop waiting for parts."""
        self.whole = True
        self.more.set()


class Updates:
    """Handles updates concurrently and starts them in order. Parts of an act wait for each other.

    `in_groups` is whether the bot receives all messages of groups. `serving` owns the tasks. Memory
    is bounded: Telegram returns at most a hundred updates, and unconfirmed ones are among them in
    every request.
    """

    def __init__(
        self,
        bot: Bot,
        arrived: Arrived,
        serve: Serve,
        serving: TaskGroup,
        answered: Answered = lambda: None,
        *,
        in_groups: bool = False,
    ) -> None:
        self._bot = bot
        self._in_groups = in_groups
        self._answered = answered
        self._arrived = arrived
        self._serve = serve
        self._serving = serving
        self._done: dict[int, bool] = {}  # whether each update is handled, by id, in order
        self._acts: dict[Hashable, _Act] = {}
        self._busy = 0  # number of running tasks
        self._failed = True  # no request has succeeded since the start or the last failure
        self._settled = asyncio.Event()  # no task runs, or one waits for another request
        self._looked = asyncio.Event()  # replaced after each request for updates
        self._looked_at = 0.0  # when the last completed request began

    async def receive(self) -> None:
        """Receive until cancelled. Raises `InvalidToken` if Telegram rejects the token."""
        pauses = pauses_s()
        while True:
            try:
                await self._look()
                if self._failed:
                    self._answered()
                pauses, self._failed = pauses_s(), False
            except InvalidToken:
                raise
            except RetryAfter as limit:
                await asyncio.sleep(pause_s(limit))
            except TelegramError as error:
                # This includes `Conflict` (409): another process polls with this token.
                pause, self._failed = next(pauses), True
                if isinstance(error.__cause__, ServedElsewhere):  # this process is about to stop
                    _log.info(
                        "this process no longer holds Telegram's lease; not polling for updates"
                    )
                else:
                    _log.warning(
                        "cannot get updates from Telegram, retrying in %.0f s: %s", pause, error
                    )
                await asyncio.sleep(pause)

    async def _look(self) -> None:
        """Request updates once and start handling the new ones.

        The request confirms those before them. After a failure it does not wait for any, so that
        the end of an outage is known at once.
        """
        began_at = asyncio.get_running_loop().time()
        offset = self._offset()
        updates = await self._bot.get_updates(
            offset=offset,
            timeout=0 if self._busy or self._failed else POLL_S,
            allowed_updates=ALLOWED_UPDATES,
        )
        self._forget(offset)
        for update in updates:
            if update.update_id not in self._done:
                self._done[update.update_id] = not self._start_handling(update)
        self._looked_at = began_at
        self._looked.set()
        self._looked = asyncio.Event()
        await self._settle()

    async def confirm(self) -> None:
        """Confirm handled updates before a stop, so that the next process does not receive them.

        The next process handles the rest. Never raises, and takes at most 0.3 s, because another
        process may be waiting for the lease.
        """
        if not any(self._done.values()):
            return
        try:
            async with timeout(CONFIRM_S):
                await self._bot.get_updates(
                    offset=self._offset(), timeout=0, limit=1, allowed_updates=ALLOWED_UPDATES
                )
        except (TelegramError, TimeoutError) as error:
            _log.debug(
                "could not confirm the last updates, Telegram may send them again: %r", error
            )

    def _offset(self) -> int | None:
        """Return the first update that is not handled yet, or None if all are confirmed.

        After a week of silence Telegram restarts its numbers at a random one, perhaps lower. An old
        offset would then confirm updates that were never seen.
        """
        if not self._done:
            return None
        return next(
            (number for number, done in self._done.items() if not done), max(self._done) + 1
        )

    def _forget(self, offset: int | None) -> None:
        """Drop the updates that a request with this offset has confirmed."""
        if offset is not None:
            for number in [number for number in self._done if number < offset]:
                del self._done[number]

    def _start_handling(self, update: Update) -> bool:
        """Start handling an update. Returns False if it cannot be read."""
        try:
            self._take(update)
        except Exception:  # noqa: BLE001  # it would be redelivered forever, before all others
            _log.exception("dropped update %d, which cannot be read", update.update_id)
            return False
        return True

    def _take(self, update: Update) -> None:
        came, key = _Came(update, self._arrived(update)), act_of(update)
        act = self._acts.get(key) if key is not None else None
        before = [part.update.message for part in act.parts] if act is not None else []
        if act is not None and not belongs(update.message, before):
            self._acts.pop(key).end()
            act = None
        if act is None:
            if key is None or not self._wait_s(came):
                self._begin(self._serve_parts((came,)))
                return
            act = self._acts[key] = _Act()
            self._begin(self._serve_act(key, act))
        act.parts.append(came)
        act.more.set()

    def _wait_s(self, came: _Came) -> float:
        return wait_s(came.update.message, in_groups=self._in_groups)

    def _begin(self, serving: Coroutine[Any, Any, None]) -> None:
        self._busy += 1
        self._settled.clear()
        self._serving.create_task(serving).add_done_callback(self._ended)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._busy -= 1
        if not self._busy:
            self._settled.set()

    async def _serve_act(self, key: Hashable, act: _Act) -> None:
        while act.parts:
            await self._serve_parts(await self._whole_act(act))
        if self._acts.get(key) is act:
            del self._acts[key]

    async def _serve_parts(self, parts: Sequence[_Came]) -> None:
        updates = [part.update for part in parts]
        with ExitStack() as places:
            for part in parts:
                places.enter_context(part.arrival)
            try:
                await self._serve(updates, parts[0].arrival)
            except Exception:  # noqa: BLE001  # it would be redelivered forever
                numbers = ", ".join(str(update.update_id) for update in updates)
                _log.exception("dropped update %s, which could not be handled", numbers)
        for update in updates:
            self._done[update.update_id] = True

    async def _whole_act(self, act: _Act) -> Sequence[_Came]:
        """Return an act's parts once none arrives for a while. Until then none is confirmed."""
        while not act.whole and len(act.parts) < most_of(act.parts[0].update.message):
            act.more.clear()
            quiet_s = self._wait_s(act.parts[-1]) or self._wait_s(act.parts[0])
            if not await came(act.more, quiet_s):
                await self._wait_for_part(act)
                if not act.more.is_set():
                    break
        parts = tuple(act.parts)
        act.parts.clear()
        return parts

    async def _wait_for_part(self, act: _Act) -> None:
        """Wait for another part, or for a new request that shows there is none."""
        now = asyncio.get_running_loop().time()
        while self._looked_at < now and not act.more.is_set():
            self._settled.set()
            await self._looked.wait()

    async def _settle(self) -> None:
        """Let running calls finish briefly, so that one request both confirms and polls."""
        if not self._busy:
            return
        if await came(self._settled, SETTLE_S):
            self._settled.clear()


def pauses_s() -> Iterator[float]:
    """Yield the pauses between failed requests, in seconds, without end."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE_S)


class Request(HTTPXRequest):
    """A connection that accepts only responses of the Bot API.

    Makes no request unless the `lease` is held. `proxy` is an HTTP proxy to go through; the library
    would obey the environment's, even for servers on this machine.
    """

    def __init__(self, *, lease: ChatLease, proxy: str | None = None, **how: Any) -> None:
        super().__init__(proxy=proxy, httpx_kwargs={"trust_env": False}, **how)
        self._lease = lease
        self._through = through(proxy)

    async def do_request(self, *given: Any, **named: Any) -> tuple[int, bytes]:
        """Make a request.

        Without the lease, the library raises `NetworkError` from `ServedElsewhere`. Errors name the
        proxy.
        """
        self._lease.require()
        try:
            return await super().do_request(*given, **named)
        except NetworkError as error:
            error.message += self._through
            raise

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return Telegram's response. Raises `TelegramError` for any other, such as a proxy's."""
        answer: Any = HTTPXRequest.parse_json_payload(payload)
        if not isinstance(answer, dict) or not answer.keys() & {"result", "description"}:
            raise TelegramError("the response is not from the Bot API")
        return answer


class UpdatesRequest(Request):
    """The connection for updates. Replaces updates the library cannot read with empty ones.

    The library rejects a whole batch if one update is unreadable. That update would never be
    confirmed, and would block all later ones.
    """

    async def do_request(self, *given: Any, **named: Any) -> tuple[int, bytes]:
        """Request updates. Raises if the lease was lost in the meantime.

        The updates stay unconfirmed, so the next holder receives them as well.
        """
        answer = await super().do_request(*given, **named)
        self._lease.require()
        return answer

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return Telegram's response with every update readable."""
        answer = Request.parse_json_payload(payload)
        if isinstance(answer.get("result"), list):
            read = (_readable(each) for each in answer["result"])
            answer["result"] = [update for update in read if update is not None]
        return answer


def _readable(update: Any) -> dict[str, Any] | None:
    """Return an update, emptied if it is unreadable, or None if it has no number."""
    number = update.get("update_id") if isinstance(update, dict) else None
    if not isinstance(number, int):
        _log.error("dropped an update without a number")
        return None
    try:
        found = Update.de_json(update, None)
        int(found.effective_chat.id if found.effective_chat else 0)
    except Exception:  # noqa: BLE001  # the library may fail with anything
        _log.exception("dropped update %s, which cannot be read", number)
        return {"update_id": number}
    return dict(update)
