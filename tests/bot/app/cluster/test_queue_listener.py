"""Where a process listens to the others: over real sockets; every wait is for a signal."""

import asyncio
from pathlib import Path

import pytest

from bot.app.cluster.leader_finder import LeaderFinder
from bot.app.cluster.leases import QUEUE
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueServer, entrance_at
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import WireBroken, calling
from queueing.core.errors import StoreError
from tests.fakes.no_files import NoFiles
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.installation import Installation, host, image_model

BEAT_S = 5.0


async def here() -> str:
    return "127.0.0.1"


async def nowhere() -> str:
    raise StoreError("the database does not answer")


async def test_it_is_reached_at_the_address_of_this_machine() -> None:
    """Without a setting the others could not find it; on all interfaces, strangers could."""
    async with entrance_at(None, None, here, heartbeat_s=BEAT_S) as entrance:
        host, _, port = entrance.address.partition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
    async with entrance_at("127.0.0.1", "bot.lan", nowhere, heartbeat_s=BEAT_S) as entrance:
        host, _, port = entrance.address.partition(":")
        assert (host, int(port) > 0) == ("bot.lan", True)
    async with entrance_at("127.0.0.1", "10.9.9.9:8124", nowhere, heartbeat_s=BEAT_S) as entrance:
        assert entrance.address == "10.9.9.9:8124"
        with pytest.raises(WireBroken):
            entrance.wire()


@pytest.mark.parametrize(
    ("address", "told"), [("8.8.8.8:8124", True), ("10.9.9.9:8124", False), ("bot.lan", False)]
)
async def test_a_public_address_is_warned_of(
    caplog: pytest.LogCaptureFixture, address: str, *, told: bool
) -> None:
    """Prompts would cross the internet unencrypted."""
    async with entrance_at("127.0.0.1", address, nowhere, heartbeat_s=BEAT_S):
        warned = [each for each in caplog.records if each.levelname == "WARNING"]
        assert [f"{each.msg % each.args}".startswith("8.8.8.8 is a public") for each in warned] == [
            True
        ] * told


async def test_a_taken_port_and_a_foreign_address_are_refused() -> None:
    """A process would believe that the others can reach it."""
    async with entrance_at(None, None, here, heartbeat_s=BEAT_S) as entrance:
        for listen in (entrance.address, "192.0.2.1:8124"):
            with pytest.raises(StoreError, match=r"cluster.listen: cannot listen at .*ddress"):
                async with entrance_at(listen, None, here, heartbeat_s=BEAT_S):
                    pass
    with pytest.raises(StoreError):
        async with entrance_at(None, None, nowhere, heartbeat_s=BEAT_S):
            pass


async def test_the_queue_is_served_while_it_is_held(tmp_path: Path) -> None:
    """A stand-by would leave callers waiting, or a former holder go on answering them."""
    url = f"sqlite:///{tmp_path}/usher.db"
    made = Installation.of([image_model("flux", "comfy")], [host("gpu-1", "comfy")], url=url)
    table = RoleTable(600.0)
    ada, eve = FakeRoles(table, "ada"), FakeRoles(table, "eve")
    async with (
        asyncio.timeout(60),
        calling(heartbeat_s=BEAT_S) as call,
        entrance_at(None, None, here, heartbeat_s=BEAT_S) as entrance,
        entrance_at(None, None, here, heartbeat_s=BEAT_S) as elsewhere,
        asyncio.TaskGroup() as tasks,
    ):
        with pytest.raises(WireBroken):
            await (await call(entrance.address)).receive()
        finder = LeaderFinder(eve, elsewhere, call, look_every_s=BEAT_S)
        link = QueueConnection(finder.dial, finder.moved)
        running = tasks.create_task(link.run())
        for _ in range(2):
            lease = await ada.take(QUEUE, address=entrance.address)
            assert lease is not None
            async with made.queue() as queue:
                server = QueueServer(queue, secret=lease.secret)
                async with entrance.admitting(server):
                    assert await RemoteQueue(link, NoFiles()).jobs.history("web:1", limit=1) == []
            await ada.free(lease)
        running.cancel()
