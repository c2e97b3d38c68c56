"""Usher is killed in the middle of calls of its API, and the calls come again."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.bot.api.whole_api import check, check_streamed
from tests.fakes.process import serving
from tests.processes.bot_process import BotProcess
from tests.processes.installation import set_faults, told, until

CONFIG = """
database: usher.sqlite
hosts:
  gpu:
    vram: 24GB
    backends:
      studio: {{kind: lmstudio, url: "{studio}"}}
models:
  qwen:
    backends: [studio]
    vram: 4GB
chats: {{}}
api: {{port: {port}, open: true}}
"""
SAID = "the cat sat on the mat"
ASKED = {"model": "qwen", "messages": [{"role": "user", "content": "Where is the cat?"}]}
KEY = {"Idempotency-Key": "one"}
COUNTED = {"x-stainless-retry-count": "0"}
AGAIN = {"x-stainless-retry-count": "1"}


class Program:
    """A program that calls a bot which may be gone, and the server behind it."""

    def __init__(self, bot: BotProcess, studio: str, session: aiohttp.ClientSession) -> None:
        self.bot = bot
        self.studio = studio
        self._session = session
        self._url = f"http://127.0.0.1:{bot.port}/v1"

    async def call(self, headers: Mapping[str, str], *, stream: bool) -> str:
        """Return the text of an answer, and compare its form with OpenAI's document."""
        body = {**ASKED, "stream": stream}
        url = f"{self._url}/chat/completions"
        async with self._session.post(url, json=body, headers=headers) as answer:
            assert answer.status == 200
            text = await answer.text()
        if not stream:
            read = json.loads(text)
            check("POST", "/chat/completions", 200, read)
            return str(read["choices"][0]["message"]["content"])
        assert text.endswith("data: [DONE]\n\n")
        events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        for event in events:
            check_streamed("/chat/completions", event)
        return "".join(event["choices"][0]["delta"].get("content", "") for event in events)

    async def break_off(self, headers: Mapping[str, str], *, stream: bool) -> None:
        """Make a call, and kill the bot while the server writes."""
        calling = asyncio.create_task(self.call(headers, stream=stream))
        await until(self.is_writing)
        await self.bot.kill()
        (broken,) = await asyncio.gather(calling, return_exceptions=True)
        assert isinstance(broken, aiohttp.ClientError)

    async def is_writing(self) -> bool:
        return bool((await told(self.studio))["running"])

    async def is_done(self) -> bool:
        return all(job["state"] == "completed" for job in await self.jobs())

    async def jobs(self) -> list[Any]:
        async with self._session.get(f"{self._url}/jobs?limit=100") as answer:
            return list((await answer.json())["data"])

    async def asked(self) -> int:
        """Return how often the server was asked for an answer."""
        return int((await told(self.studio))["asked"])


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Program]:
    bot = BotProcess(tmp_path)
    async with serving("lmstudio", "--size", "qwen=4000", "--step-s", "5") as studio:
        bot.configure(CONFIG.format(studio=studio, port=bot.port))
        await bot.start()
        async with aiohttp.ClientSession() as session:
            yield Program(bot, studio, session)
        await bot.kill()


@pytest.mark.parametrize(("first", "again", "stream"), [(KEY, KEY, True), (COUNTED, AGAIN, False)])
async def test_a_call_in_flight_is_answered_when_it_comes_again(
    first: Mapping[str, str], again: Mapping[str, str], stream: bool, program: Program
) -> None:
    """Each crash would lose what programs were waiting for, or queue it again."""
    await program.break_off(first, stream=stream)
    await set_faults(program.studio, pace_s=0.0)
    await program.bot.start()
    assert await program.call(again, stream=stream) == SAID
    (job,) = await program.jobs()
    assert job["state"] == "completed"


async def test_an_answer_that_was_complete_is_not_generated_twice(program: Program) -> None:
    """The GPU would write again what is already stored."""
    await program.break_off(KEY, stream=True)
    await set_faults(program.studio, pace_s=0.0)
    await program.bot.start()
    await until(program.is_done)  # without its caller
    before = await program.asked()
    await program.bot.kill()
    await program.bot.start()
    assert await program.call(KEY, stream=True) == SAID
    assert await program.call(KEY, stream=False) == SAID
    assert await program.asked() == before
