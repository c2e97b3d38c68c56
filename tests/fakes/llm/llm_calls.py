"""The calls each kind of text server has beside answering: identity, lists, loads, unloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.llm.llm_script import CONTEXT, LoadFault, Model
from tests.fakes.llm.llm_words import answer_json, error

if TYPE_CHECKING:
    from tests.fakes.llm.llm import FakeLlm


def routes_of(server: FakeLlm) -> list[tuple[str, str, Any]]:
    health = ("GET", "/health", _fixed({"status": "ok"}))
    routes = {
        "lmstudio": _lmstudio_routes(server),
        "lmstudio-0.3": [("GET", "/api/v0/models", _v0_models(server)), _greeting()],
        "ollama": _ollama_routes(server),
        "llamacpp": [("GET", "/props", _props(server)), health],
        "llamacpp-router": [*_router_routes(server), health],
        "llamaswap": _swap_routes(server),
        "vllm": [("GET", "/version", _fixed({"version": "0.11.0"}))],
        "koboldcpp": [*_kobold_routes(), ("GET", f"{_EXTRA}/true_max_context_length", _context)],
        "tabbyapi": _kobold_routes()[:1],  # for clients that expect KoboldCpp
    }
    return routes.get(server.kind, [])


def _kobold_routes() -> list[tuple[str, str, Any]]:
    """Return KoboldCpp's own call and those by which it passes for Ollama and ComfyUI."""
    model = {
        "name": "koboldcpp",
        "model": "alpha:latest",
        "size": 394998579,
        "size_vram": 394998579,
    }
    system = {"os": "posix", "ram_total": 1, "ram_free": 1, "comfyui_version": "v0.3.4"}
    device = {"name": "koboldcpp", "type": "cuda", "index": 0, "vram_total": 1, "vram_free": 1}
    answers: dict[str, object] = {
        f"{_EXTRA}/version": {"result": "KoboldCpp", "version": "1.108", "vision": False},
        "/api/version": {"version": "0.7.0"},
        "/api/tags": {"models": [model]},
        "/api/ps": {"models": [model]},
        "/system_stats": {"system": system, "devices": [device]},
    }
    return [("GET", path, _fixed(body)) for path, body in answers.items()]


def _fixed(body: object) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return answer_json(200, body)

    return answer


_EXTRA = "/api/extra"
_context = _fixed({"value": CONTEXT})


def _greeting() -> tuple[str, str, Any]:
    return "GET", "/lmstudio-greeting", _fixed({"lmstudio": True})


def _lmstudio_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def library(request: web.Request) -> web.Response:
        return answer_json(200, {"models": [_library_entry(m) for m in server.models.values()]})

    async def load(request: web.Request) -> web.Response:
        body = await request.json()
        if unknown := sorted(set(body) - {"model", "context_length", "eval_batch_size"}):
            text = f"Unrecognized key(s) in object: {unknown}"
            return answer_json(400, {"error": {"type": "invalid_request", "message": text}})
        model = server.models.get(body["model"])
        if model is None:
            text = f"Model {body['model']} not found"
            fault = {"type": "model_not_found", "message": text}
            return answer_json(404, {"error": fault})
        before = set(model.copies)
        failure = await server.add_load(model)
        if failure is not None:
            return failure
        model.context = body.get("context_length", model.context)
        newest = next(copy for copy in model.copies if copy not in before)
        return answer_json(
            200,
            {"type": "llm", "instance_id": newest, "load_time_seconds": 1.5, "status": "loaded"},
        )

    async def unload(request: web.Request) -> web.Response:
        instance = (await request.json())["instance_id"]
        for model in server.models.values():
            if instance in model.copies:
                model.copies.remove(instance)
                return answer_json(200, {"instance_id": instance})
        fault = {"type": "model_not_found", "message": f"No instance {instance}"}
        return answer_json(404, {"error": fault})

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
                **({"loaded_context_length": model.context} if model.copies else {}),
            }
            for model in server.models.values()
        ]
        return answer_json(200, {"object": "list", "data": data})

    return library


def _resident(model: Model) -> dict[str, object]:
    """Return how Ollama describes a loaded model: with its context, which also takes memory."""
    size = model.size + model.context * 1024
    return {
        "size": size,
        "size_vram": int(size * model.on_gpu),
        "context_length": model.context,
        "expires_at": "2026-11-23T14:38:31.83753-07:00",
    }


