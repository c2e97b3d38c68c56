"""`usher top` shows a running process, from another process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.process import ROOT
from tests.processes.bot_process import BotProcess
from tests.processes.installation import until
from tests.processes.typist import CTRL_C, at_terminal

ESC, ARROW = "\x1b", "\x1b[A"
XTERM = {**os.environ, "TERM": "xterm"}
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
    """An operator on a terminal would have nothing but a log."""
    await bot.start()
    status, shown = await bot.top("--once")
    assert status == 0
    assert "0 running, 0 waiting" in shown
    assert "home" in shown
    assert "stand-in  up" in shown
    assert "\x1b" not in shown


async def test_its_json_is_what_the_page_reads(bot: WatchedBot) -> None:
    """A script would have to read a drawing."""
    await bot.start()
    status, shown = await bot.top("--json")
    assert status == 0
    told = json.loads(shown)
    assert [host["name"] for host in told["now"]["hosts"]] == ["home"]
    assert told["hour"]["span"] == "hour"
    assert told["people"]["people"] == []


async def test_without_a_bot_it_says_so(bot: WatchedBot) -> None:
    """An empty display would look like a bot without work."""
    status, shown = await bot.top("--once")
    assert status == 2
    assert "no running bot uses" in shown


@pytest.mark.parametrize("key", ["q", ESC, CTRL_C])
async def test_a_key_ends_it_and_leaves_the_terminal_as_it_was(bot: WatchedBot, key: str) -> None:
    """The operator's shell would show no cursor, no earlier lines, or nothing that is typed."""
    await bot.start()
    async with at_terminal(bot.command(), XTERM) as person:
        await until(lambda: person.seen.count("usher  ") > 1)  # it repaints
        assert not person.echoes
        await person.types("usher  ", "x", end="")  # means nothing
        await person.types("usher  ", ARROW, end="")
        await person.types("usher  ", key, end="")
        assert await person.ended() == 0
        assert person.echoes
        assert person.seen.startswith("\x1b[?1049h")
        assert person.seen.endswith("\x1b[?25h\x1b[?1049l")
        assert "Traceback" not in person.seen


async def test_it_waits_for_a_bot_that_went_and_ends_by_a_signal(bot: WatchedBot) -> None:
    """A restart would end what the operator watches; without a keyboard it could not be ended."""
    await bot.start()
    async with at_terminal(bot.command(), XTERM, typing=False) as person:
        await person.sees("stand-in")
        await bot.kill()
        await person.sees("no running bot uses")
        person.process.send_signal(signal.SIGTERM)
        assert await person.ended() == 0
        assert person.seen.endswith("\x1b[?25h\x1b[?1049l")
