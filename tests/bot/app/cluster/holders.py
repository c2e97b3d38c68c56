"""A queue that one process after another holds, and the link of a process that does not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.app.cluster.protocol import NotTrusted, greet_holder
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueServer
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import MemoryWire, Wire, WireBroken
from queueing.core.events import Event
from queueing.service.job_queue import JobQueue
from tests.fakes.no_files import NoFiles
from tests.simulation.installation import Installation

SECRET = b"the secret of this epoch"


@dataclass
class Cluster:
    """At most one process holds the queue at a time; a link looks for it."""

    installation: Installation
    tasks: asyncio.TaskGroup
    told: list[Event] = field(default_factory=list)
    wires: list[MemoryWire] = field(default_factory=list)
    secret: bytes = SECRET
    _server: QueueServer | None = None

    def __post_init__(self) -> None:
        self.link = QueueConnection(self.dial)
        self.queue = RemoteQueue(self.link, NoFiles())
        self.queue.events.subscribe(self.told.append)

    async def dial(self) -> Wire:
        if self._server is None:
            raise WireBroken("nobody there")
        near = self.stranger()
        try:
            await greet_holder(near, self.secret)
        except NotTrusted as error:
            raise WireBroken(error) from None
        return near

    def stranger(self) -> MemoryWire:
        """Connect to the holder, and leave the greeting to the test."""
        assert self._server is not None
        near, far = MemoryWire.pair()
        self.wires.append(near)
        self.tasks.create_task(self._server.serve(far))
        return near

    @asynccontextmanager
    async def holder(self, held: Callable[[], bool] = lambda: True) -> AsyncIterator[JobQueue]:
        """Let a process hold the queue until the block ends; then its connections break."""
        async with self.installation.queue() as queue:
            self._server = QueueServer(queue, secret=SECRET, held=held)
            running = self.tasks.create_task(self._server.run())
            try:
                yield queue
            finally:
                self._server = None
                self.cut()
                running.cancel()

    def cut(self) -> None:
        """Cut all existing connections."""
        for each in self.wires:
            each.cut()
        self.wires.clear()


@asynccontextmanager
async def cluster(installation: Installation) -> AsyncIterator[Cluster]:
    """Provide a process that keeps looking for the holder of the queue."""
    async with asyncio.TaskGroup() as tasks:
        made = Cluster(installation, tasks)
        running = tasks.create_task(made.link.run())
        try:
            yield made
        finally:
            running.cancel()
            made.cut()
