"""A compatible server, behind the whole bot, that streams exactly what a test scripts."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from backends.openai.chat.completion import PassedOnReader
from tests.bot.api.whole_api import WAIT_S, Api, running
from tests.fakes.ports import port_of

CONFIG = """
hosts:
  box:
    vram: 24GB
    backends:
      server: {{kind: openai, url: "{url}", flavour: {flavour}}}
models:
  llama:
    backends: [server]
    model: alpha
    capabilities: [text-to-text, vision]
    vram: 7GB
    load_s: 0.01
    service_s: 0.1
chats: {{}}
api:
  port: 0
  open: true
"""
ABOUT: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [{"id": "alpha", "owned_by": "me"}]},
    "/props": {"default_generation_settings": {}, "total_slots": 4},
    "/version": {"version": "0.11.0"},
}
ERRORS = {
    400: {"error": {"code": 400, "message": "Tools need --jinja, see /srv/llm/start.sh"}},
    422: {"error": {"message": "the request exceeds the available context size", "n_ctx": 4096}},
    404: {"detail": "Not Found"},
    501: {
        "error": {
            "code": 501,
            "message": "Infill is not supported by this model: prefix token is missing. ",
            "type": "not_supported_error",
        }
    },
}
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


class ScriptedServer:
    """Answers each call with the next of `scripts`: a list of chunks, or the status of an error.

    In a script, None breaks the connection and "hold" waits until the test sets `go`. `posted` are
    the paths and bodies of the calls, and `left` is set when a caller hangs up.
    """

    def __init__(self, *scripts: Sequence[Any] | int) -> None:
        self.scripts = list(scripts)
        self.posted: list[tuple[str, Any]] = []
        self.go = asyncio.Event()
        self.held = asyncio.Event()
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Stream the next script."""
        self.posted.append((request.path, await request.json()))
        script = self.scripts.pop(0)
        if isinstance(script, int):
            return web.json_response(ERRORS[script], status=script)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            for chunk in script:
                if chunk is None:
                    assert request.transport is not None
                    request.transport.close()
                    return response
                if chunk == "hold":
                    self.held.set()
                    await self.go.wait()
                    continue
                await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await response.write(b"data: [DONE]\n\n")
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return response

    async def about(self, request: web.Request) -> web.Response:
        """Return what identifies any of the flavours, with its one model."""
        return web.json_response(ABOUT[request.path])


@asynccontextmanager
async def scripted(
    folder: Path, *scripts: Sequence[Any] | int, flavour: str = "generic"
) -> AsyncIterator[tuple[Api, ScriptedServer]]:
    """Run the bot with a scripted server until the block ends."""
    server = ScriptedServer(*scripts)
    app = web.Application()
    for path in ABOUT:
        app.router.add_get(path, server.about)
    for path in ("/v1/chat/completions", "/v1/completions", "/infill"):
        app.router.add_post(path, server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    port = port_of(server)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        config = CONFIG.format(url=f"http://127.0.0.1:{port}", flavour=flavour)
        async with running(folder, config) as api:
            yield api, server
    finally:
        server.go.set()
        await runner.cleanup()


async def soon(event: asyncio.Event) -> None:
    """Wait for an event, with a generous timeout."""
    async with asyncio.timeout(WAIT_S):
        await event.wait()


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk of a chat completion."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "alpha"}


def call(index: int | None, *, id: str | None = None, **function: Any) -> dict[str, Any]:  # noqa: A002 - the field's name
    """Return a chunk with a piece of a function call."""
    made: dict[str, Any] = {"function": function}
    if index is not None:
        made["index"] = index
    if id is not None:
        made |= {"id": id, "type": "function"}
    return piece(tool_calls=[made])


def text_piece(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk of a completion."""
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **more}]}


def in_form(chunks: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a server's chunks as the queue reports them."""
    reader = PassedOnReader()
    for chunk in chunks:
        reader.feed(f"data: {json.dumps(chunk)}")
        reader.feed("")
    return reader.take_chunks()


def usage(**more: Any) -> dict[str, Any]:
    """Return the chunk that ends a stream with its token counts."""
    return {"choices": [], "usage": {**USAGE, **more}}
