"""The queues that are tried, each in front of fake servers; another one joins with one more line."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from bot.queue.service import QueueService
from queueing.core.catalog import ModelSpec
from queueing.core.events import Event
from queueing.core.requests import Capability
from queueing.service.jobqueue import JobQueue
from tests.fakes.far_queue import FarQueue
from tests.simulation.installation import Installation, host, image_model

SERVICES: dict[str, Callable[[JobQueue], QueueService]] = {
    "in this process": lambda queue: queue,
    "through JSON": FarQueue,
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
    path: Path
    make: Callable[[JobQueue], QueueService]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[QueueService, list[Event]]]:
        """Run a queue and hand out its service, with what a listener of this run has been told."""
        told: list[Event] = []
        async with self.installation.queue() as queue:
            service = self.make(queue)
            service.events.subscribe(told.append)
            yield service, told

    def durable_version(self, job_id: int) -> int:
        """Return the version of a job that another process would read from the disk now."""
        with closing(sqlite3.connect(self.path)) as connection:
            row = connection.execute("SELECT version FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return -1 if row is None else int(row[0])


def queues(kind: str, folder: Path) -> Queues:
    """Return two cards with one server each, two picture models and one for texts."""
    path = folder / "usher.db"
    installation = Installation.of(
        [
            image_model("flux", "comfy", vram_mb=16000, aliases=("f",), max_waiting=20),
            image_model("sdxl", "comfy", vram_mb=16000),
            image_model("huge", "comfy", vram_mb=90000),
            text_model("llama", "other"),
        ],
        [host("gpu-1", "comfy"), host("gpu-2", "other")],
        url=f"sqlite:///{path}",
    )
    return Queues(installation=installation, path=path, make=SERVICES[kind])
