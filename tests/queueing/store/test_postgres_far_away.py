"""A server that is far away: the number of round trips does not grow with the writer's work."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress

import pytest

from queueing.core.errors import StaleJob
from queueing.core.jobs import Job, JobEvent, SubmitLimits
from queueing.core.requests import Output, TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import IMAGE, NO_LIMITS, NOW, new

JOBS = 60
BETTER = TextToImage(prompt="a cat in the sun")
MOST_TURNS = 12
"""Ways to the server and back for all that one batch does, with some that only wait for a turn."""


class _Turns:
    """Counts how often the client speaks after the server did: each is a round trip."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard = True
        self.count = 0

    def said(self, *, by_client: bool) -> None:
        with self._lock:
            self.count += by_client and self._heard
            self._heard = not by_client


def _forward(source: socket.socket, target: socket.socket, turns: _Turns, *, out: bool) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            turns.said(by_client=out)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):  # the other thread was first
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def counting_proxy(port: int) -> Iterator[tuple[int, list[_Turns]]]:
    """Stand between clients and a server; count the turns of each connection, in order."""
    connections: list[_Turns] = []
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                sockets.extend((client, server))
                connections.append(turns := _Turns())
                for ends, out in (((client, server), True), ((server, client), False)):
                    thread = threading.Thread(
                        target=_forward, args=(*ends, turns), kwargs={"out": out}
                    )
                    threads.append(thread)
                    thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield int(listening.getsockname()[1]), connections
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for thread in threads:
            thread.join()
        for each in sockets:
            each.close()


async def refused(change: Awaitable[object]) -> None:
    """Wait for a change that comes too late."""
    with pytest.raises(StaleJob):
        await change


async def test_a_batch_costs_few_ways_to_the_server(postgres_url: str) -> None:
    """With a server in the next building, each step of 60 people would wait for 60 round trips."""
    address, _, place = postgres_url.partition("@127.0.0.1:")
    port, _, name = place.partition("/")
    with counting_proxy(int(port)) as (near, connections):
        database = await open_database(f"{address}@127.0.0.1:{near}/{name}")
        store = JobStore(database)
        await store.prepare()
        writing, reading = connections[-2:]

        async def turns_of(turns: _Turns, *steps: object) -> int:
            before = turns.count
            await asyncio.gather(*steps)  # type: ignore[call-overload]  # coroutines of any kind
            return turns.count - before

        news = [new(model=f"m{number}", owner=f"o{number % 7}") for number in range(JOBS)]
        found: dict[str, int] = {}
        found["accept"] = await turns_of(
            writing, *(store.add(each, NOW, limits=NO_LIMITS) for each in news)
        )
        found["prepare"] = await turns_of(writing, JobStore(database).prepare())
        found["heads"] = await turns_of(reading, store.queues(NOW, per_queue=1))
        numbers = [job.id for job in await store.open_jobs()]
        found["move"] = await turns_of(writing, *map(store.move_first, reversed(numbers)))
        found["replace"] = await turns_of(
            writing,
            *(store.replace_request(number, BETTER, files=(IMAGE,)) for number in numbers),
        )
        jobs: list[Job] = []
        for event in (JobEvent.START, JobEvent.RETRY, JobEvent.START, JobEvent.COMPLETE):
            jobs = await store.open_jobs()
            output = Output(text="done") if event is JobEvent.COMPLETE else None
            found[event] = await turns_of(
                writing, *(store.apply(job, event, NOW, output=output) for job in jobs)
            )
        found["stale"] = await turns_of(
            writing, *(refused(store.apply(job, JobEvent.COMPLETE, NOW)) for job in jobs)
        )
        found["acknowledge"] = await turns_of(
            writing, *(store.acknowledge(job) for job in await store.unacknowledged())
        )
        found["erase"] = await turns_of(writing, store.erase(range(1, 21)))
        for each in range(JOBS):
            await store.add(new(owner=f"o{each % 7}"), NOW, limits=SubmitLimits(max_queued=4))
        found["fail"] = await turns_of(
            writing,
            *(
                store.apply(job, JobEvent.FAIL, NOW, error="no")
                for job in await store.open_jobs()
                if job.seq is not None
            ),
        )
        await store.aclose()
    assert {step: count for step, count in found.items() if not 0 < count <= MOST_TURNS} == {}


async def test_turns_are_counted(postgres_url: str) -> None:
    """A count that never grows would pass whatever the store does."""
    address, _, place = postgres_url.partition("@127.0.0.1:")
    port, _, name = place.partition("/")
    with counting_proxy(int(port)) as (near, connections):
        store = JobStore(await open_database(f"{address}@127.0.0.1:{near}/{name}"))
        before = connections[-2].count
        for _ in range(MOST_TURNS + 1):
            await store.add(new(), NOW, limits=NO_LIMITS)
        assert connections[-2].count - before > MOST_TURNS
        await store.aclose()
