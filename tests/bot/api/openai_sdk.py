"""OpenAI's Python package, unchanged, as a client of a running bot and a fake server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai

from queueing.core.jobs import Job, JobState
from tests.bot.api.whole_api import Api, running
from tests.fakes.llm.llm import FakeLlm, Model, serving

CONFIG = """
hosts:
  box:
    vram: 24GB
    backends:
      server: {{kind: openai, url: "{url}"}}
      studio: {{kind: demo}}
models:
  alpha:
    backends: [server]
    capabilities: [text-to-text, vision]
    vram: 4GB
    parallel: {parallel}
    load_s: 0.01
    service_s: 0.5
  flux:
    backends: [studio]
    capabilities: [text-to-image]
    vram: 4GB
    load_s: 0.01
    service_s: 0.1
chats: {{}}
api: {{port: 0, open: true{api}}}
{more}
"""
CAT: Any = {"model": "alpha", "messages": [{"role": "user", "content": "Where is the cat?"}]}
SAID = "the cat sat on the mat"
NOBODY = "api:local"


class Program:
    """A program that uses the package, and everything it talks to."""

    def __init__(self, api: Api, server: FakeLlm) -> None:
        self.api = api
        self.server = server
        self.requests: list[Mapping[str, str]] = []
        """The headers of each request that the package really made."""
        self._requested = asyncio.Event()
        self.client = self.another()

    def another(self, **options: Any) -> openai.AsyncOpenAI:
        """Return a client with other options than the usual ones."""

        async def note(request: Any) -> None:
            self.requests.append(request.headers)
            self._requested.set()

        http = openai.DefaultAsyncHttpxClient(trust_env=False, event_hooks={"request": [note]})
        settings: dict[str, Any] = {
            "base_url": self.api.url,
            "api_key": "none",
            "timeout": 60.0,
        } | options
        return openai.AsyncOpenAI(http_client=http, **settings)

    def blocking(self, **options: Any) -> openai.OpenAI:
        """Return a client for use in another thread."""
        http = openai.DefaultHttpxClient(trust_env=False)
        settings: dict[str, Any] = {
            "base_url": self.api.url,
            "api_key": "none",
            "timeout": 60.0,
        } | options
        return openai.OpenAI(http_client=http, **settings)

    async def until_requested(self, count: int) -> None:
        """Wait until the package has made this many requests."""
        async with asyncio.timeout(60):
            while len(self.requests) < count:
                self._requested.clear()
                await self._requested.wait()

    async def jobs(self) -> list[Job]:
        return await self.api.parts.queue.jobs.history(NOBODY, limit=100)

    async def stream(self) -> Any:
        """Return a stream of an answer to the usual question."""
        return await self.client.chat.completions.create(**CAT, stream=True)

    async def until_running(self) -> None:
        """Wait until the server is writing an answer."""
        async with asyncio.timeout(60):
            await self.server.until_running(1)

    async def until_waiting(self) -> None:
        """Wait until one call is being answered and another is waiting in the queue."""
        await self.api.until(
            lambda jobs: (
                {job.state for job in jobs} == {JobState.PENDING, JobState.PROCESSING}
                and len(jobs) == 2
            )
        )

    async def until_all_is_over(self) -> None:
        """Wait until no job is open and the server is writing nothing."""
        await self.api.until(lambda jobs: not jobs)
        async with asyncio.timeout(60):
            await self.server.until_idle()


@asynccontextmanager
async def programming(
    folder: Path, *, api: str = "", more: str = "", parallel: int = 4
) -> AsyncIterator[Program]:
    """Run a bot, a server and a program until the block ends; `api` and `more` are settings."""
    async with serving("llamacpp", [Model("alpha", vision=True)]) as server:
        text = CONFIG.format(url=server.url, api=api, more=more, parallel=parallel)
        async with running(folder, text) as bot:
            program = Program(bot, server)
            try:
                yield program
            finally:
                server.hold.set()
                await program.client.close()


def text_of(chunks: list[Any]) -> str:
    """Return the text of a streamed answer."""
    said = (choice.delta.content for chunk in chunks for choice in chunk.choices)
    return "".join(filter(None, said))
