"""A stand-in for a text server: `python -m benchmarks.api.server PORT`.

The model "fast" writes as fast as it is read, "paced" writes 50 tokens a second, and "held" never
writes. Each token is a separate chunk; `max_tokens` sets their number. "words" returns vectors.
"""

import asyncio
import base64
import json
import struct
import sys

from aiohttp import web

TOKENS_PER_S = 50.0
MODELS = ("fast", "paced", "held", "words")
VECTOR = [round(((n * 37) % 101 - 50) / 1600, 9) for n in range(1024)]
PACKED = base64.b64encode(struct.pack("<1024f", *VECTOR)).decode()


def chunk(model: str, content: str, end: str | None = None) -> bytes:
    """Return one event."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": end}
    body = {"id": "x", "object": "chat.completion.chunk", "model": model, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


async def answer(request: web.Request) -> web.StreamResponse:
    """Stream an answer."""
    asked = await request.json()
    model, tokens = asked["model"], asked.get("max_tokens") or 16
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if model == "held":
        await asyncio.get_running_loop().create_future()
    piece = chunk(model, "word ")
    for _ in range(tokens - 1):
        await response.write(piece)
        if model == "paced":
            await asyncio.sleep(1 / TOKENS_PER_S)
    await response.write(chunk(model, "end", "stop") + b"data: [DONE]\n\n")
    return response


async def embed(request: web.Request) -> web.Response:
    """Return a vector for each text."""
    asked = await request.json()
    given = asked["input"]
    texts = [given] if isinstance(given, str) else given
    vector = PACKED if asked.get("encoding_format") == "base64" else VECTOR
    rows = [{"object": "embedding", "index": n, "embedding": vector} for n in range(len(texts))]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    told = {"object": "list", "model": asked["model"], "data": rows, "usage": usage}
    return web.json_response(told)


async def models(_request: web.Request) -> web.Response:
    """List the models."""
    return web.json_response({"object": "list", "data": [{"id": name} for name in MODELS]})


def main() -> None:
    """Serve until the process is killed."""
    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_post("/v1/embeddings", embed)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
