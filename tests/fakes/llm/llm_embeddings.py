"""The calls of the fake text server that return vectors, as each kind of server answers them.

A vector has eight numbers computed only from its input, so that a test can tell whose it is.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.llm.llm_script import LM_STUDIO, Fault, Model, Slot
from tests.fakes.llm.llm_words import answer_json, error

if TYPE_CHECKING:
    from tests.fakes.llm.llm import FakeLlm

DIMENSIONS = 8
PACKS = ("vllm", "llamacpp", "llamacpp-router")  # the others send numbers, whatever is asked for
MARKER = "<__media__>"

NO_VECTORS: dict[Fault, Any] = {
    Fault.NO_NUMBERS: ["a", "b"],
    Fault.EMPTY: [],
    Fault.NO_BASE64: "AAAAAAAAAAAAAAAA*",
    Fault.BROKEN_OFF: "AAAA",
}


def vector_of(given: object, dimensions: int = DIMENSIONS) -> list[float]:
    digest = hashlib.sha256(json.dumps(given).encode()).digest()
    return [(byte - 128) / 128 for byte in digest[:dimensions]]


def embedding_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def openai(request: web.Request) -> web.StreamResponse:
        return await _answered(server, request, own=False)

    async def ollama(request: web.Request) -> web.StreamResponse:
        return await _answered(server, request, own=True)

    routes: list[tuple[str, str, Any]] = [("POST", "/v1/embeddings", openai)]
    return [*routes, ("POST", "/api/embed", ollama)] if server.kind == "ollama" else routes


async def _answered(server: FakeLlm, request: web.Request, *, own: bool) -> web.StreamResponse:
    body = await request.json()
    fault = server.faults.popleft() if server.faults else Fault.NONE
    model, refusal = await server.pick(str(body.get("model")), request)
    if model is None:
        assert refusal is not None
        return refusal
    inputs = _inputs(body)
    if (refused := _refused(server, model, inputs, body)) is not None:
        return refused
    slot = Slot(model, server.note)
    try:
        if fault is Fault.HANG:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(server.pace_s * len(inputs))
        await server.hold.wait()
    except (asyncio.CancelledError, ConnectionError):
        server.aborted += 1
        raise
    finally:
        slot.free()
    return _answer(server, model, inputs, body, fault, own=own)


def _inputs(body: Any) -> list[Any]:
    if "messages" in body:
        return [body["messages"]]
    given = body.get("input", [])
    return [given] if isinstance(given, str) else given


def _refused(  # noqa: PLR0911 - a table of refusals
    server: FakeLlm, model: Model, inputs: list[Any], body: Any
) -> web.Response | None:
    kind = server.kind
    if not model.embeds and kind.startswith("llamacpp"):
        text = "This server does not support embeddings. Start it with `--embeddings`"
        return error(kind, 501, text, "not_supported_error")
    if not model.embeds and kind == "ollama":
        return answer_json(400, {"error": f'"{model.id}" does not support embeddings'})
    tokens = any(isinstance(each, list) and "messages" not in body for each in inputs)
    if tokens and kind in {"ollama", "llama-cpp-python", *LM_STUDIO}:
        return answer_json(400, {"error": "invalid input type"})
    if any(isinstance(each, str) and len(each) > model.context * 4 for each in inputs):
        if kind == "ollama" and body.get("truncate", True):
            return None
        text = "the input length exceeds the context length"
        if kind.startswith("llamacpp"):
            text = "input is too large to process. increase the physical batch size"
            return error(kind, 500, text, "server_error")
        return error(kind, 400, text, "invalid_request_error")
    return None


def _answer(  # noqa: C901 - a table of faults
    server: FakeLlm, model: Model, inputs: list[Any], body: Any, fault: Fault, *, own: bool
) -> web.Response:
    dimensions = DIMENSIONS
    if server.kind in {"ollama", "generic"}:
        dimensions = min(body.get("dimensions") or DIMENSIONS, DIMENSIONS)
    elif body.get("dimensions") and server.kind == "vllm":
        text = f'Model "{model.id}" does not support matryoshka representation, changing output dimensions will lead to poor results.'
        return error(server.kind, 400, text, "BadRequestError", 400)
    vectors: list[Any] = [vector_of(each, dimensions) for each in inputs]
    match fault:
        case Fault.BUSY:
            return error(server.kind, 503, "server busy, please try again.", "api_error")
        case Fault.ERROR_200:
            return answer_json(200, {"error": "The model has crashed without explanation."})
        case Fault.ERROR_ABOVE:
            told = {"object": "error", "message": "This model does not support embeddings"}
            return answer_json(200, told)
        case Fault.HTML:
            return web.Response(text="<html>It works!</html>", content_type="text/html")
        case Fault.FEWER:
            vectors = vectors[1:]
        case Fault.UNEVEN:
            vectors[-1] = [*vectors[-1], 0.5]
        case Fault.NOT_FINITE:
            vectors[0][0] = float("nan")
        case _ if fault in NO_VECTORS:
            vectors = [NO_VECTORS[fault] for _ in vectors]  # all alike, so of one length
    if body.get("encoding_format") == "base64" and server.kind in PACKS:
        vectors = [_packed(vector) for vector in vectors]
    return answer_json(200, _whole(server, model, vectors, inputs, fault, own=own))


def _packed(vector: list[Any]) -> str | list[Any]:
    """Return a vector as base64; anything else is returned unchanged."""
    if not all(isinstance(each, float) for each in vector):
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _whole(
    server: FakeLlm, model: Model, vectors: list[Any], inputs: list[Any], fault: Fault, *, own: bool
) -> dict[str, Any]:
    tokens = sum(len(str(each)) // 4 + 1 for each in inputs)
    if own:
        return {"model": model.id, "embeddings": vectors, "prompt_eval_count": tokens}
    rows = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    if fault is Fault.SHUFFLED:
        rows.reverse()
    if fault is Fault.TWICE:
        rows[-1]["index"] = 0
    if fault is Fault.NO_INDEX:
        rows = [{"embedding": vector} for vector in vectors]
    name = "another" if fault is Fault.WRONG_MODEL else model.id
    told = {"prompt_tokens": 0 if server.kind in LM_STUDIO else tokens}
    return {"object": "list", "model": name, "data": rows, "usage": told}
