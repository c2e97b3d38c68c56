"""Processes of one cluster in virtual time: each finds the holder of the queue by its role."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from bot.app.cluster.leader_finder import LeaderFinder
from bot.app.cluster.leases import QUEUE
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueListener, QueueServer
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import MemoryWire, Wire, WireBroken
from queueing.core.leases import Lease
from tests.fakes.no_files import NoFiles
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.installation import Installation

if TYPE_CHECKING:
    from queueing.core.events import Event

LEASE_S = 15.0


@dataclass
class Network:
    """The network through which processes reach each other."""

    installation: Installation
    tasks: asyncio.TaskGroup
    table: RoleTable = field(default_factory=lambda: RoleTable(LEASE_S))
    processes: dict[str, "NetworkProcess"] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    async def call(self, caller: str, address: str) -> Wire:
        self.calls.append((caller, address))
        called = self.processes.get(address)
        if called is None:
            raise WireBroken(f"{address}: connection refused")
        near, far = MemoryWire.pair()
        called.wires.append(far)
        self.tasks.create_task(called.entrance.serve(far))
        return near


class NetworkProcess:
    """One process: its listener, and its link to the queue wherever that is."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.roles = FakeRoles(network.table, name)
        self.entrance = QueueListener()
        self.entrance.address = f"{name}:1"
        self.finder = LeaderFinder(
            self.roles, self.entrance, partial(network.call, name), look_every_s=LEASE_S / 3
        )
        self.link = QueueConnection(self.finder.dial, self.finder.moved)
        self.queue = RemoteQueue(self.link, NoFiles())
        self.told: list[Event] = []
        self.link.subscribe(self.told.append)
        self.wires: list[MemoryWire] = []
        network.processes[self.entrance.address] = self

    @asynccontextmanager
    async def holding(self) -> AsyncIterator[Lease]:
        """Take the queue's role and perform its duty until the block ends."""
        lease = await self.roles.take(QUEUE, address=self.entrance.address)
        assert lease is not None
        async with self.installed(lease):
            yield lease
        await self.roles.free(lease)

    @asynccontextmanager
    async def installed(self, lease: Lease) -> AsyncIterator[QueueServer]:
        async with self.network.installation.queue() as queue:
            server = QueueServer(queue, secret=lease.secret)
            async with self.entrance.admitting(server):
                yield server


@asynccontextmanager
async def network(installation: Installation, *names: str) -> AsyncIterator[Network]:
    """Provide processes that all look for the holder of the queue."""
    async with asyncio.TaskGroup() as tasks:
        made = Network(installation, tasks)
        links = [NetworkProcess(made, name).link for name in names]
        running = [tasks.create_task(link.run()) for link in links]
        try:
            yield made
        finally:
            for each in running:
                each.cancel()
