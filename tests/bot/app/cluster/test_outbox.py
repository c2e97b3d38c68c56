"""Frames that wait for a slow reader: how many, and for how long."""

import asyncio

import pytest

from bot.app.cluster import outbox
from bot.app.cluster.outbox import Outbox
from bot.app.cluster.transport import WireBroken
from tests.simulation.loop import in_virtual_time

LIMIT = 1000


class SlowWire:
    """A wire whose other end reads only when it is told to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reads = asyncio.Semaphore(0)

    async def send(self, frame: bytes) -> None:
        await self.reads.acquire()
        self.sent.append(frame)

    async def receive(self, most: int = 0) -> bytes:
        raise WireBroken(str(most))

    def known(self) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PUSHED_LIMIT", LIMIT)
    monkeypatch.setattr(outbox, "ANSWERED_LIMIT", LIMIT)


@in_virtual_time
async def test_frames_are_sent_in_order() -> None:
    """An answer would arrive before an event that precedes it."""
    wire = SlowWire()
    box = Outbox(wire)
    sending = asyncio.create_task(box.run())
    wanted = []
    for number in range(20):
        wanted.append(b"%d" % number)
        (box.put if number % 3 else box.push)(wanted[-1])
        wire.reads.release()
    await asyncio.sleep(1)
    assert wire.sent == wanted
    sending.cancel()


@in_virtual_time
async def test_a_reader_that_is_too_slow_for_the_events_is_cut_off() -> None:
    """A process that hangs would fill the memory of the holder of the queue."""
    wire = SlowWire()
    box = Outbox(wire)
    for _ in range(LIMIT):
        box.push(b"x" * 100)
    wire.reads.release()
    with pytest.raises(WireBroken, match="reads too slowly"):
        await box.run()
    assert sum(map(len, wire.sent)) <= LIMIT


@in_virtual_time
async def test_an_answer_of_any_size_is_sent() -> None:
    """A video that is longer than the limit could never be fetched."""
    wire = SlowWire()
    box = Outbox(wire)
    sending = asyncio.create_task(box.run())
    for _ in range(2):
        await box.room()
        box.put(b"x" * 3 * LIMIT)
        waiting = asyncio.create_task(box.room())
        await asyncio.sleep(1)
        assert not waiting.done()
        wire.reads.release()
        await waiting
    assert len(wire.sent) == 2
    sending.cancel()


@in_virtual_time
async def test_nothing_is_sent_that_may_not_be_sent_any_more() -> None:
    """A process that was frozen for a while would send outdated information."""

    def check() -> None:
        raise WireBroken("not any more")

    wire = SlowWire()
    wire.reads.release()
    box = Outbox(wire, check)
    box.put(b"late")
    with pytest.raises(WireBroken, match="not any more"):
        await box.run()
    assert not wire.sent
