"""What it costs to ask the queue over a wire: `python -m benchmarks.wire [--json]`.

Processor time of both ends together, in one process, without the queue's own work: direct calls, a
wire in memory (the process that holds the queue asks itself) and a WebSocket (another process
does). Keys of the JSON, each with `_direct`, `_memory` and `_websocket`, in microseconds:
`token_us` (progress of 64 streams, a token each), `change_us` (`JobChanged`), `call_us` (`jobs.get`, 50
at once) and `lone_call_us`. Then `snapshot_bytes` and `snapshot_ms` with 50 models and 10,000
waiting jobs: a copy goes four times a second at most.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from bot.cluster.greeting import greet_holder
from bot.cluster.memory_wire import MemoryWire
from bot.cluster.queue_link import QueueLink
from bot.cluster.queue_server import QueueServer
from bot.cluster.remote_queue import RemoteQueue
from bot.cluster.websocket import calling, listening
from bot.cluster.wire import Wire
from bot.queue.json_values import to_json
from queueing.core.events import Event, JobChanged, Listener, Progressed
from queueing.core.jobs import Job
from queueing.core.requests import Progress
from queueing.core.standings import QueueSnapshot
from queueing.core.storage import Admission
from queueing.service.jobqueue import JobQueue
from tests.simulation.installation import Installation, host, image_model

SECRET = b"secret"
MODELS, HOSTS, WAITING = 50, 4, 10_000
EVENTS, CALLS, STREAMS, AT_ONCE, BEAT_S = 3_000, 1_000, 64, 50, 5.0
PACE_S = 0.001  # a turn of the loop in which each stream has one token
CHUNK = json.dumps(
    {
        "id": "chatcmpl-123456789",
        "object": "chat.completion.chunk",
        "created": 1763791822,
        "model": "qwen3-30b-a3b",
        "choices": [{"index": 0, "delta": {"content": " tokens"}, "finish_reason": None}],
    }
)


class Publisher:
    """Announces events without a queue's work."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every event."""
        self.listeners.append(listener)

    def publish(self, event: Event) -> None:
        """Announce an event."""
        for each in self.listeners:
            each(event)


@dataclass
class Way:
    """One way to the queue."""

    publisher: Publisher
    get: Callable[[int], Awaitable[Job | None]]
    expected: int = 0
    all_heard: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, event: Event) -> None:
        """Count an event, or the tokens in it."""
        self.expected -= len(event.progress.chunks) if isinstance(event, Progressed) else 1
        if self.expected <= 0:
            self.all_heard.set()


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    wants_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        figures = await measured(folder)
    if wants_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:10.1f}")


async def measured(folder: str) -> dict[str, float]:
    """Return every figure, by name."""
    models = [image_model(f"m{i}", f"comfy{i % HOSTS}") for i in range(MODELS)]
    hosts = [host(f"gpu-{i}", f"comfy{i}") for i in range(HOSTS)]
    made = Installation.of(models, hosts, url=f"sqlite:///{folder}/usher.db")
    figures: dict[str, float] = {}
    async with made.queue() as queue:
        jobs = await filled(made, queue)
        for name, way in (("direct", direct), ("memory", in_memory), ("websocket", over_websocket)):
            async with way(queue, jobs[0]) as opened:
                for key, value in (await costs(opened, jobs[0])).items():
                    figures[f"{key}_{name}"] = value
        figures |= copies(queue)
    return figures


async def filled(made: Installation, queue: JobQueue) -> Sequence[Job]:
    """Accept the waiting jobs."""

    async def submit(number: int) -> Job:
        new = made.new(f"m{number % MODELS}", "cat", key=str(number))
        person = replace(new, owner=f"web:{number % 997}")
        return await queue.submitter.submit(person, limits=Admission())

    await queue.admin.pause()
    jobs: list[Job] = []
    for start in range(0, WAITING, 500):
        jobs += await asyncio.gather(*map(submit, range(start, start + 500)))
    return jobs


# ------------------------------------------------------------ ways to the queue


