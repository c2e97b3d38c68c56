"""A bot killed in the middle of a minute has its last jobs in its history."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.app import control_socket
from bot.app.control_socket import NotRunning
from tests.bot.platforms.web.web_client import opened
from tests.processes.bot_process import BotProcess
from tests.processes.installation import until

CONFIG = """\
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models:
  flux: {{backends: [stand-in], capabilities: [text-to-image], load_s: 0.1, service_s: 0.1}}
chats: {{web: {{port: {port}}}}}
"""
IMAGES = 3


class RecordedBot(BotProcess):
    """`usher run` with a page, asked as `usher top` asks."""

    async def asked(self, call: str) -> dict[str, Any] | None:
        """Return its answer, or None while there is none."""
        try:
            line = await asyncio.to_thread(
                control_socket.ask, self._config.parent / "usher.sqlite", call
            )
        except NotRunning:
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ended(self) -> int:
        """Return how many jobs have ended today, as the jobs table says."""
        people = await self.asked("people")
        return 0 if people is None else sum(each["jobs"] for each in people["people"])

    async def recorded(self) -> int:
        """Return how many jobs of the last hour are in the history."""
        hour = await self.asked("hour")
        return 0 if hour is None else sum(each["done"] for each in hour["models"])


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[RecordedBot]:
    made = RecordedBot(tmp_path)
    made.configure(CONFIG.format(port=made.port))
    await made.start()
    yield made
    await made.kill()


async def test_jobs_of_the_running_minute_are_found_after_a_kill(bot: RecordedBot) -> None:
    """A crash would leave gaps just where an operator looks for its cause."""
    async with opened(f"http://127.0.0.1:{bot.port}/") as page:
        for _ in range(IMAGES):
            await page.say("/image flux cat")

        async def all_ended() -> bool:
            return await bot.ended() == IMAGES

        await until(all_ended)
    await bot.kill()
    await bot.start()

    async def all_recorded() -> bool:
        return await bot.recorded() == IMAGES

    await until(all_recorded)
