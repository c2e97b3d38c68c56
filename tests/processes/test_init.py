"""`usher init` at a real terminal: what is typed there, what it shows, and Ctrl-C."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.fakes.telegram.telegram import FakeTelegram
from tests.processes.installation import until
from tests.processes.typist import CTRL_C, Typist, at_terminal

WRONG = "1234567:AAcanary-that-Telegram-refuses"
ALONE = (  # whatever else runs on this machine, and whatever GPU it has
    "from bot.cli.init import hosts as gpu, scan as places; places.PORTS = ()\n"
    "async def none(): return ()\n"
    "gpu.gpus, gpu.gpuless = none, lambda: False\n"
    "from bot.cli.main import main; raise SystemExit(main())"
)


@asynccontextmanager
async def init(folder: Path, environ: Mapping[str, str], *options: str) -> AsyncIterator[Typist]:
    """Start `usher init` at a terminal."""
    command = (sys.executable, "-c", ALONE, "init", "-c", str(folder / "config.yaml"), *options)
    others = {k: v for k, v in os.environ.items() if not k.endswith("_TOKEN")}
    async with at_terminal(command, others | dict(environ)) as person:
        yield person


async def test_a_token_that_is_typed_is_never_shown(tmp_path: Path) -> None:
    """A look at the screen, or at its scrollback, would be enough to take over the bot."""
    async with FakeTelegram() as fake, init(tmp_path, {"TELEGRAM_API": fake.url}) as person:
        await person.types("Address of another server", "")
        await person.types("Memory of the GPU", "8GB")
        await person.types("Discord bot token", "")
        await person.sees("Telegram bot token")
        assert not person.echoes  # while it is asked for; the token is tried in the open
        await person.types("Telegram bot token", WRONG)
        await person.types("Telegram bot token", fake.token)
        await person.types("reach the page", "")
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
    """The person's shell would no longer show what is typed, and half a file would be left."""
    async with init(tmp_path, {}) as person:
        await person.types("Address of another server", "")
        await person.types("Memory of the GPU", "")
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
