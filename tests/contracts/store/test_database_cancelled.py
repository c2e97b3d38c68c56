"""What every database must do when its own tasks are cancelled, as by an event loop that ends.

That loop then waits for callers of the database that are not cancelled with it, or that use it as
they end.
"""

import asyncio
import threading

import pytest

from queueing.core.errors import StoreError
from queueing.store.sql.database import Connection, Database

SOON_S = 60.0


def workers() -> list["asyncio.Task[None]"]:
    """Return the tasks that feed the connections; skip where the event loop itself does so."""
    found = [task for task in asyncio.all_tasks() if task.get_name() == "store worker"]
    if not found:
        pytest.skip("it works in the event loop's own turns")
    return found


class Held:
    """A change that stays in the connection's thread until it is released."""

    def __init__(self) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, _connection: Connection) -> str:
        self.began.set()
        assert self.goes_on.wait(SOON_S)
        return "done"


async def test_what_waits_is_told_that_the_database_is_closed(database: Database) -> None:
    """A process would stay forever, waiting for its own writer."""
    feeding, held = workers(), Held()
    first = asyncio.ensure_future(database.write(held))
    await asyncio.to_thread(held.began.wait, SOON_S)
    second = asyncio.ensure_future(database.write(lambda _connection: None))
    await asyncio.sleep(0)
    for worker in feeding:
        worker.cancel()
    await asyncio.sleep(0)
    held.goes_on.set()
    _, waiting = await asyncio.wait([first, second, *feeding], timeout=SOON_S)
    assert not waiting
    assert first.result() == "done"
    with pytest.raises(StoreError, match="closed"):
        second.result()
    with pytest.raises(StoreError, match="closed"):
        await database.write(lambda _connection: None)
    with pytest.raises(StoreError, match="closed"):
        await database.read(lambda _connection: None)


async def test_a_cancelled_database_can_be_closed(database: Database) -> None:
    """The last act of the process would wait for a task that has ended."""
    feeding = workers()
    await database.write(lambda _connection: None)
    for worker in feeding:
        worker.cancel()
    closing = asyncio.ensure_future(database.aclose())
    _, waiting = await asyncio.wait([closing, *feeding], timeout=SOON_S)
    assert not waiting
    assert closing.exception() is None
