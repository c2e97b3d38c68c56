"""A queue as another process sees it, whatever holds it, over a watched wire."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.app.cluster.protocol import greet_holder
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueServer
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import FRAME_LIMIT, MemoryWire, Wire
from bot.core.queue import JobFiles
from bot.core.service import QueueService

SMALL = 100_000
"""Bytes of a frame that carries no file."""
_SECRET = b"secret"


@dataclass(frozen=True)
class _Watched:
    """The holder's end of a wire; records what is sent."""

    wire: Wire
    frames: list[bytes] = field(default_factory=list)

    async def send(self, frame: bytes) -> None:
        self.frames.append(frame)
        await self.wire.send(frame)

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        return await self.wire.receive(most)

    def known(self) -> None:
        self.wire.known()

    async def close(self) -> None:
        await self.wire.close()


@asynccontextmanager
async def linked(
    queue: QueueService, files: JobFiles, *, reads: Collection[str] = ()
) -> AsyncIterator[RemoteQueue]:
    """Provide it; at the end, check that no file of a job was sent over the wire to the process.

    `files` is what the process reads from its own database, `reads` are the platforms it serves.
    """
    server = QueueServer(queue, secret=_SECRET)
    watched: list[_Watched] = []
    async with asyncio.TaskGroup() as tasks:

        async def dial() -> Wire:
            near, far = MemoryWire.pair()
            watched.append(_Watched(far))
            tasks.create_task(server.serve(watched[-1]))
            await greet_holder(near, _SECRET)
            return near

        link = QueueConnection(dial, reads=reads)
        running = [tasks.create_task(server.run()), tasks.create_task(link.run())]
        await link.connected()
        try:
            yield RemoteQueue(link, files)
        finally:
            for task in running:
                task.cancel()
    sent = [frame for each in watched for frame in each.frames]
    assert not [frame[:100] for frame in sent if len(frame) > SMALL]
