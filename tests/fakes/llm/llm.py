"""A fake of text servers over a loopback socket.

LM Studio 0.4 and 0.3, Ollama, llama.cpp with one model and as a router, llama-cpp-python,
llama-swap, vLLM, and a plain compatible server. It answers as recorded (`tests/backends/recorded`)
or documented, and misbehaves on demand: each chat request takes the next of `faults`, each load of
`load_faults`.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.fakes.llm.llm_calls import routes_of, v1_models
from tests.fakes.llm.llm_embeddings import embedding_routes
from tests.fakes.llm.llm_events import events
from tests.fakes.llm.llm_script import (
    CUTTERS,
    DONE,
    KEEPERS,
    KINDS,
    WORDS,
    Fault,
    LoadFault,
    Model,
    Slot,
)
from tests.fakes.llm.llm_words import (
    answer_json,
    copy_name,
    error,
    load_failure,
    no_model,
    nothing_loaded,
    tokens_of,
    too_long,
    unknown_path,
)
from tests.fakes.ports import port_of

__all__ = ("KINDS", "FakeLlm", "Fault", "LoadFault", "Model", "serving")


class FakeLlm:
    """One server. `url` is set once it runs; `requests` are (method, path, body) in order."""

    def __init__(
        self,
        kind: str = "lmstudio",
        models: Sequence[Model] = (),
        *,
        token: str | None = None,
        port: int = 0,
    ) -> None:
        self.kind = kind
        self.models = {model.id: model for model in models or (Model("alpha"), Model("beta"))}
        if kind in KEEPERS:
            self.models = dict(list(self.models.items())[:1])
            next(iter(self.models.values())).copies = ["main"]
        self.token = token
        self.public: frozenset[str] = frozenset()  # paths that need no token
        self.jit = True  # whether LM Studio 0.3 loads on request
        self.no_system: tuple[int, Any] | None = None  # what it answers to a system text
        self.refusal: tuple[int, Any] | None = None  # what it answers to every question
        self.many_images: tuple[int, int, Any] | None = None  # from how many on it answers what
        self.port = port or port_of(self)
        self.faults: deque[Fault] = deque()
        self.load_faults: deque[LoadFault] = deque()
        self.words: Sequence[str] = WORDS
        self.sent: Sequence[bytes | None] | None = None  # the packets of every answer
        self.tool_calls: Sequence[Any] = ()  # deltas, sent instead of words to a call with tools
        self.pace_s = 0.0  # between two words
        self.max_instances = 4  # of a router
        self.hold = asyncio.Event()  # unset: answers stop after two words until it is set
        self.hold.set()
        self.load_hold = asyncio.Event()
        self.load_hold.set()
        self.requests: list[tuple[str, str, Any]] = []
        self._changed = asyncio.Event()
        self.starting = False  # llama.cpp answers 503 to everything until its model is read
        self.aborted = 0  # answers whose reader went away
        self.url = ""
        self._runner: web.AppRunner | None = None
        self._never = asyncio.Event()

    async def start(self) -> None:
        app = web.Application(middlewares=[self._gate], client_max_size=64 * 1024**2)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        for method, path, handler in (*routes_of(self), *embedding_routes(self)):
            app.router.add_route(method, path, handler)
        app.router.add_route("*", "/{tail:.*}", self._unknown)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def restart(self) -> None:
        """End every connection and forget what was loaded, as a crash does."""
        await self.stop()
        for model in self.models.values():
            model.running = 0
            if self.kind not in KEEPERS:
                model.copies = []
        await self.start()

    async def until_running(self, count: int) -> None:
        await self.until(lambda: self.running >= count)

    async def until_loading(self, name: str) -> None:
        await self.until(lambda: self.models[name].loads > 0)

    async def until_idle(self) -> None:
        await self.until(lambda: not self.running)

    @property
    def running(self) -> int:
        return sum(model.running for model in self.models.values())

    def posted(self, path: str) -> list[Any]:
        """Return the bodies posted to a path, without attempts to find out whether a key works."""
        return [
            body
            for method, where, body in self.requests
            if method == "POST" and where == path and body != {"messages": 0}
        ]

    # ------------------------------------------------------------ every request

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        body = None
        if request.can_read_body:
            try:
                body = json.loads(await request.text())
            except ValueError:
                return error(self.kind, 500, "parse error at line 1", "server_error")
        self.requests.append((request.method, request.path, body))
        if self.starting:
            return error(self.kind, 503, "Loading model", "unavailable_error")
        secret = self.token and request.path not in self.public
        if secret and request.headers.get("Authorization") != f"Bearer {self.token}":
            return answer_json(
                401,
                {
                    "error": {
                        "type": "invalid_request",
                        "code": "invalid_api_key",
                        "message": "An LM Studio API token is required to make requests",
                    }
                },
            )
        response: web.StreamResponse = await handler(request)
        return response

    async def _unknown(self, request: web.Request) -> web.Response:
        return unknown_path(self.kind, request)

    async def _models(self, request: web.Request) -> web.Response:
        return answer_json(200, {"object": "list", "data": v1_models(self)})

    # ------------------------------------------------------------ answering

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not isinstance(body.get("messages"), list):
            return error(self.kind, 400, "'messages' must be an array", "invalid_request_error")
        fault = self.faults.popleft() if self.faults else Fault.NONE
        model, refusal = await self.pick(str(body.get("model")), request)
        if model is None:
            assert refusal is not None
            return refusal
        refusal = self._refuse(fault, model, body)
        if refusal is not None:
            return refusal
        slot = Slot(model, self.note)
        try:
            return await self._answer(request, body, slot, fault)
        except (asyncio.CancelledError, ConnectionError):
            self.aborted += 1
            raise
        finally:
            slot.free()

    def note(self) -> None:
        """Wake everyone who waits for a change."""
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    async def pick(
        self, name: str, request: web.Request
    ) -> tuple[Model | None, web.Response | None]:
        if self.kind in KEEPERS - {"vllm"}:  # whatever is asked, its one model answers
            return next(iter(self.models.values())), None
        latest = f"{name}:latest" if self.kind == "ollama" else name
        model = self.models.get(name) or self.models.get(latest)
        if model is None:
            return None, no_model(self.kind, name)
        if self.kind == "llamacpp-router" and request.query.get("autoload") == "false":
            if not model.copies:
                return None, error(self.kind, 400, "model is not loaded", "invalid_request_error")
        elif not self.jit and not model.copies:
            return None, nothing_loaded()
        elif self.kind != "vllm" and not model.copies:
            failure = await self.add_load(
                model
            )  # LM Studio's race: each first request loads a copy
            if failure is not None:
                return None, failure
        return model, None

    def _refuse(self, fault: Fault, model: Model, body: Any) -> web.Response | None:  # noqa: PLR0911 - a table of faults
        if (tokens := tokens_of(body)) > model.context and self.kind not in CUTTERS:
            return too_long(self.kind, tokens, model, body)
        if self.no_system and body["messages"][0]["role"] == "system":
            return answer_json(*self.no_system)
        if self.refusal:
            return answer_json(*self.refusal)
        if (unseen := self._look(model, body)) is not None:
            return unseen
        match fault:
            case Fault.BUSY:
                return error(self.kind, 503, "server busy, please try again.", "api_error")
            case Fault.LIMIT:
                return error(self.kind, 429, "too many requests", "rate_limit_exceeded")
            case Fault.ERROR_200:
                return answer_json(
                    200,
                    {
                        "error": "The model has crashed without additional information. (Exit code: 134)"
                    },
                )
            case Fault.HTML:
                return web.Response(text="<html>It works!</html>", content_type="text/html")
            case Fault.NOT_STREAMED:
                message = {"role": "assistant", "content": " ".join(self.words)}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                whole = {"object": "chat.completion", "model": model.id, "choices": [choice]}
                return web.json_response(whole, dumps=lambda value: json.dumps(value, indent=1))
        return None

    def _look(self, model: Model, body: Any) -> web.Response | None:
        """Refuse images that the model does not accept."""
        images = json.dumps(body["messages"]).count('"type": "image_url"')
        if self.many_images and images >= self.many_images[0]:
            return answer_json(*self.many_images[1:])
        if images and not model.vision:
            if self.kind.startswith("llamacpp"):
                text = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
                return error(self.kind, 500, text, "server_error")
            return answer_json(
                200, {"error": "Model does not support images. Please use a model that does."}
            )
        return None

    async def _answer(
        self, request: web.Request, body: Any, slot: Slot, fault: Fault
    ) -> web.StreamResponse:
        model = slot.model
        if fault is Fault.HANG:
            await self._never.wait()
        if self.sent is not None:
            return await as_sent(request, self.sent)
        if tokens_of(body) > model.context and self.kind not in CUTTERS:
            fault = Fault.BROKEN
        if not body.get("stream"):
            words = " ".join(self.words[: body.get("max_tokens")])
            message = {"role": "assistant", "content": words}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return answer_json(
                200, {"object": "chat.completion", "model": model.id, "choices": [choice]}
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in events(self, body, model, fault):
            if event is None:
                assert request.transport is not None
                request.transport.close()
                return response
            if event == DONE:
                slot.free()  # real servers free the slot before they send the end
            await response.write(event.encode())
        return response

    # ------------------------------------------------------------ loading

    async def add_load(self, model: Model) -> web.Response | None:
        """Load one more copy; return the error answer of a load that failed."""
        fault = self.load_faults.popleft() if self.load_faults else LoadFault.NONE
        model.loads += 1
        self.note()
        if fault is LoadFault.HANG:
            await self._never.wait()
        await self.load_hold.wait()
        if fault in {LoadFault.OOM, LoadFault.CRASH}:
            return load_failure(self.kind, fault)
        self._add_copy(model)
        if fault is LoadFault.DUPLICATE:
            self._add_copy(model)
        return None

    def _add_copy(self, model: Model) -> None:
        number = next(n for n in range(1, 99) if copy_name(model.id, n) not in model.copies)
        model.copies.append(copy_name(model.id, number))


async def as_sent(request: web.Request, packets: Sequence[bytes | None]) -> web.StreamResponse:
    """Answer with these packets; None breaks the connection."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for packet in packets:
        if packet is None:
            assert request.transport is not None
            request.transport.close()
            break
        await response.write(packet)
    return response


@asynccontextmanager
async def serving(
    kind: str = "lmstudio", models: Sequence[Model] = (), *, token: str | None = None
) -> AsyncIterator[FakeLlm]:
    """Run a fake server for the length of the context."""
    server = FakeLlm(kind, models, token=token)
    await server.start()
    try:
        yield server
    finally:
        server.hold.set()
        server.load_hold.set()
        await server.stop()
