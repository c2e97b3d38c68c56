"""When a stream is checked although nothing has come."""

import asyncio

import pytest

from bot.api.runs.alarm import Alarm
from tests.simulation.loop import in_virtual_time


@in_virtual_time
async def test_an_alarm_rings_at_the_last_moment_it_was_put_to() -> None:
    """A silent stream would get no comment, or a busy one a comment after each token."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    alarm, began = Alarm(news), loop.time()
    for _ in range(100):
        alarm.put(loop.time() + 5.0)
        await asyncio.sleep(0.1)
        assert not news.is_set()
    await news.wait()
    rang = loop.time() - began
    news.clear()
    alarm.put(loop.time() + 5.0)
    alarm.close()
    await asyncio.sleep(10.0)
    again = news.is_set()
    assert rang == pytest.approx(14.9)
    assert not again
