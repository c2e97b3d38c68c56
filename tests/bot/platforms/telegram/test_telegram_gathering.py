"""Parts of albums in virtual time: gathered while they come, confirmed when they are durable."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Bot, Update

from bot.core.arrivals import Arrival, Arrivals
from bot.platforms.telegram.updates import ALBUM_MOST, ALBUM_QUIET_S, Updates
from queueing.core.concurrency import TaskGroup
from tests.simulation.loop import run


class Server:
    """A Bot API that hands out updates as they come, again and again until they are confirmed.

    `durable` are the messages whose request is safe, `served` those that were handed on together.
    """

    def __init__(self, arrivals: Sequence[tuple[float, str | None]]) -> None:
        self._coming = [
            (at, _update(number, album)) for number, (at, album) in enumerate(arrivals, 1)
        ]
        self.durable: set[int] = set()
        self.served: list[tuple[int, ...]] = []
        self.confirmed = 0
        self._arrivals = Arrivals()

    async def get_updates(self, *, offset: int | None, timeout: float, **_: Any) -> list[Update]:  # noqa: ASYNC109
        now = asyncio.get_running_loop().time
        if offset is not None:
            assert set(range(1, offset)) <= self.durable, "was confirmed and could still be lost"
            self.confirmed = max(self.confirmed, offset - 1)
        until = now() + timeout
        while not (there := self._there(now())) and now() < until:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.25)
        return there

    def _there(self, now: float) -> list[Update]:
        return [
            update for at, update in self._coming if at <= now and update.update_id > self.confirmed
        ]

    def arrived(self, update: Update) -> Arrival:
        return self._arrivals.take("telegram:7", "7")

    async def serve(self, updates: Sequence[Update], arrival: Arrival) -> None:
        await asyncio.sleep(0.3)  # until it is in the database
        numbers = tuple(update.update_id for update in updates)
        self.durable |= set(numbers)
        self.served.append(numbers)


def _update(number: int, album: str | None) -> Update:
    message: dict[str, Any] = {
        "message_id": number,
        "date": 1,
        "chat": {"id": 7, "type": "private"},
        "media_group_id": album,
    }
    update = Update.de_json({"update_id": number, "message": message}, None)
    assert update is not None
    return update


async def _live(server: Server, seconds: float) -> None:
    """Receive for that long, then die without another word."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), TaskGroup() as tasks:
            await Updates(cast("Bot", server), server.arrived, server.serve, tasks).receive()


def gathered(*arrivals: tuple[float, str | None]) -> list[tuple[int, ...]]:
    server = Server(arrivals)
    run(_live(server, 60.0))
    return server.served


def test_an_album_is_whole_when_no_part_has_come_for_a_while() -> None:
    """An image that is uploaded a little later would be a request of its own."""
    slow = [(0.8 * ALBUM_QUIET_S * number, "a") for number in range(4)]
    assert gathered(*slow) == [(1, 2, 3, 4)]
    assert gathered((0.0, "a"), (3 * ALBUM_QUIET_S, "a")) == [(1,), (2,)]


def test_other_messages_do_not_wait_for_an_album() -> None:
    """A /cancel would take as long as a person's holiday images."""
    assert gathered((0.0, "a"), (0.0, None), (0.0, "b"), (0.5, "a")) == [(2,), (3,), (1, 4)]


def test_an_album_that_is_as_large_as_can_be_waits_for_nothing() -> None:
    """Ten images would wait for an eleventh."""
    server = Server([(0.0, "a")] * ALBUM_MOST)
    run(_live(server, ALBUM_QUIET_S / 2))
    assert server.served == [tuple(range(1, ALBUM_MOST + 1))]


@settings(max_examples=25)
@given(
    gaps=st.lists(
        st.tuples(st.floats(0, 4), st.sampled_from([None, "a", "b"])), min_size=1, max_size=8
    ),
    lives=st.lists(st.floats(0.1, 6), max_size=4),
)
def test_no_part_is_lost_whenever_the_bot_dies(
    gaps: list[tuple[float, str | None]], lives: list[float]
) -> None:
    """An image would be confirmed to Telegram, and be gone with the crash."""
    at, arrivals = 0.0, []
    for gap, album in gaps:
        at += gap
        arrivals.append((at, album))
    server = Server(arrivals)

    async def scenario() -> None:
        for seconds in lives:
            await _live(server, seconds)
        await _live(server, 90.0)

    run(scenario())
    assert server.durable == set(range(1, len(gaps) + 1))
    assert server.confirmed == len(gaps)