def _ollama_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    def entry(model: Model) -> dict[str, object]:
        return {"name": model.id, "model": model.id, "size": model.size, "details": {}}

    async def tags(request: web.Request) -> web.Response:
        kept = [entry(model) for model in server.models.values() if not model.deleted]
        return answer_json(200, {"models": kept})

    async def ps(request: web.Request) -> web.Response:
        loaded = [model for model in server.models.values() if model.copies]
        return answer_json(200, {"models": [entry(m) | _resident(m) for m in loaded]})

    async def show(request: web.Request) -> web.Response:
        model = server.models[(await request.json())["model"]]
        able = ["completion"] * model.chats + ["vision"] * model.vision
        able += ["embedding"] * model.embeds
        return answer_json(200, {"capabilities": able or ["embedding"]})

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        model = server.models.get(body["model"])
        if model is None:
            return answer_json(404, {"error": f"model '{body['model']}' not found"})
        if body.get("keep_alive") == 0:
            model.copies = []
            return answer_json(200, {"model": model.id, "done": True, "done_reason": "unload"})
        if not model.chats:
            return answer_json(400, {"error": f'"{model.id}" does not support generate'})
        if not model.copies and (failure := await server.add_load(model)) is not None:
            return failure
        return answer_json(200, {"model": model.id, "done": True, "done_reason": "load"})

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
        return answer_json(200, body)

    return props


def _router_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def props(request: web.Request) -> web.Response:
        if name := request.query.get("model"):  # seen: asking about a model loads it
            await server.add_load(server.models[name])
        settings = {"params": None, "n_ctx": 0}
        body = {
            "role": "router",
            "max_instances": server.max_instances,
            "default_generation_settings": settings,
        }
        return answer_json(200, body | {"build_info": "b1-0c1e570"})

    async def load(request: web.Request) -> web.Response:
        model = server.models.get((await request.json())["model"])
        if model is None:  # the server library puts its own text under a 404
            fault = {"message": "File Not Found", "type": "not_found_error", "code": 404}
            return answer_json(404, {"error": fault})
        if model.copies or model.polls_to_ready:
            return error(server.kind, 400, "model is already running", "invalid_request_error")
        model.loads += 1
        server.note()
        fault_of_load = server.load_faults.popleft() if server.load_faults else LoadFault.NONE
        model.failed = fault_of_load in {LoadFault.OOM, LoadFault.CRASH}
        model.polls_to_ready = (
            0 if model.failed else 10**6 if fault_of_load is LoadFault.HANG else 2
        )
        return answer_json(200, {"success": True})

    async def unload(request: web.Request) -> web.Response:
        model = server.models.get((await request.json())["model"])
        if model is None:
            return error(server.kind, 400, "model is not found", "invalid_request_error")
        if not model.copies and not model.polls_to_ready:
            return error(server.kind, 400, "model is not running", "invalid_request_error")
        model.copies, model.polls_to_ready = [], 0
        return answer_json(200, {"success": True})

    return [
        ("GET", "/props", props),
        ("POST", "/models/load", load),
        ("POST", "/models/unload", unload),
    ]


def _swap_routes(server: FakeLlm) -> list[tuple[str, str, Any]]:
    async def running(request: web.Request) -> web.Response:
        ready = [model for model in server.models.values() if model.copies]
        entries = [{"model": m.id, "state": "ready", "cmd": "serve", "ttl": 0} for m in ready]
        return answer_json(200, {"running": entries})

    async def upstream(request: web.Request) -> web.Response:
        model = server.models[request.match_info["model"]]
        for other in server.models.values():
            if other is not model:
                other.copies = []
        if not model.copies and (failure := await server.add_load(model)) is not None:
            return failure
        return answer_json(200, {"object": "list", "data": [{"id": model.id}]})

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


def v1_models(server: FakeLlm) -> list[dict[str, object]]:
    match server.kind:
        case "llamacpp":
            meta = {"n_ctx": CONTEXT, "size": 4 * 1024**3}
            extra: dict[str, object] = {"owned_by": "llamacpp", "meta": meta}
            entries = [{"id": m.id, "aliases": [m.id], **extra} for m in server.models.values()]
        case "llamacpp-router":
            entries = [router_entry(model) for model in server.models.values()]
        case "vllm":
            context = {"object": "model", "max_model_len": CONTEXT}
            entries = [{"id": m.id, **context} for m in server.models.values()]
        case _:
            offered = [m for m in server.models.values() if server.jit or m.copies]
            entries = [{"id": m.id, "object": "model"} for m in offered]
    if server.kind == "llama-cpp-python":
        entries = [entry | {"owned_by": "me", "permissions": []} for entry in entries]
    return entries


def router_entry(model: Model) -> dict[str, object]:
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
