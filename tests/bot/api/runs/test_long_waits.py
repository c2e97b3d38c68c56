"""What a stream sends while its job waits in the queue for a quarter of an hour."""

import asyncio
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.runs.alarm import Alarm
from bot.api.runs.answers import AnswerSender, WaitLimits
from bot.api.runs.attendance import Attendance
from bot.api.runs.runs import Runs
from queueing.core.jobs import stand_in
from tests.simulation.loop import run

if TYPE_CHECKING:
    from aiohttp import web

WAITED_S = 900.0
LANGCHAIN_S = 120.0
"""Its async streams give up so long after a chunk; comments do not count."""
SELDOM_S = 100.0
"""Careless clients read the first choice of a chunk, and these have none."""
MOST_S, LEAST_S = 15.0, 5.0  # between two comments


class Written:
    """The pieces of a response, each with the time it was written."""

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []

    async def write(self, data: bytes) -> None:
        self.pieces.append((asyncio.get_running_loop().time(), data))

    def times(self, beginning: bytes) -> list[float]:
        return [at for at, data in self.pieces if data.startswith(beginning)]


class NoQueue:
    """A queue that knows nothing of the job."""

    async def standings(self, _jobs: Any) -> dict[int, Any]:
        return {}


def test_no_client_gives_up_and_none_gets_more_than_it_can_bear() -> None:
    """LangChain fails after two minutes without a chunk; other clients fail at each empty one."""

    async def scenario() -> tuple[Written, bytes]:
        queue = cast("Any", NoQueue())
        runs, written = Runs(queue, queue), Written()
        answering = AnswerSender(runs, queue, queue, WaitLimits(), Attendance(queue))
        job = stand_in(1, "llama", 0.0)
        writer = ChatStream(heading=Heading(id="chatcmpl-1", model="llama", created=0))
        with runs.watch(job) as (waiting, news), closing(Alarm(news)) as alarm:
            response = cast("web.StreamResponse", written)
            following = asyncio.create_task(
                answering._follow(response, waiting, news, writer, alarm)
            )
            await asyncio.sleep(WAITED_S)
            runs.close()
            end = await following
            assert end is not None
            return written, end

    written, end = run(scenario())
    chunks = [0.0, *written.times(b"data: "), WAITED_S]
    gaps = [later - earlier for earlier, later in pairwise(chunks)]
    assert max(gaps) < LANGCHAIN_S
    assert min(gaps[:-1]) >= SELDOM_S
    comments = [*written.times(b": usher"), WAITED_S]
    gaps = [later - earlier for earlier, later in pairwise(comments)]
    assert max(gaps) <= MOST_S
    assert min(gaps[:-1]) >= LEAST_S
    assert b"stopping" in end
