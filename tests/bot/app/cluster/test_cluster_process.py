"""One process of several: what it does when something that its duties need is away."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from bot.app.cluster_process import ClusterProcess
from queueing.core.errors import StoreError
from tests.simulation.loop import in_virtual_time


@in_virtual_time
async def test_a_database_that_is_away_when_the_api_begins_is_waited_for() -> None:
    """A restarting server would end every process that starts at that time, with all its duties."""
    opened = 0

    async def open_database(*_how: Any, **_named: Any) -> None:
        nonlocal opened
        opened += 1
        if opened < 3:
            raise StoreError("the database server does not answer")
        await asyncio.Event().wait()

    async def connected() -> None:
        return

    held = SimpleNamespace(config=SimpleNamespace(api="here"))
    setup = SimpleNamespace(in_force=held, open_database=open_database)
    names = ("keeper", "entrance", "agreement", "shown", "watched")
    parts: dict[str, Any] = dict.fromkeys(names)
    link = SimpleNamespace(connected=connected)
    process = ClusterProcess(cast("Any", setup), **parts, link=cast("Any", link))
    serving = asyncio.ensure_future(process.run([], serves_api=True))
    await asyncio.sleep(60)
    assert not serving.done()
    assert opened == 3
    serving.cancel()
    await asyncio.wait({serving})
