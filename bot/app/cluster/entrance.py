"""The entrance: where a process listens to the others, whether or not it holds the queue.

It is open from the start of the process, because its address is written into the database with every
post that the process takes. Processes are let in while the queue is held here; before and
afterwards each is hung up on, and looks for the holder again.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from bot.app.cluster.memory_wire import MemoryWire
from bot.app.cluster.queue_server import QueueServer
from bot.app.cluster.transport import listening
from bot.app.cluster.wire import Wire, WireBroken
from bot.http.addresses import host_and_port, is_loopback, is_public, joined
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError

log = logging.getLogger(__name__)


class NotServing(WireBroken):
    """This process does not hold the queue."""


class Entrance:
    """Lets other processes, and this one, in to the queue that is held here."""

    def __init__(self) -> None:
        self.address = ""
        """What the others call, such as `10.0.0.7:41234`."""
        self._guests: _Guests | None = None

    @asynccontextmanager
    async def admitting(self, server: QueueServer) -> AsyncIterator[None]:
        """Have a server run and serve all who call, until the block ends."""
        async with TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            self._guests = guests = _Guests(server, tasks)
            try:
                yield
            finally:
                self._guests = None
                guests.hang_up()
                running.cancel()

    async def serve(self, wire: Wire) -> None:
        """Serve another process until its connection ends; hang up if the queue is not held here."""
        if self._guests is None:
            await wire.close()
        else:
            await self._guests.serve(wire)

    def wire(self) -> Wire:
        """Return a wire of this process to its own queue. Raises `NotServing` if it is elsewhere."""
        if self._guests is None:
            raise NotServing("this process does not serve the queue")
        near, far = MemoryWire.pair()
        self._guests.begin(far)
        return near


class _Guests:
    """Those who are served while one server is."""

    def __init__(self, server: QueueServer, tasks: TaskGroup) -> None:
        self._server = server
        self._tasks = tasks
        self._served: set[asyncio.Task[None]] = set()

    def begin(self, wire: Wire) -> asyncio.Task[None]:
        task = self._tasks.create_task(self._server.serve(wire))
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        return task

    async def serve(self, wire: Wire) -> None:
        task = self.begin(wire)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()

    def hang_up(self) -> None:
        for task in self._served:
            task.cancel()


@asynccontextmanager
async def entrance_at(
    listen: str | None,
    advertise: str | None,
    local_host: Callable[[], Awaitable[str]],
    *,
    heartbeat_s: float,
) -> AsyncIterator[Entrance]:
    """Provide the entrance of this process, which listens until the block ends.

    `listen` and `advertise` are hosts, with a port or without one, as configured. By default it
    listens at `local_host()`, the address from which this process reaches the database, on any
    free port, and is called there. Raises `StoreError` if that is not known, or for an address that
    is taken or not of this machine.
    """
    host, port = host_and_port(listen or await local_host())
    entrance = Entrance()
    async with AsyncExitStack() as stack:
        opened = listening(entrance.serve, host, port, heartbeat_s=heartbeat_s)
        try:
            bound = await stack.enter_async_context(opened)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error
            raise StoreError(
                f"cluster.listen: cannot listen at {joined(host, port)}: {why}"
            ) from error
        called_host, called_port = host_and_port(advertise or host)
        entrance.address = joined(called_host, called_port or bound)
        log.info("other processes reach this one at %s", entrance.address)
        if is_loopback(called_host):
            log.info("%s is this machine alone: elsewhere, set cluster.listen", called_host)
        if is_public(called_host):
            log.warning(
                "%s is a public address, and what processes say is not encrypted", called_host
            )
        yield entrance
