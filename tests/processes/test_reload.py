"""The configuration of a running process is changed, by a real signal and by `usher reload`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.ports import port_of
from tests.fakes.process import ROOT
from tests.processes.bot_process import BotProcess
from tests.processes.installation import until

CONFIG = """\
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in], capabilities: [text-to-image], service_s: 0.1}}}}
chats: {{web: {{port: {port}}}}}
api: {{port: {api}, open: true}}
"""
FLUX = "models: {flux: "
SDXL = "models: {sdxl: {backends: [stand-in], capabilities: [text-to-image]}, flux: "
ADMIN = "admins: ['web:local']\n"


class Held:
    """Keeps a port as long as it lives."""


class Bot(BotProcess):
    """`usher run` with a page, an API and demo servers; a test writes its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._held = Held()
        self.api = port_of(self._held)
        self.models = FLUX

    def write(self, more: str = "", **settings: object) -> None:
        given = {"port": self.port, "api": self.api} | settings
        self.configure(CONFIG.format(**given).replace(FLUX, self.models) + more)

    async def offered(self) -> list[str]:
        """Return the names of the models that programs are offered."""
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{self.api}/v1/models")
        return [each["id"] for each in answer.json()["data"]]

    async def reload(self) -> tuple[int | None, list[str]]:
        """Call `usher reload` and return its exit status and its lines."""
        called = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bot", "reload", "-c", str(self._config)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await called.communicate()
        return called.returncode, told.decode().splitlines()

    def hang_up(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGHUP)

    def logged(self, words: str) -> bool:
        return words in self._log.read_text()


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    made = Bot(tmp_path)
    made.write()
    await made.start()
    yield made
    await made.kill()


async def test_a_signal_and_a_call_change_what_people_may_do(bot: Bot) -> None:
    """A new admin would need a restart, which loses running work."""
    bot.write(ADMIN)
    bot.hang_up()
    await until(lambda: bot.logged("the configuration was reloaded: applied: admins"))
    status, told = await bot.reload()
    assert (status, told) == (0, ["nothing has changed"])
    bot.write(ADMIN + "limits: {per_hour: 7}\n", port=1)
    status, told = await bot.reload()
    assert status == 0
    assert told == ["applied: limits.per_hour", "needs a restart: chats.web.port"]


async def test_a_model_is_added_and_taken_out_while_the_bot_runs(bot: Bot) -> None:
    """For a new model all waiting people would have to bear a restart."""
    await until(bot.offered)
    bot.models = SDXL
    bot.write()
    assert await bot.reload() == (0, ["applied: models.sdxl (added)"])
    assert sorted(await bot.offered()) == ["flux", "sdxl"]
    bot.models = SDXL.replace("[stand-in]", "[nowhere]")
    bot.write()
    assert (await bot.reload())[0] == 1
    assert sorted(await bot.offered()) == ["flux", "sdxl"]
    bot.models = FLUX
    bot.write()
    assert await bot.reload() == (0, ["applied: models.sdxl (removed)"])
    assert await bot.offered() == ["flux"]


async def test_a_bad_file_is_refused_with_its_lines_and_the_bot_goes_on(bot: Bot) -> None:
    """A typing error would stop the bot, or only be noticed at the next start."""
    bot.write("nonsense: 1\n")
    status, told = await bot.reload()
    assert status == 1
    assert told[0].startswith("config.yaml:5: nonsense: is not a setting")
    assert told[-1] == "nothing was changed: the bot keeps its previous configuration"
    bot.hang_up()
    await until(lambda: bot.logged("the configuration was not reloaded"))
    bot.write()
    assert await bot.reload() == (0, ["nothing has changed"])


async def test_without_a_running_bot_the_call_says_so(bot: Bot) -> None:
    """A script would believe that the change is in force."""
    await bot.kill()
    status, told = await bot.reload()
    assert status == 2
    assert told[0].startswith("no running bot uses")
