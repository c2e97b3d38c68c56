"""An orderly stop of the real program: running work goes back to its place, within ten seconds."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from backends.comfyui import attempts as comfyui_attempts
from bot.app import setup
from tests.bot.cli.test_cli import ROOT, WAIT_S

CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in], load_s: 0.01, service_s: 60, parallel: 1}}
chats: {web: {port: 0}}
"""
STOP_S = 10.0
CHILD = """
import asyncio, sys
from pathlib import Path
from bot.app.app import App
from bot.app.setup import BotSetup
from bot.config.loader import load
from bot.app.process import run_until_signal
from queueing.core.jobs import NewJob
from queueing.core.jobs import SubmitLimits
from queueing.core.requests import TextToImage

async def serve():
    app = App(BotSetup(load(Path(sys.argv[1]))))
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        for number in range(3):
            new = NewJob(
                model="flux", request=TextToImage(prompt="cat"), owner="web:local", key=f"k{number}"
            )
            await parts.store.add(new, 1.0, limits=SubmitLimits())
        await working

sys.exit(run_until_signal(serve()))
"""


def states(database: Path) -> list[tuple[str, int, int]]:
    """Return state, place and attempts of each job."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT state, seq, attempt FROM jobs ORDER BY id")
        return [(state, seq, attempt) for state, seq, attempt in rows]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to answer")
def test_running_work_goes_back_to_its_place(tmp_path: Path) -> None:
    """A restart would cost people their place or an attempt."""
    config, database = tmp_path / "config.yaml", tmp_path / "usher.sqlite"
    config.write_text(CONFIG, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(config)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as bot:
        until = time.monotonic() + WAIT_S
        while not database.exists() or ("processing", 1, 1) not in _tried(database):
            assert bot.poll() is None
            assert time.monotonic() < until, "no job was started"
            time.sleep(0.05)  # another process: nothing to wait for but its file
        bot.send_signal(signal.SIGTERM)
        _, told = bot.communicate(timeout=WAIT_S)  # a busy machine adds to what is waited for
    assert bot.returncode == 0, told
    assert "Traceback" not in told
    assert states(database) == [("pending", 1, 0), ("pending", 2, 0), ("pending", 3, 0)]


def test_all_that_a_stop_may_wait_for_fits_into_ten_seconds() -> None:
    """A hanging server or chat would delay the stop until a service manager kills the bot."""
    server_s = comfyui_attempts.STOP_S * 1.5  # for a prompt on its way, then for its end
    closing_s = 0.5
    assert setup.GRACE_S + comfyui_attempts.STOP_S + setup.SETTLE_S + closing_s < STOP_S
    assert setup.GRACE_S + server_s + closing_s < STOP_S


def _tried(database: Path) -> list[tuple[str, int, int]]:
    try:
        return states(database)
    except sqlite3.Error:  # not made yet
        return []
