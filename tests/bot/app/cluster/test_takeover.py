"""Two processes on one server, in real time: the queue moves, and every link follows it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.app.cluster.leader_finder import LeaderFinder
from bot.app.cluster.leases import QUEUE, HeldLease, LeaseKeeper
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueServer, entrance_at
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import calling
from queueing.core.events import Event, EventsMissed
from queueing.core.jobs import SubmitLimits
from tests.fakes.no_files import NoFiles
from tests.simulation.installation import Installation, host, image_model

pytest.importorskip("psycopg")

from queueing.store.postgres.lease_store import PostgresLeases  # an extra

LEASE_S, BEAT_S = 30.0, 10.0


@dataclass
class Peer:
    """The parts of a process that concern the queue."""

    queue: RemoteQueue
    told: list[Event]
    keeping: asyncio.Task[None]


@asynccontextmanager
async def peer(
    url: str, installation: Installation, name: str, held: Callable[[str], None]
) -> AsyncIterator[Peer]:
    roles = PostgresLeases(url, process=name, lease_s=LEASE_S)
    async with (
        entrance_at(None, None, roles.local_host, heartbeat_s=BEAT_S) as entrance,
        calling(heartbeat_s=BEAT_S) as call,
        asyncio.TaskGroup() as tasks,
    ):

        async def duty(lease: HeldLease) -> None:
            async with installation.queue() as queue:
                secret = lease.stored.secret
                server = QueueServer(queue, secret=secret, held=lambda: lease.left_s > 0)
                async with entrance.admitting(server):
                    held(name)
                    await asyncio.Event().wait()

        finder = LeaderFinder(roles, entrance, call, look_every_s=BEAT_S)
        link = QueueConnection(finder.dial, finder.moved)
        told: list[Event] = []
        link.subscribe(told.append)
        keeper = LeaseKeeper(roles, lease_s=LEASE_S)
        keeping = tasks.create_task(keeper.serve(QUEUE, duty, address=entrance.address))
        linking = tasks.create_task(link.run())
        try:
            yield Peer(RemoteQueue(link, NoFiles()), told, keeping)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
            linking.cancel()
            await roles.aclose()


async def test_the_queue_moves_and_every_link_follows(postgres_url: str, tmp_path: Path) -> None:
    """The parts might work in their own tests, but not together on a server."""
    made = Installation.of(
        [image_model("flux", "comfy")],
        [host("gpu-1", "comfy")],
        url=f"sqlite:///{tmp_path}/usher.db",
    )
    holders: list[str] = []

    async def submit(asking: Peer, key: str) -> int:
        new = made.new("flux", "cat", key=key)
        return (await asking.queue.submitter.submit(new, limits=SubmitLimits())).id

    async with (
        asyncio.timeout(60),
        peer(postgres_url, made, "ada", holders.append) as ada,
        peer(postgres_url, made, "eve", holders.append) as eve,
    ):
        before = await asyncio.gather(submit(ada, "k"), submit(eve, "k"))
        first, second = (ada, eve) if holders == ["ada"] else (eve, ada)
        first.keeping.cancel()  # an orderly stop of the role; its link goes on
        await asyncio.wait({first.keeping})
        after = await asyncio.gather(submit(first, "k"), submit(second, "k"))
        assert len(set(before + after)) == 1
        assert len(holders) == 2
        for each in (ada, eve):
            assert [event for event in each.told if isinstance(event, EventsMissed)]
