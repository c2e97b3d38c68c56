"""Messages of long queues are checked a few at a time, between all other work."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from bot.core.content import Content
from bot.core.origin import Origin
from bot.delivery import standings
from bot.delivery.standings import StaleMessages
from bot.delivery.status_message import StatusMessage
from queueing.core.jobs import Job, stand_in
from queueing.core.status import Standing
from tests.simulation.loop import in_virtual_time, run

if TYPE_CHECKING:
    from bot.core.queue import QueueStatus

WAITING = 1000
A_FEW = 50
SEVERAL = 1000  # only asked whether they are to be looked at


class Time:
    """The virtual loop's own time, long after the epoch."""

    def now(self) -> float:
        return 1e9 + asyncio.get_running_loop().time()


@dataclass
class Queue:
    """A queue that answers at once, and records which jobs it was asked about together."""

    asked: list[list[int]] = field(default_factory=list)
    looked: Callable[[], None] = lambda: None

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        self.asked.append([job.id for job in jobs])
        self.looked()
        return {job.id: Standing(job=job, shown="pending", position=job.id) for job in jobs}


def line() -> list[StatusMessage]:
    """Return the messages of a queue that are all outdated."""
    return [
        StatusMessage(
            job=stand_in(number, "flux", 0.0),
            origin=Origin(
                platform="telegram",
                chat=str(number),
                group=False,
                user="telegram:1",
                user_name="u",
                key=str(number),
                language="en",
            ),
            shown=Content(body=("before",)),
            changed=False,
        )
        for number in range(1, WAITING + 1)
    ]


async def look(queue: Queue, messages: Sequence[StatusMessage]) -> list[StatusMessage]:
    """Return the messages that the first check finds outdated."""
    stale: list[StatusMessage] = []
    looking = StaleMessages(
        status=cast("QueueStatus", queue),
        messages=messages,
        draw=lambda _message, _standing: Content(body=("now",)),
        stale=stale.append,
        clock=Time(),
    )
    task = asyncio.ensure_future(looking.run())
    await asyncio.sleep(0.5)
    task.cancel()
    return stale


def test_other_work_goes_on_while_a_long_line_is_looked_at() -> None:
    """Every call would wait until thousands of messages had been compared."""
    queue, messages = Queue(), line()
    called: list[int] = []  # how often the queue had been asked when each call was answered

    def call() -> None:
        asyncio.get_running_loop().call_soon(lambda: called.append(len(queue.asked)))

    queue.looked = call
    assert run(look(queue, messages)) == messages
    assert max(map(len, queue.asked)) <= A_FEW
    assert called == list(range(1, len(queue.asked) + 1))


@in_virtual_time
async def test_other_work_goes_on_while_it_is_found_out_what_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call would wait until ten thousand messages had been skipped, again and again."""
    queue, messages = Queue(), line() * 5
    is_watched, passed, turns = standings._watched, list[StatusMessage](), list[int]()

    def watched(message: StatusMessage) -> bool:
        passed.append(message)
        return is_watched(message)

    def turn() -> None:
        turns.append(len(passed))
        if not queue.asked:
            asyncio.get_running_loop().call_soon(turn)

    monkeypatch.setattr(standings, "_watched", watched)
    asyncio.get_running_loop().call_soon(turn)
    await look(queue, messages)
    assert max(turns) >= len(messages)
    assert max(after - before for before, after in pairwise(turns)) <= SEVERAL + A_FEW


def test_the_first_of_a_long_line_are_looked_at_first() -> None:
    """The people whose turn comes next would be informed last."""
    queue, messages = Queue(), line()
    for message in messages:
        message.stand(Standing(job=message.job, shown="pending", position=message.job.id))
    messages.reverse()
    run(look(queue, messages))
    assert 1 in queue.asked[0]


def test_what_is_dropped_meanwhile_is_not_asked_about() -> None:
    """A message would be edited whose job has been deleted."""
    queue, messages = Queue(), line()

    def drop() -> None:
        messages[-1].dropped = True

    queue.looked = drop
    assert messages[-1] not in run(look(queue, messages))
    assert all(WAITING not in asked for asked in queue.asked)
