"""A fake of text servers over a loopback socket.

LM Studio 0.4 and 0.3, Ollama, llama.cpp with one model and as a router, llama-swap, vLLM, and a
plain compatible server. It answers as the recordings in `tests/backends/recorded` and the fact sheets say, and misbehaves
on demand: each chat request takes the next fault of `faults`, each load the next of `load_faults`.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aiohttp import web

CONTEXT = 4096
DONE = "data: [DONE]\n\n"
WORDS = ("the", "cat", "sat", "on", "the", "mat")
KINDS = (
    "lmstudio",
    "lmstudio-0.3",
    "ollama",
    "llamacpp",
    "llamacpp-router",
    "llamaswap",
    "vllm",
    "llama-cpp-python",
    "generic",
)
LM_STUDIO = {"lmstudio", "lmstudio-0.3"}


class Fault(StrEnum):
    """What goes wrong with one chat request."""

    NONE = "none"
    BUSY = "busy"  # 503
    LIMIT = "limit"  # 429
    HANG = "hang"  # the connection is taken, nothing ever comes
    DRIP = "drip"  # comments only, for ever
    CUT = "cut"  # the connection ends in the middle
    ERROR_INSIDE = "error-inside"  # an error event in a 200 stream
    ERROR_EVENT = "error-event"  # the same with an event name, as LM Studio does
    ERROR_200 = "error-200"  # plain JSON with an error, status 200
    GARBAGE = "garbage"
    HTML = "html"
    WRONG_MODEL = "wrong-model"
    OOM = "oom"
    CRASH = "crash"  # the engine dies, the server lives
    UNLOADED = "unloaded"  # somebody unloads the model while it answers
    EMPTY = "empty"
    SILENT = "silent"  # a stream without one event
    BROKEN = "broken"  # the same, and the connection breaks
    THOUGHTS = "thoughts"  # reasoning until the limit
    INTERRUPTED = "interrupted"  # [DONE] without a reason for the end
    NOT_STREAMED = "not-streamed"  # a whole answer, though a stream was asked for


class LoadFault(StrEnum):
    """What goes wrong with one load."""

    NONE = "none"
    OOM = "oom"
    CRASH = "crash"
    HANG = "hang"
    DUPLICATE = "duplicate"  # another program loads a copy at the same time


@dataclass
class Model:
    """A downloaded model and its copies."""

    id: str
    vision: bool = False
    chats: bool = True
    copies: list[str] = field(default_factory=list)
    context: int = CONTEXT
    size: int = 4 * 1024**3
    polls_to_ready: int = 0  # llama.cpp's router loads behind the caller's back
    loads: int = 0
    running: int = 0
    most_running: int = 0
    failed: bool = False


class Slot:
    """One answer in the making, counted on its model until it is free."""

    def __init__(self, model: Model, changed: Callable[[], None]) -> None:
        self.model = model
        self._changed = changed
        self._taken = True
        model.running += 1
        model.most_running = max(model.most_running, model.running)
        changed()

    def free(self) -> None:
        if self._taken:
            self._taken = False
            self.model.running -= 1
            self._changed()


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
        if kind in {"llamacpp", "vllm"}:
            self.models = dict(list(self.models.items())[:1])
            next(iter(self.models.values())).copies = ["main"]
        self.token = token
        self.port = port
        self.faults: deque[Fault] = deque()
        self.load_faults: deque[LoadFault] = deque()
        self.words: Sequence[str] = WORDS
        self.pace_s = 0.0  # between two words
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
        app.router.add_get("/v1/models", self._v1_models)
        for method, path, handler in _routes(self):
            app.router.add_route(method, path, handler)
        app.router.add_route("*", "/{tail:.*}", self._unknown)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
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
            if self.kind not in {"llamacpp", "vllm"}:
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
        return [body for method, where, body in self.requests if method == "POST" and where == path]

    # ------------------------------------------------------------ every request

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        body = None
        if request.can_read_body:
            try:
                body = json.loads(await request.text())
            except ValueError:
                return self._error(500, "parse error at line 1", "server_error")
        self.requests.append((request.method, request.path, body))
        if self.starting:
            return self._error(503, "Loading model", "unavailable_error")
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _json(
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
        if self.kind in LM_STUDIO:
            text = f"Unexpected endpoint or method. ({request.method} {request.path})"
            return _json(200, {"error": text})
        if self.kind.startswith("llamacpp"):
            fault = {"message": "File Not Found", "type": "not_found_error", "code": 404}
            return _json(404, {"error": fault})
        if self.kind == "vllm":
            return _json(404, {"detail": "Not Found"})
        return web.Response(status=404, text="404 page not found")

    def _error(self, status: int, message: str, kind: str, code: object = None) -> web.Response:
        if self.kind.startswith("llamacpp"):
            return _json(status, {"error": {"code": status, "message": message, "type": kind}})
        fault = {"message": message, "type": kind, "param": None, "code": code}
        return _json(status, {"error": fault})

    # ------------------------------------------------------------ answering

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        fault = self.faults.popleft() if self.faults else Fault.NONE
        model, refusal = await self._pick(str(body.get("model")), request)
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
        """Wake whoever waits for a change."""
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    async def _pick(
        self, name: str, request: web.Request
    ) -> tuple[Model | None, web.Response | None]:
        if self.kind == "llamacpp":  # whatever is asked, its one model answers
            return next(iter(self.models.values())), None
        model = self.models.get(name)
        if model is None:
            return None, self._no_model(name)
        if self.kind == "llamacpp-router" and request.query.get("autoload") == "false":
            if not model.copies:
                return None, self._error(400, "model is not loaded", "invalid_request_error")
        elif self.kind != "vllm" and not model.copies:
            failure = await self._load(model)  # LM Studio's race: each first request loads a copy
            if failure is not None:
                return None, failure
        return model, None

    def _no_model(self, name: str) -> web.Response:
        match self.kind:
            case "llamacpp-router":
                text = f"model '{name}' not found"
                return self._error(400, text, "invalid_request_error")
            case "ollama":
                text = f'model "{name}" not found, try pulling it first'
                return self._error(404, text, "api_error")
            case "vllm":
                text = f"The model `{name}` does not exist."
                return self._error(404, text, "NotFoundError", 404)
            case "llamaswap":
                return web.Response(status=404, text="no router for model " + name)
        text = f'Model "{name}" not found. Please specify a valid model. Your models: …'
        return self._error(404, text, "invalid_request_error", "model_not_found")

    def _refuse(self, fault: Fault, model: Model, body: Any) -> web.Response | None:  # noqa: PLR0911 - a table of faults
        if (tokens := _tokens(body)) > model.context:
            return self._too_long(tokens, model, body)
        if "image_url" in json.dumps(body["messages"]) and not model.vision:
            if self.kind.startswith("llamacpp"):
                text = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
                return self._error(500, text, "server_error")
            return _json(
                200, {"error": "Model does not support images. Please use a model that does."}
            )
        match fault:
            case Fault.BUSY:
                return self._error(503, "server busy, please try again.", "api_error")
            case Fault.LIMIT:
                return self._error(429, "too many requests", "rate_limit_exceeded")
            case Fault.ERROR_200:
                return _json(
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

    def _too_long(self, tokens: int, model: Model, body: Any) -> web.Response | None:
        if self.kind.startswith("llamacpp"):
            fault = {
                "code": 400,
                "message": f"request ({tokens} tokens) exceeds the available context size ({model.context} tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": tokens,
                "n_ctx": model.context,
            }
            return _json(400, {"error": fault})
        if self.kind in LM_STUDIO:
            text = f"Trying to keep the first {tokens} tokens when context the overflows. However, the model is loaded with context length of only {model.context} tokens"
            return _json(200, {"error": text})
        if self.kind == "llama-cpp-python" and body.get("stream"):
            return None  # it says so in the log only, and breaks the stream
        text = f"This model's maximum context length is {model.context} tokens. However, you requested {tokens} tokens"
        return self._error(400, text, "invalid_request_error", "context_length_exceeded")

    async def _answer(
        self, request: web.Request, body: Any, slot: Slot, fault: Fault
    ) -> web.StreamResponse:
        model = slot.model
        if fault is Fault.HANG:
            await self._never.wait()
        if _tokens(body) > model.context:
            fault = Fault.BROKEN
        if not body.get("stream"):
            words = " ".join(self.words[: body.get("max_tokens")])
            message = {"role": "assistant", "content": words}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return _json(200, {"object": "chat.completion", "model": model.id, "choices": [choice]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in self._events(body, model, fault):
            if event is None:
                assert request.transport is not None
                request.transport.close()
                return response
            if event == DONE:
                slot.free()  # real servers are done with an answer before they say so
            await response.write(event.encode())
        return response

    async def _events(self, body: Any, model: Model, fault: Fault) -> AsyncIterator[str | None]:
        """Yield the stream piece by piece; None cuts the connection."""
        if fault is Fault.SILENT:
            return
        if fault is Fault.BROKEN:
            yield None
            return
        while fault is Fault.DRIP:
            yield ": keep-alive\n\n"
            await asyncio.sleep(0.01)
        name = "somebody-else" if fault is Fault.WRONG_MODEL else model.id
        yield self._event(name, {"role": "assistant", "content": None})
        if fault in {Fault.INTERRUPTED, Fault.EMPTY}:
            if fault is Fault.EMPTY:
                yield self._event(name, {}, "stop")
            yield DONE
            return
        words = self.words[: body.get("max_tokens")]
        for number, word in enumerate(words):
            if number == 2:
                await self.hold.wait()
                async for event in self._break(model, fault):
                    yield event
                    if event is None or "error" in event or "{" not in event:
                        return
            await asyncio.sleep(self.pace_s)
            key = "reasoning_content" if fault is Fault.THOUGHTS else "content"
            yield self._event(name, {key: word if number == 0 else f" {word}"})
        yield self._event(
            name,
            {},
            "length" if len(words) < len(self.words) or fault is Fault.THOUGHTS else "stop",
        )
        yield f'data: {{"choices":[],"model":"{name}","usage":{{"completion_tokens":{len(words)},"prompt_tokens":9,"total_tokens":15}}}}\n\n'
        yield DONE

    async def _break(self, model: Model, fault: Fault) -> AsyncIterator[str | None]:
        match fault:
            case Fault.CUT:
                yield None
            case Fault.GARBAGE:
                yield "data: }}garbage\n\n"
            case Fault.ERROR_INSIDE:
                yield _data(
                    {
                        "error": {
                            "message": "Error rendering prompt with jinja template",
                            "type": "unknown",
                        }
                    }
                )
            case Fault.ERROR_EVENT:
                error = {
                    "error": {
                        "message": "The model has crashed without additional information.",
                        "type": "internal_error",
                    }
                }
                yield f"event: error\n{_data(error)}"
            case Fault.OOM:
                yield _data(
                    {
                        "error": {
                            "message": "CUDA error: out of memory",
                            "type": "server_error",
                            "code": 500,
                        }
                    }
                )
            case Fault.CRASH:
                model.copies = []
                yield _data(
                    {
                        "error": "The model has crashed without additional information. (Exit code: 6)"
                    }
                )
            case Fault.UNLOADED:
                model.copies = []
                yield _data({"error": {"message": "Model unloaded by the user."}})

    def _event(self, model: str, delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {
            "choices": [choice],
            "created": 1795170093,
            "id": "chatcmpl-1",
            "model": model,
            "system_fingerprint": "b1-0c1e570",
            "object": "chat.completion.chunk",
        }
        return _data(chunk)

    # ------------------------------------------------------------ loading

    async def _load(self, model: Model) -> web.Response | None:
        """Load one more copy; return the error answer of a load that failed."""
        fault = self.load_faults.popleft() if self.load_faults else LoadFault.NONE
        model.loads += 1
        self.note()
        if fault is LoadFault.HANG:
            await self._never.wait()
        await self.load_hold.wait()
        if fault in {LoadFault.OOM, LoadFault.CRASH}:
            return self._load_failure(fault)
        self._add_copy(model)
        if fault is LoadFault.DUPLICATE:
            self._add_copy(model)
        return None

    def _add_copy(self, model: Model) -> None:
        number = next(n for n in range(1, 99) if _copy_name(model.id, n) not in model.copies)
        model.copies.append(_copy_name(model.id, number))

    def _load_failure(self, fault: LoadFault) -> web.Response:
        if self.kind == "ollama":
            text = "model requires more system memory (12.1 GiB) than is available (3.4 GiB)"
            return _json(500, {"error": text})
        if fault is LoadFault.CRASH:
            fault_body = {"message": "Failed to load model", "type": "model_load_failed"}
            return _json(500, {"error": fault_body})
        text = "Model loading was stopped due to insufficient system resources. approximately 12 GB"
        return _json(
            200 if self.kind == "lmstudio-0.3" else 500,
            {"error": {"message": text, "type": "internal_error"}},
        )

    # ------------------------------------------------------------ lists

    async def _v1_models(self, request: web.Request) -> web.Response:
        match self.kind:
            case "llamacpp":
                meta = {"n_ctx": CONTEXT, "size": 4 * 1024**3}
                extra: dict[str, object] = {"owned_by": "llamacpp", "meta": meta}
                entries = [{"id": m.id, "aliases": [m.id], **extra} for m in self.models.values()]
            case "llamacpp-router":
                entries = [self._router_entry(model) for model in self.models.values()]
            case "vllm":
                context = {"object": "model", "max_model_len": CONTEXT}
                entries = [{"id": m.id, **context} for m in self.models.values()]
            case _:
                entries = [{"id": m.id, "object": "model"} for m in self.models.values()]
        if self.kind == "llama-cpp-python":
            entries = [entry | {"owned_by": "me", "permissions": []} for entry in entries]
        return _json(200, {"object": "list", "data": entries})

    def _router_entry(self, model: Model) -> dict[str, object]:
        status: dict[str, object] = {"value": "loaded" if model.copies else "unloaded"}
        if model.polls_to_ready:
            model.polls_to_ready -= 1
            status = {"value": "loading"}
            if not model.polls_to_ready:
                model.copies = ["main"]
        elif model.failed:
            status |= {"failed": True, "exit_code": 1}
        modalities = ["text", "image"] if model.vision else ["text"]
        meta = {"meta": {"n_ctx": CONTEXT, "size": model.size}} if model.copies else {}
        return meta | {
            "id": model.id,
            "aliases": [],
            "object": "model",
            "owned_by": "llamacpp",
            "status": status,
            "architecture": {"input_modalities": modalities, "output_modalities": ["text"]},
        }


def _tokens(body: Any) -> int:
    return sum(len(str(message["content"])) for message in body["messages"]) // 4


def _copy_name(model: str, number: int) -> str:
    return model if number == 1 else f"{model}:{number}"


def _json(status: int, body: object) -> web.Response:
    return web.json_response(body, status=status)


def _data(body: object) -> str:
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


# ---------------------------------------------------------------- the calls of each kind


def _routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    health = ("GET", "/health", _fixed({"status": "ok"}))
    routes = {
        "lmstudio": _lmstudio_routes(server),
        "lmstudio-0.3": [("GET", "/api/v0/models", _v0_models(server)), _greeting()],
        "ollama": _ollama_routes(server),
        "llamacpp": [("GET", "/props", _props(server)), health],
        "llamacpp-router": [*_router_routes(server), health],
        "llamaswap": _swap_routes(server),
        "vllm": [("GET", "/version", _fixed({"version": "0.11.0"}))],
    }
    return routes.get(server.kind, [])


def _fixed(body: object) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return _json(200, body)

    return answer


def _greeting() -> tuple[str, str, Any]:
    return "GET", "/lmstudio-greeting", _fixed({"lmstudio": True})


def _lmstudio_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def library(request: web.Request) -> web.Response:
        return _json(200, {"models": [_library_entry(m) for m in server.models.values()]})

    async def load(request: web.Request) -> web.Response:
        body = await request.json()
        if unknown := sorted(set(body) - {"model", "context_length", "eval_batch_size"}):
            text = f"Unrecognized key(s) in object: {unknown}"
            return _json(400, {"error": {"type": "invalid_request", "message": text}})
        model = server.models.get(body["model"])
        if model is None:
            text = f"Model {body['model']} not found"
            fault = {"type": "model_not_found", "message": text}
            return _json(404, {"error": fault})
        before = set(model.copies)
        failure = await server._load(model)
        if failure is not None:
            return failure
        model.context = body.get("context_length", model.context)
        newest = next(copy for copy in model.copies if copy not in before)
        return _json(
            200,
            {"type": "llm", "instance_id": newest, "load_time_seconds": 1.5, "status": "loaded"},
        )

    async def unload(request: web.Request) -> web.Response:
        instance = (await request.json())["instance_id"]
        for model in server.models.values():
            if instance in model.copies:
                model.copies.remove(instance)
                return _json(200, {"instance_id": instance})
        fault = {"type": "model_not_found", "message": f"No instance {instance}"}
        return _json(404, {"error": fault})

    return [
        ("GET", "/api/v1/models", library),
        ("POST", "/api/v1/models/load", load),
        ("POST", "/api/v1/models/unload", unload),
        _greeting(),
    ]


def _library_entry(model: Model) -> dict[str, object]:
    config = {"context_length": model.context, "parallel": 4, "flash_attention": True}
    return {
        "type": "llm" if model.chats else "embedding",
        "publisher": "somebody",
        "key": model.id,
        "display_name": model.id,
        "size_bytes": model.size,
        "max_context_length": 262144,
        "format": "gguf",
        "loaded_instances": [{"id": copy, "config": config} for copy in model.copies],
        "capabilities": {"vision": model.vision, "trained_for_tool_use": True},
        "variants": [f"{model.id}@q4_k_m"],
        "selected_variant": f"{model.id}@q4_k_m",
    }


def _v0_models(server: FakeLlm) -> Any:
    async def library(request: web.Request) -> web.Response:
        data = [
            {
                "id": model.id,
                "object": "model",
                "type": "embeddings" if not model.chats else "vlm" if model.vision else "llm",
                "state": "loaded" if model.copies else "not-loaded",
                "max_context_length": 32768,
            }
            for model in server.models.values()
        ]
        return _json(200, {"object": "list", "data": data})

    return library


def _ollama_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    def entry(model: Model) -> dict[str, object]:
        return {"name": model.id, "model": model.id, "size": model.size, "details": {}}

    async def tags(request: web.Request) -> web.Response:
        return _json(200, {"models": [entry(model) for model in server.models.values()]})

    async def ps(request: web.Request) -> web.Response:
        loaded = [model for model in server.models.values() if model.copies]
        told = [{"size_vram": m.size, "context_length": m.context} for m in loaded]
        entries = [entry(m) | more for m, more in zip(loaded, told, strict=True)]
        return _json(200, {"models": entries})

    async def show(request: web.Request) -> web.Response:
        model = server.models[(await request.json())["model"]]
        able = ["completion"] * model.chats + ["vision"] * model.vision
        return _json(200, {"capabilities": able or ["embedding"]})

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        model = server.models.get(body["model"])
        if model is None:
            return _json(404, {"error": f"model '{body['model']}' not found"})
        if body["keep_alive"] == 0:
            model.copies = []
            return _json(200, {"model": model.id, "done": True, "done_reason": "unload"})
        if not model.copies and (failure := await server._load(model)) is not None:
            return failure
        return _json(200, {"model": model.id, "done": True, "done_reason": "load"})

    return [
        ("GET", "/api/version", _fixed({"version": "0.32.1"})),
        ("GET", "/api/tags", tags),
        ("GET", "/api/ps", ps),
        ("POST", "/api/show", show),
        ("POST", "/api/generate", generate),
    ]


def _props(server: FakeLlm) -> Any:
    async def props(request: web.Request) -> web.Response:
        vision = any(model.vision for model in server.models.values())
        body = {
            "default_generation_settings": {"n_ctx": CONTEXT},
            "total_slots": 2,
            "model_alias": next(iter(server.models)),
            "modalities": {"vision": vision, "audio": False},
            "build_info": "b1-0c1e570",
        }
        return _json(200, body)

    return props


def _router_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def props(request: web.Request) -> web.Response:
        if name := request.query.get("model"):  # seen: asking about a model loads it
            await server._load(server.models[name])
        settings = {"params": None, "n_ctx": 0}
        body = {"role": "router", "max_instances": 4, "default_generation_settings": settings}
        return _json(200, body | {"build_info": "b1-0c1e570"})

    async def load(request: web.Request) -> web.Response:
        model = server.models.get((await request.json())["model"])
        if model is None:  # the server library puts its own text under a 404
            fault = {"message": "File Not Found", "type": "not_found_error", "code": 404}
            return _json(404, {"error": fault})
        if model.copies or model.polls_to_ready:
            return server._error(400, "model is already running", "invalid_request_error")
        model.loads += 1
        server.note()
        fault_of_load = server.load_faults.popleft() if server.load_faults else LoadFault.NONE
        model.failed = fault_of_load in {LoadFault.OOM, LoadFault.CRASH}
        model.polls_to_ready = (
            0 if model.failed else 10**6 if fault_of_load is LoadFault.HANG else 2
        )
        return _json(200, {"success": True})

    async def unload(request: web.Request) -> web.Response:
        model = server.models.get((await request.json())["model"])
        if model is None:
            return server._error(400, "model is not found", "invalid_request_error")
        if not model.copies and not model.polls_to_ready:
            return server._error(400, "model is not running", "invalid_request_error")
        model.copies, model.polls_to_ready = [], 0
        return _json(200, {"success": True})

    return [
        ("GET", "/props", props),
        ("POST", "/models/load", load),
        ("POST", "/models/unload", unload),
    ]


def _swap_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def running(request: web.Request) -> web.Response:
        ready = [model for model in server.models.values() if model.copies]
        entries = [{"model": m.id, "state": "ready", "cmd": "serve", "ttl": 0} for m in ready]
        return _json(200, {"running": entries})

    async def upstream(request: web.Request) -> web.Response:
        model = server.models[request.match_info["model"]]
        for other in server.models.values():
            if other is not model:
                other.copies = []
        if not model.copies and (failure := await server._load(model)) is not None:
            return failure
        return _json(200, {"object": "list", "data": [{"id": model.id}]})

    async def unload(request: web.Request) -> web.Response:
        server.models[request.match_info["model"]].copies = []
        return web.Response(text="OK")

    version = {"version": "250", "commit": "0bdb372", "build_date": "2026-08-22"}
    return [
        ("GET", "/api/version", _fixed(version)),
        ("GET", "/running", running),
        ("GET", "/upstream/{model:.+}/v1/models", upstream),
        ("POST", "/api/models/unload/{model:.+}", unload),
    ]


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
