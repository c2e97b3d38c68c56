"""`usher init` at a real terminal: what is typed there, what it shows, and Ctrl-C."""

import asyncio
import os
import signal
import stat
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from fcntl import ioctl
from pathlib import Path

from aiohttp import web

from tests.fakes.process import ROOT
from tests.fakes.telegram import FakeTelegram
from tests.processes.installation import until

CTRL_C = "\x03"
WRONG = "1234567:AAcanary-that-Telegram-refuses"
ALONE = (  # whatever else runs on this machine, and whatever card it has
    "from bot.cli.init import card, places; places.PORTS = ()\n"
    "async def none(): return ()\n"
    "card.cards, card.cardless = none, lambda: False\n"
    "from bot.cli.main import main; raise SystemExit(main())"
)


class Typist:
    """A person at a terminal of their own; `seen` is all that ever stood there."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._seen = bytearray()
        self._read_to = 0

    @property
    def seen(self) -> str:
        with suppress(BlockingIOError, OSError):  # the latter once the program has ended
            while piece := os.read(self._terminal, 65536):
                self._seen.extend(piece)
        return self._seen.decode(errors="replace")

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    async def sees(self, words: str) -> None:
        """Wait until words stand there that did not before the last answer."""
        await until(lambda: words in self.seen[self._read_to :])

    async def types(self, question: str, answer: str, end: str = "\n") -> None:
        await self.sees(question)
        self._read_to = len(self.seen)
        os.write(self._terminal, f"{answer}{end}".encode())

    async def ended(self) -> int | None:
        await until(lambda: self.seen and self.process.returncode is not None)
        return self.process.returncode


def _as_from_a_shell() -> None:
    """Take the terminal, and Ctrl-C, which may be ignored where the tests run."""
    ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def init(folder: Path, environ: Mapping[str, str], *options: str) -> AsyncIterator[Typist]:
    """Start `usher init` as a shell does, with a terminal that is its own."""
    ours, its = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ALONE, "init", "-c", str(folder / "config.yaml"), *options),
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.endswith("_TOKEN")} | dict(environ),
        start_new_session=True,
        preexec_fn=_as_from_a_shell,
    )
    os.set_blocking(ours, False)
    try:
        yield Typist(process, ours)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(its)
        os.close(ours)


async def test_a_token_that_is_typed_is_never_shown(tmp_path: Path) -> None:
    """A look at the screen, or at its scrollback, would be enough to take the bot over."""
    async with FakeTelegram() as fake, init(tmp_path, {"TELEGRAM_API": fake.url}) as person:
        await person.types("Address of another server", "")
        await person.types("Memory of the card", "8GB")
        await person.types("Discord bot token", "")
        await person.sees("Telegram bot token")
        assert not person.echoes  # while it is asked for; the token is tried in the open
        await person.types("Telegram bot token", WRONG)
        await person.types("Telegram bot token", fake.token)
        await person.types("Make yourself an admin", "no")
        await person.types("Your id on Telegram", "42")
        await until(lambda: "systemd unit" in person.seen or person.process.returncode is not None)
        if person.process.returncode is None:
            await person.types("systemd unit", "none")
        assert await person.ended() is not None
        assert "Telegram does not accept" in person.seen
        assert "8GB" in person.seen  # what is no secret is shown
        assert WRONG not in person.seen
        assert "canary" not in person.seen
        assert fake.token not in person.seen
        assert fake.token.partition(":")[2] not in person.seen
        assert person.echoes
    secret = tmp_path / "usher.env"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert f"TELEGRAM_TOKEN={fake.token}" in secret.read_text()
    assert fake.token not in (tmp_path / "config.yaml").read_text()


async def test_ctrl_c_at_a_hidden_question_leaves_a_terminal_that_shows(tmp_path: Path) -> None:
    """The person's shell would stay blind, beside a file that is half of one."""
    async with init(tmp_path, {}) as person:
        await person.types("Address of another server", "")
        await person.types("Memory of the card", "")
        await person.types("Discord bot token", "canary", end=CTRL_C)
        assert await person.ended() == 130
        assert person.echoes
        assert "canary" not in person.seen
        assert "Traceback" not in person.seen
    assert not os.listdir(tmp_path)  # noqa: PTH208  short


async def test_ctrl_c_while_a_server_hangs_ends_it_at_once(tmp_path: Path) -> None:
    """A person would wait for each server that does not answer, or read a traceback."""
    asked = asyncio.Event()

    async def hangs(_: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", hangs)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with init(tmp_path, {}, "--server", url) as person, asyncio.timeout(60):
            await asked.wait()
            await person.types("Looking for servers", "", end=CTRL_C)
            assert await person.ended() == 130
            assert "no answer within" not in person.seen
            assert "Traceback" not in person.seen
    finally:
        await runner.cleanup()
    assert not os.listdir(tmp_path)  # noqa: PTH208  short
