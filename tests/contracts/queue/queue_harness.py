"""The queues that are tested, each with fake servers; one more line adds another queue."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from typing import Any

from bot.core.service import QueueService
from queueing.core.events import Event
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec
from queueing.service.job_queue import JobQueue
from tests.fakes.linked_queue import linked
from tests.simulation.installation import Installation, host, image_model

Service = Callable[[JobQueue], AbstractAsyncContextManager[QueueService]]


SERVICES: dict[str, Service] = {
    "in this process": nullcontext,
    "over a wire": lambda queue: linked(queue, queue.jobs),  # as another process sees it
}


def text_model(name: str, *backends: str) -> ModelSpec:
    return ModelSpec(
        name=name,
        backends=backends,
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        vram_mb=2000,
    )


@dataclass
class Queues:
    """One installation; queues come and go on its database."""

    installation: Installation
    service: Service

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[QueueService, list[Event]]]:
        """Run a queue and provide its service, with what a listener of this run has been told."""
        told: list[Event] = []
        async with self.installation.queue() as queue, self.service(queue) as service:
            service.events.subscribe(told.append)
            yield service, told

    def durable_version(self, job_id: int) -> int:
        """Return the version of a job that another process would read from the disk now."""
        url = self.installation.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(url) if "://" not in url else _connect(url)) as connection:
            row = connection.execute(f"SELECT version FROM jobs WHERE id = {job_id:d}").fetchone()
        return -1 if row is None else int(row[0])


def _connect(url: str) -> Any:
    import psycopg  # noqa: PLC0415  # an extra: the queues on SQLite need none

    return psycopg.connect(url)


def queues(kind: str, url: str) -> Queues:
    """Return two GPUs with one server each, two image models and one for texts."""
    installation = Installation.of(
        [
            image_model("flux", "comfy", vram_mb=16000, aliases=("f",), max_waiting=20),
            image_model("sdxl", "comfy", vram_mb=16000),
            image_model("huge", "comfy", vram_mb=90000),
            text_model("llama", "other"),
        ],
        [host("gpu-1", "comfy"), host("gpu-2", "other")],
        url=url,
    )
    return Queues(installation=installation, service=SERVICES[kind])
