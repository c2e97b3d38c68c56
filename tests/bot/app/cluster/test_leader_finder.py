"""How processes find the holder of the queue, and follow it, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bot.app.cluster.leases import QUEUE
from bot.app.cluster.transport import Wire, WireBroken
from queueing.core.events import EventsMissed
from queueing.core.jobs import SubmitLimits
from tests.bot.app.cluster.processes import LEASE_S, Network, NetworkProcess, network
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

Scenario = Callable[[Network, NetworkProcess, NetworkProcess], Awaitable[None]]


def play(folder: Path, scenario: Scenario) -> None:
    url = f"sqlite:///{folder}/usher.db"
    installation = Installation.of(
        [image_model("flux", "comfy")], [host("gpu-1", "comfy")], url=url
    )

    async def whole() -> None:
        async with network(installation, "ada", "eve") as made:
            await scenario(made, *made.processes.values())

    run(whole())


async def submit(process: NetworkProcess, key: str) -> int:
    new = process.network.installation.new("flux", "cat", key=key)
    return (await process.queue.submitter.submit(new, limits=SubmitLimits())).id


def test_every_process_finds_the_queue(tmp_path: Path) -> None:
    """The holder would call itself over the network, or not reach the queue at all."""

    async def scenario(made: Network, ada: NetworkProcess, eve: NetworkProcess) -> None:
        async with ada.holding():
            assert await submit(ada, "k") == await submit(eve, "k")
        assert set(made.calls) == {("eve", "ada:1")}

    play(tmp_path, scenario)


def test_links_follow_the_queue_to_its_next_holder(tmp_path: Path) -> None:
    """Chats would stay silent after a failover until they are restarted."""

    async def scenario(_: Network, ada: NetworkProcess, eve: NetworkProcess) -> None:
        async with ada.holding():
            before = await submit(eve, "before")
        waiting = [asyncio.create_task(submit(each, "during")) for each in (ada, eve)]
        await asyncio.sleep(3)
        assert not any(each.done() for each in waiting)
        async with eve.holding():
            assert len(set(await asyncio.gather(*waiting))) == 1
            assert await submit(ada, "before") == before
            for each in (ada, eve):
                assert [e for e in each.told if isinstance(e, EventsMissed)] == [EventsMissed()]

    play(tmp_path, scenario)


def test_a_link_leaves_a_holder_that_was_replaced(tmp_path: Path) -> None:
    """A frozen process that wakes up would go on giving outdated answers."""

    async def scenario(made: Network, ada: NetworkProcess, eve: NetworkProcess) -> None:
        lease = await ada.roles.take(QUEUE, address="ada:1")
        assert lease is not None
        async with ada.installed(lease):
            await eve.link.connected()
            made.table.until[QUEUE] = 0  # it was frozen for longer than its lease
            taken = await eve.roles.take(QUEUE, address="eve:1")
            assert taken is not None
            await asyncio.sleep(LEASE_S / 2)
            asked = asyncio.create_task(submit(eve, "k"))
            await asyncio.sleep(1)
            assert not asked.done()
        async with eve.installed(taken):
            assert await asked == await submit(ada, "k")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("gone", "ada cannot be reached: ada:1: connection refused"),
        ("away", "the database does not answer"),
        ("silent", "ada:1 accepts connections but does not answer"),
        ("between", "ada does not serve the queue yet, or no longer"),
    ],
)
def test_why_the_queue_is_not_reached_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: str, expected: str
) -> None:
    """The log would repeat one line five times a second, or say nothing at all."""

    async def say_nothing(wire: Wire) -> None:
        with suppress(WireBroken):
            await wire.receive()

    async def scenario(made: Network, ada: NetworkProcess, eve: NetworkProcess) -> None:
        await ada.roles.take(QUEUE, address="ada:1")
        if trouble == "gone":
            del made.processes["ada:1"]
        if trouble == "silent":
            ada.entrance.serve = say_nothing  # type: ignore[method-assign]
        eve.roles.away = trouble == "away"
        ada.roles.away = True
        caplog.clear()
        await asyncio.sleep(LEASE_S - 1)

    with caplog.at_level(logging.INFO, "bot.app.cluster.leader_finder"):
        play(tmp_path, scenario)
    told = [each for each in caplog.messages if "database does not" not in each]
    wanted = [each for each in caplog.messages if each == expected]
    assert len(wanted) == (2 if trouble == "away" else 1), caplog.messages
    assert len(told) <= 1 + (trouble != "away")


def test_a_stranger_at_the_address_is_not_trusted(tmp_path: Path) -> None:
    """Another machine that got the address would be sent every prompt."""

    async def scenario(_: Network, ada: NetworkProcess, eve: NetworkProcess) -> None:
        lease = await ada.roles.take(QUEUE, address="eve:1")
        assert lease is not None
        guess = type(lease)(
            name=QUEUE, epoch=1, lease_s=15.0, holder=lease.holder, secret=b"a guess"
        )
        async with eve.installed(guess):
            asked = asyncio.create_task(submit(ada, "k"))
            await asyncio.sleep(5)
            assert not asked.done()
            asked.cancel()

    play(tmp_path, scenario)
