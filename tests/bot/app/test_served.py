"""The API is kept running."""

import asyncio
import logging

import pytest

from bot.app.supervisor import keep_served
from bot.http.listener import CannotListen
from tests.simulation.loop import run


class OnATakenAddress:
    """Cannot listen until the process that has the address ends."""

    def __init__(self, free_at: float) -> None:
        self.free_at = free_at
        self.served_at: float | None = None

    async def run(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self.free_at:
            raise CannotListen("cannot listen on 127.0.0.1:8081: Address already in use")
        self.served_at = now
        await asyncio.Event().wait()


def test_an_address_that_becomes_free_is_used_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The second of two processes on a machine would serve minutes after the first has ended."""

    async def scenario() -> float:
        gateway = OnATakenAddress(asyncio.get_running_loop().time() + 4000)
        serving = asyncio.ensure_future(keep_served(gateway.run))
        await asyncio.sleep(5000)
        serving.cancel()
        await asyncio.wait({serving})
        assert gateway.served_at is not None
        return gateway.served_at - gateway.free_at

    with caplog.at_level(logging.ERROR):
        assert run(scenario()) <= 2.0
    assert len(caplog.records) == 1
