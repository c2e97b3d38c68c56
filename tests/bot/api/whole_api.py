"""The whole bot with its HTTP API on a loopback port, and a client of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from bot.api.calls.fetcher import Fetcher
from bot.api.document import document
from bot.api.operations import JSON, OPERATIONS
from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config import loader as configuration
from queueing.core.jobs import Job
from tests.specs import openai_spec

WAIT_S = 60.0
GRACE_S = 0.1
"""For running jobs at the end of a test."""
CONFIG = """
hosts:
  box:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  llama:
    backends: [studio]
    capabilities: [text-to-text, vision]
    vram: 7GB
    load_s: 0.01
    service_s: 0.1
    aliases: [gpt-4o]
  flux:
    backends: [studio]
    capabilities: [text-to-image]
    vram: 9GB
    parallel: 1
    load_s: 0.01
    service_s: 0.1
chats: {}
api:
  port: 0
  open: true
"""


class Api:
    """A client of the API of a running bot; `until_the_end` closes what it has opened."""

    def __init__(
        self, parts: BotParts, session: aiohttp.ClientSession, until_the_end: AsyncExitStack
    ) -> None:
        self.parts = parts
        self.session = session
        self.until_the_end = until_the_end
        self._changed = asyncio.Event()
        parts.queue.events.subscribe(lambda _event: self._changed.set())

    async def open_jobs(self, owner: str = "api:local") -> list[Job]:
        return await self.parts.queue.jobs.open_jobs(owner)

    async def until(self, holds: Callable[[list[Job]], bool], *, owner: str = "api:local") -> None:
        """Wait until a condition holds for a person's open jobs."""
        async with asyncio.timeout(WAIT_S):
            while not holds(await self.open_jobs(owner)):
                await self._changed.wait()
                self._changed.clear()

    @property
    def url(self) -> str:
        assert self.parts.gateway is not None
        return f"http://127.0.0.1:{self.parts.gateway.port}/v1"

    async def post(
        self, path: str, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Any:
        async with self.session.post(f"{self.url}{path}", json=body, headers=headers) as answer:
            read = await answer.json(content_type=None, loads=strictly)
            assert answer.status == status, read
            check("POST", path, status, read)
            return read

    async def get(self, path: str, *, status: int = 200) -> Any:
        async with self.session.get(f"{self.url}{path}") as answer:
            assert answer.status == status
            read = await answer.json(loads=strictly)
            check("GET", path, status, read)
            return read

    async def events(self, path: str) -> list[Any]:
        """Return the JSON of a stream's data lines."""
        async with self.session.get(f"{self.url}{path}") as answer:
            assert answer.status == 200
            lines = (await answer.text()).split("\n")
        return [strictly(line[6:]) for line in lines if line.startswith("data: ")]

    async def stream(self, path: str, body: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """Return the JSON of a stream's data lines, and its comments; the end as "[DONE]"."""
        events: list[Any] = []
        comments: list[str] = []
        async with self.session.post(f"{self.url}{path}", json={**body, "stream": True}) as answer:
            assert answer.status == 200, await answer.text()
            for line in (await answer.text()).split("\n"):
                if line.startswith(":"):
                    comments.append(line)
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                    events.append(data if data == "[DONE]" else strictly(data))
        for event in events:
            check_streamed(path, event)
        return events, comments


def strictly(text: str) -> Any:
    """Return the value of a JSON text as read by parsers that are stricter than Python's."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def check(method: str, path: str, status: int, body: Any) -> None:
    """Compare an answer with Usher's document, and with OpenAI's own if that has the path."""
    described = openai_spec.document()["paths"]
    if status == 200 and f"{method} /v1{path}" in OPERATIONS:
        require_described(f"{method} /v1{path}", body)
    template = "/models/{model}" if path.startswith("/models/") else path
    if status == 200 and path == "/embeddings" and isinstance(body["data"][0]["embedding"], str):
        return  # the document does not know base64, which OpenAI answers and its packages ask for
    if template in described and status == 200:
        openai_spec.check_answer(method, template, body)
    elif status >= 400:
        openai_spec.check_schema("ErrorResponse", body)


def require_described(route: str, body: Any, *, is_event: bool = False) -> None:
    """Compare a success with what Usher's document says about a route."""
    errors = [f"{error.json_path}: {error.message}" for error in _ours(route, is_event)(body)]
    assert not errors, (route, errors)


@cache
def _ours(route: str, is_event: bool) -> Callable[[Any], Iterable[ValidationError]]:
    method, path = route.split(" ")
    whole = _document()
    answered = whole["paths"][path][method.lower()]["responses"]["200"]
    schema = answered["x-event-schema"] if is_event else answered["content"][JSON].get("schema", {})
    validator = Draft202012Validator({**schema, "components": whole["components"]})
    return validator.iter_errors


@cache
def _document() -> Any:
    return document(OPERATIONS)


def check_streamed(path: str, event: Any) -> None:
    """Compare an event of a stream with Usher's document, and with OpenAI's own if it has one."""
    if event != "[DONE]" and "error" not in event and OPERATIONS[f"POST /v1{path}"].items:
        require_described(f"POST /v1{path}", event, is_event=True)
    if event == "[DONE]" or path in {"/completions", "/fim/completions"}:
        return  # the document does not describe the chunks of completions
    if "error" in event and "type" not in event:
        openai_spec.check_schema("ErrorResponse", event)
    else:
        openai_spec.check_event("POST", path, event)


@asynccontextmanager
async def running(
    folder: Path,
    text: str = CONFIG,
    environ: Mapping[str, str] | None = None,
    make_fetcher: Callable[..., Fetcher] = Fetcher,
) -> AsyncIterator[Api]:
    """Run the bot until the block ends."""
    app = App(
        BotSetup(
            configuration.parse(text, environ or {}),
            database_url=f"sqlite:///{folder}/usher.sqlite",
            make_fetcher=make_fetcher,
            grace_s=GRACE_S,
        )
    )
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        assert parts.gateway is not None
        async with asyncio.timeout(WAIT_S):
            await parts.gateway.connected.wait()
        timeout = aiohttp.ClientTimeout(total=WAIT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            AsyncExitStack() as until_the_end,
        ):
            yield Api(parts, session, until_the_end)
        working.cancel()
