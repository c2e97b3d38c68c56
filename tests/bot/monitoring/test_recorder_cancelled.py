"""The history when an event loop ends that cancels all its tasks at once."""

import asyncio
from pathlib import Path

from bot.app.setup import MIGRATIONS
from bot.core.live_settings import LiveSettings
from bot.monitoring.history import History
from bot.monitoring.recorder import Recorder
from queueing.core.events import LoadCause, LoadEnded
from queueing.core.ports import SystemClock
from queueing.service.shown_estimates import Promises
from queueing.store.engines import open_database

LOADED = LoadEnded(
    model="flux", backend="comfy", hosts=("gpu",), cause=LoadCause.REQUEST, seconds=10.0
)
SOON_S = 60.0


async def test_the_recorder_ends_although_the_writer_ended_first(tmp_path: Path) -> None:
    """A process would wait forever for its last write."""
    others = asyncio.all_tasks()
    database = await open_database(f"sqlite:///{tmp_path}/usher.db", migrations=(MIGRATIONS,))
    recorder = Recorder(History(database), Promises(), SystemClock(), LiveSettings(history_s=1e9))
    recording = asyncio.create_task(recorder.run())
    await database.read(lambda _connection: None)  # all tasks have begun
    recorder.on_event(LOADED)
    ended = asyncio.all_tasks() - others
    for task in ended:
        task.cancel()
    _, waiting = await asyncio.wait(ended, timeout=SOON_S)
    assert recording in ended
    assert not waiting
    await database.aclose()
