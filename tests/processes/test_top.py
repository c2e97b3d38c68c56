"""`usher top` shows a running process, from another one."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.process import ROOT
from tests.processes.bot_process import BotProcess
from tests.processes.installation import until

CONFIG = """\
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in], capabilities: [text-to-image], service_s: 0.1}}}}
chats: {{web: {{port: {port}}}}}
"""


class WatchedBot(BotProcess):
    """`usher run` with a page, and `usher top` beside it."""

    def write(self) -> None:
        self.configure(CONFIG.format(port=self.port))

    async def start(self) -> None:
        """Start, and wait until it can be asked."""
        await super().start()
        await until(lambda: list(self._config.parent.glob("*-control-*")))

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "bot", "top", "-c", str(self._config), *options]

    async def top(self, *options: str) -> tuple[int | None, str]:
        """Call `usher top` and return its exit status and what it prints."""
        called = await asyncio.create_subprocess_exec(
            *self.command(*options),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "90"},
        )
        told, _ = await called.communicate()
        return called.returncode, told.decode()


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[WatchedBot]:
    made = WatchedBot(tmp_path)
    made.write()
    yield made
    await made.kill()


async def test_it_shows_a_running_bot_once(bot: WatchedBot) -> None:
    """An operator on a terminal would have a log and nothing else."""
    await bot.start()
    status, shown = await bot.top("--once")
    assert status == 0
    assert "0 running, 0 waiting" in shown
    assert "home" in shown
    assert "stand-in  up" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 90


async def test_its_json_is_what_the_page_reads(bot: WatchedBot) -> None:
    """A script would have to read a picture."""
    await bot.start()
    status, shown = await bot.top("--json")
    assert status == 0
    told = json.loads(shown)
    assert [host["name"] for host in told["now"]["hosts"]] == ["home"]
    assert told["hour"]["span"] == "hour"
    assert told["people"]["people"] == []


async def test_without_a_bot_it_says_so(bot: WatchedBot) -> None:
    """An empty picture would look like a bot without work."""
    status, shown = await bot.top("--once")
    assert status == 2
    assert "no running bot has" in shown


async def test_ctrl_c_leaves_the_terminal_as_it_was(bot: WatchedBot) -> None:
    """The operator's shell would have no cursor, and no lines of before."""
    await bot.start()
    ours, its = pty.openpty()
    watching = await asyncio.create_subprocess_exec(
        *bot.command(),
        cwd=ROOT,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm"},
        # The tests may run where Ctrl-C is ignored, as in the background of a script.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(its)
    os.set_blocking(ours, False)
    seen = bytearray()

    def shown() -> bytes:
        with suppress(BlockingIOError, OSError):  # the latter once it has ended
            while piece := os.read(ours, 65536):
                seen.extend(piece)
        return bytes(seen)

    await until(lambda: shown().count(b"usher  ") > 1)  # it repaints
    watching.send_signal(signal.SIGINT)
    # Read meanwhile: a terminal takes some kilobytes, and the program waits for room.
    await until(lambda: shown() and watching.returncode is not None)
    assert watching.returncode == 0
    assert seen.startswith(b"\x1b[?1049h\x1b[?25l")
    assert shown().endswith(b"\x1b[?25h\x1b[?1049l")
    assert b"Traceback" not in seen
    os.close(ours)