@asynccontextmanager
async def direct(_: JobQueue, job: Job) -> AsyncIterator[Way]:
    """Provide the queue of this process."""
    publisher = Publisher()

    async def get(job_id: int) -> Job:  # noqa: ARG001  # as the protocol names it
        return job

    way = Way(publisher, get)
    publisher.subscribe(way.hear)
    yield way


@asynccontextmanager
async def in_memory(queue: JobQueue, job: Job) -> AsyncIterator[Way]:
    """Provide the queue over a wire in memory."""
    publisher, server = served(queue, job)
    async with asyncio.TaskGroup() as tasks:

        async def dial() -> Wire:
            near, far = MemoryWire.pair()
            tasks.create_task(server.serve(far))
            await greet_holder(near, SECRET)
            return near

        async with linked(dial, publisher) as way:
            yield way


@asynccontextmanager
async def over_websocket(queue: JobQueue, job: Job) -> AsyncIterator[Way]:
    """Provide the queue over a WebSocket."""
    publisher, server = served(queue, job)
    async with (
        calling(heartbeat_s=BEAT_S) as call,
        listening(server.serve, "127.0.0.1", 0, heartbeat_s=BEAT_S) as port,
    ):

        async def dial() -> Wire:
            wire = await call(f"127.0.0.1:{port}")
            await greet_holder(wire, SECRET)
            return wire

        async with linked(dial, publisher) as way:
            yield way


def served(queue: JobQueue, job: Job) -> tuple[Publisher, QueueServer]:
    """Return a server whose events and calls cost nothing of their own."""
    publisher = Publisher()

    async def get(job_id: int) -> Job:  # noqa: ARG001  # as the protocol names it
        return job

    service: Any = SimpleNamespace(
        events=publisher, models=queue.models, status=queue.status, jobs=SimpleNamespace(get=get)
    )
    return publisher, QueueServer(service, secret=SECRET)


@asynccontextmanager
async def linked(dial: Callable[[], Awaitable[Wire]], publisher: Publisher) -> AsyncIterator[Way]:
    """Provide a link to a server."""
    link = QueueLink(dial)
    way = Way(publisher, RemoteQueue(link).jobs.get)
    link.subscribe(way.hear)
    running = asyncio.ensure_future(link.run())
    await link.connected()
    try:
        yield way
    finally:
        running.cancel()
        await asyncio.wait({running})


# ------------------------------------------------------------ what they cost


async def costs(way: Way, job: Job) -> dict[str, float]:
    """Return what events and calls cost over one way."""
    tokens = [
        Progressed(job_id=number % STREAMS, progress=Progress(chunks=(CHUNK,)))
        for number in range(EVENTS)
    ]
    changes = [JobChanged(job=job, event=None)] * EVENTS
    return {
        "token_us": await per_event(way, tokens),
        "change_us": await per_event(way, changes),
        "call_us": await per_call(way, AT_ONCE),
        "lone_call_us": await per_call(way, 1),
    }


async def per_event(way: Way, events: Sequence[Event]) -> float:
    """Return the processor time of an event, until it was heard."""
    way.all_heard.clear()
    way.expected = len(events)
    began = time.process_time()
    for number, event in enumerate(events):
        way.publisher.publish(event)
        if number % STREAMS == STREAMS - 1:
            await asyncio.sleep(PACE_S)
    await way.all_heard.wait()
    return (time.process_time() - began) / len(events) * 1e6


async def per_call(way: Way, at_once: int) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    for _ in range(CALLS // at_once):
        await asyncio.gather(*(way.get(1) for _ in range(at_once)))
    return (time.process_time() - began) / CALLS * 1e6


def copies(queue: JobQueue) -> dict[str, float]:
    """Return what a copy of the snapshot costs."""
    began, times = time.process_time(), 20
    written = [to_json(queue.status.snapshot(), QueueSnapshot) for _ in range(times)]
    each_ms = (time.process_time() - began) / times * 1e3
    return {"snapshot_bytes": len(written[0]), "snapshot_ms": each_ms}


if __name__ == "__main__":
    asyncio.run(main())
