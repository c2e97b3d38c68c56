"""A small real embedding server with OpenAI's API: `wordllama`, whose package contains its model.

It runs on the processor, loads nothing from a network, and understands English sentences well
enough to find the nearest one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import wordllama
from aiohttp import web

from tests.fakes.ports import port_of

MODEL = "l2-supercat-256"
DIMENSIONS = 256


@cache
def _model() -> Any:
    folder = Path(wordllama.__file__).parent  # where its own files are; it looks there last
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def vectors(texts: list[str]) -> list[list[float]]:
    found: list[list[float]] = _model().embed(texts, norm=True).tolist()
    return found


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})


async def _embeddings(request: web.Request) -> web.Response:
    body = await request.json()
    given = body["input"]
    texts = [given] if isinstance(given, str) else given
    if not all(isinstance(text, str) for text in texts):
        fault = {"message": "input must be texts", "type": "invalid_request_error"}
        return web.json_response({"error": fault}, status=400)
    rows = await asyncio.to_thread(vectors, texts)
    data = [
        {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
    ]
    tokens = sum(len(_model().tokenizer.encode(text).ids) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": MODEL, "data": data, "usage": usage})


@asynccontextmanager
async def serving_sentences() -> AsyncIterator[str]:
    """Run the server for the length of the context; yield its address."""
    app = web.Application()
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/embeddings", _embeddings)
    runner = web.AppRunner(app)
    await runner.setup()
    port = port_of(app)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
