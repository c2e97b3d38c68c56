"""The calls of image servers, each as its server answers them."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from aiohttp import web

from queueing.core.concurrency import undisturbed

if TYPE_CHECKING:
    from tests.fakes.servers.painters import FakePainter

Route = tuple[str, str, Callable[[web.Request], Awaitable[web.StreamResponse]]]
SD_GUIDANCE = 7.0


def routes_of(fake: "FakePainter") -> Sequence[Route]:
    """Return the calls of the fake's kind."""
    kinds: dict[str, Callable[[FakePainter], Calls]] = {
        "localai": LocalAiCalls,
        "sdcpp": SdCalls,
        "vllm-omni": VllmCalls,
        "swarmui": SwarmCalls,
        "generic": OpenAiCalls,
    }
    return kinds[fake.kind](fake).routes()


class Calls(Protocol):
    """The calls of one kind of server."""

    def routes(self) -> Sequence[Route]:
        """Return them."""


class OpenAiCalls:
    """OpenAI's calls for images; `n` and `size` are honoured."""

    def __init__(self, fake: "FakePainter") -> None:
        self.fake = fake

    def routes(self) -> Sequence[Route]:
        return (
            ("GET", "/v1/models", self.models),
            ("POST", "/v1/images/generations", self.drawn),
            ("POST", "/v1/images/edits", self.drawn),
            ("GET", "/generated-images/{name}", self.fake.file),
        )

    async def models(self, _: web.Request) -> web.Response:
        owner = {"owned_by": "vllm"} if self.fake.kind == "vllm-omni" else {}
        entries = [{"id": name, "object": "model"} | owner for name in self.fake.models]
        return web.json_response({"object": "list", "data": entries})

    async def drawn(self, _: web.Request) -> web.Response:
        fake, body = self.fake, self.fake.requests[-1][1]
        if fake.faults:
            return fake.faults.popleft()()
        width, height = map(int, body.get("size", "64x64").split("x"))
        made = await fake.draw(
            body["prompt"], (width, height), self.steps(body), int(body.get("n", 1))
        )
        data = [fake.item(each, number) for number, each in enumerate(made)]
        return web.json_response({"created": 1755800000, "data": data})

    def steps(self, body: Any) -> int:
        return 200 if "forever" in body["prompt"] else 3


class VllmCalls(OpenAiCalls):
    """vLLM-Omni: diffusion's fields, and its version."""

    def routes(self) -> Sequence[Route]:
        return (*super().routes(), ("GET", "/version", self.version))

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.12.0"})

    def steps(self, body: Any) -> int:
        return int(body.get("num_inference_steps", 3))


class LocalAiCalls(OpenAiCalls):
    """LocalAI: several models, loaded by a request or by a call."""

    def routes(self) -> Sequence[Route]:
        return (
            *(route for route in super().routes() if "edits" not in route[1]),
            ("GET", "/system", self.system),
            ("GET", "/version", self.version),
            ("GET", "/v1/models/capabilities", self.able),
            ("POST", "/backend/load", self.load),
            ("POST", "/backend/shutdown", self.shutdown),
        )

    async def system(self, _: web.Request) -> web.Response:
        loaded = [{"id": name} for name in sorted(self.fake.loaded)]
        return web.json_response({"backends": ["stablediffusion-ggml"], "loaded_models": loaded})

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "v4.2.0"})

    async def able(self, _: web.Request) -> web.Response:
        rows = [{"id": name, "capabilities": ["image"]} for name in self.fake.models]
        return web.json_response({"object": "list", "data": rows})

    async def load(self, _: web.Request) -> web.Response:
        self.fake.loaded.add(self.fake.requests[-1][1]["model"])
        return web.json_response({"message": "model loaded"})

    async def shutdown(self, _: web.Request) -> web.Response:
        name = self.fake.requests[-1][1]["model"]
        if name not in self.fake.loaded:
            text = f'model "{name}" is not loaded on this instance or on any worker node'
            return web.json_response({"error": {"code": 404, "message": text}}, status=404)
        self.fake.loaded.discard(name)
        return web.json_response({"message": "model stopped"})

    async def drawn(self, request: web.Request) -> web.Response:
        self.fake.loaded.add(self.fake.requests[-1][1]["model"])
        return await super().drawn(request)

    def steps(self, body: Any) -> int:
        return int(body.get("step", 3))


class SdCalls:
    """sd-server's own calls: jobs that are polled."""

    def __init__(self, fake: "FakePainter") -> None:
        self.fake = fake
        self.worker = asyncio.Lock()

    def routes(self) -> Sequence[Route]:
        return (
            ("GET", "/v1/models", self.models),
            ("GET", "/sdcpp/v1/capabilities", self.capabilities),
            ("POST", "/sdcpp/v1/img_gen", self.post),
            ("GET", "/sdcpp/v1/jobs/{id}", self.job),
            ("POST", "/sdcpp/v1/jobs/{id}/cancel", self.cancel),
        )

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "sd-cpp-local", "object": "model"}]})

    async def capabilities(self, _: web.Request) -> web.Response:
        name = self.fake.models[0]
        loras = [{"name": path, "path": path} for path in self.fake.loras]
        model = {"name": f"{name}.gguf", "stem": name, "path": f"/srv/models/{name}.gguf"}
        defaults = {"sample_params": {"guidance": {"txt_cfg": SD_GUIDANCE, "img_cfg": None}}}
        return web.json_response(
            {
                "model": model,
                "current_mode": "img_gen",
                "supported_modes": ["img_gen"],
                "defaults": defaults,
                "loras": loras,
            }
        )

    async def post(self, _: web.Request) -> web.Response:
        fake, body = self.fake, self.fake.requests[-1][1]
        if fake.faults:
            return fake.faults.popleft()()
        known = set(fake.loras)
        if any(lora["path"] not in known for lora in body.get("lora", [])):
            return web.json_response({"error": "invalid generation parameters"}, status=400)
        job: dict[str, Any] = {
            "id": f"job_{uuid4().hex}",
            "kind": "img_gen",
            "status": "queued",
            "result": None,
            "error": None,
        }
        fake.jobs[job["id"]] = job
        job["task"] = fake.spawn(self._work(job, body))
        return web.json_response(self._told(job), status=202)

    async def _work(self, job: dict[str, Any], body: Any) -> None:
        async with self.worker:
            job["status"] = "generating"
            size = body.get("width", 64), body.get("height", 64)
            steps = body["sample_params"].get("sample_steps", 3)
            made = await self.fake.draw(body["prompt"], size, steps, body["batch_count"])
        images = [{"index": n, "b64_json": b64encode(d).decode()} for n, d in enumerate(made)]
        job["result"] = {"output_format": "png", "images": images}
        job["status"] = "completed"

    def _told(self, job: dict[str, Any]) -> dict[str, Any]:
        waiting = [each for each in self.fake.jobs.values() if each["status"] == "queued"]
        place = waiting.index(job) + 1 if job in waiting else 0
        return {k: v for k, v in job.items() if k != "task"} | {"queue_position": place}

    async def job(self, request: web.Request) -> web.Response:
        job = self.fake.jobs.get(request.match_info["id"])
        if job is None:
            return web.json_response({"error": "job not found"}, status=404)
        return web.json_response(self._told(job))

    async def cancel(self, request: web.Request) -> web.Response:
        job = self.fake.jobs.get(request.match_info["id"])
        if job is None:
            return web.json_response({"error": "job not found"}, status=404)
        if job["status"] == "generating":
            text = "job is currently generating and cannot be interrupted yet"
            return web.json_response({"error": text}, status=409)
        if job["status"] == "queued":
            job["task"].cancel()
            job["status"] = "cancelled"
            job["error"] = {"code": "cancelled", "message": "job cancelled by client"}
        return web.json_response(self._told(job))


class SwarmCalls:
    """SwarmUI's own calls."""

    def __init__(self, fake: "FakePainter") -> None:
        self.fake = fake

    def routes(self) -> Sequence[Route]:
        calls = {
            "GetCurrentStatus": self.status,
            "ListModels": self.files,
            "GetServerResourceInfo": self.resources,
            "SelectModel": self.select,
            "FreeBackendMemory": self.free,
            "InterruptAll": self.interrupt,
        }
        return (
            ("POST", "/API/GetNewSession", self.session),
            *(("POST", f"/API/{name}", self._known(call)) for name, call in calls.items()),
            ("GET", "/API/GenerateText2ImageWS", self.generate),
            ("GET", "/View/{tail:.*}", self.fake.file),
        )

    def _known(self, call: Any) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def checked(_: web.Request) -> web.Response:
            body = self.fake.requests[-1][1]
            if body.get("session_id") not in self.fake.sessions:
                text = "Invalid session ID. You may need to refresh the page."
                return _error(text, "invalid_session_id", status=401)
            response: web.Response = await call(body)
            return response

        return checked

    async def session(self, _: web.Request) -> web.Response:
        session = uuid4().hex.upper()
        self.fake.sessions[session] = set()
        return web.json_response(
            {"session_id": session, "user_id": "local", "version": "0.9.8.0.GIT-062407c7"}
        )

    async def status(self, _: Any) -> web.Response:
        return web.json_response({"status": {"waiting_gens": 0, "live_gens": self.fake.running}})

    async def resources(self, _: Any) -> web.Response:
        gpus = {
            str(number): {"id": number, "total_memory": total << 20, "free_memory": free << 20}
            for number, (total, free) in enumerate(self.fake.gpus)
        }
        if not gpus:
            return _error("You do not have permission to do that.")
        return web.json_response({"system_ram": {"total": 1}, "gpus": gpus})

    async def files(self, body: Any) -> web.Response:
        names = self.fake.models if body["subtype"] == "Stable-Diffusion" else self.fake.loras
        rows = [
            {"name": n, "loaded": n in self.fake.loaded, "is_supported_model_format": True}
            for n in names
        ]
        return web.json_response({"folders": [], "files": rows})

    async def select(self, body: Any) -> web.Response:
        if body["model"] not in self.fake.models:
            return _error("Model not found.")
        self.fake.loaded = {body["model"]}
        return web.json_response({"success": True})

    async def free(self, _: Any) -> web.Response:
        return web.json_response({"result": True, "count": 1})  # it lists them as loaded still

    async def generate(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        body = await socket.receive_json()
        self.fake.requests.append((request.path, body))
        drawing = asyncio.ensure_future(self._drawn(socket, body))
        if self.fake.faults:
            drawing.cancel()
            await socket.send_str(self.fake.faults.popleft()().text or "")
        elif body.get("session_id") not in self.fake.sessions:
            drawing.cancel()
            await socket.send_str(_error("Invalid session ID.", "invalid_session_id").text or "")
        else:  # it goes on when the socket has closed
            running = self.fake.sessions[body["session_id"]]
            running.add(drawing)
            self.fake.tasks.add(drawing)
            drawing.add_done_callback(running.discard)
            drawing.add_done_callback(self.fake.tasks.discard)
            with suppress(asyncio.CancelledError):
                await undisturbed(drawing)
        await socket.close()
        return socket

    async def _drawn(self, socket: web.WebSocketResponse, body: Any) -> None:
        fake = self.fake
        await socket.send_json({"status": {"waiting_gens": body["images"], "live_gens": 0}})
        if body["model"] not in fake.models:
            await socket.send_json({"error": f"Invalid model value '{body['model']}'"})
            return
        fake.loaded = {body["model"]}
        preview = f"data:image/jpeg;base64,{b64encode(fake.preview).decode()}"
        for share in (0.5, 0.25, 1.0):  # a second stage begins at less than the first ended
            told = {"batch_index": "0", "overall_percent": share, "current_percent": 0.0}
            await socket.send_json({"gen_progress": told | {"preview": preview}})
        size = body.get("width", 64), body.get("height", 64)
        made = await fake.draw(body["prompt"], size, body.get("steps", 3), body["images"])
        for number, each in enumerate(made):
            image = {"image": self._where(number, each), "batch_index": str(number)}
            await socket.send_json({**image, "request_id": "1", "metadata": "{}"})
        early = {"image": self._where(9, made[0]), "batch_index": "-11"}
        await socket.send_json(early)  # an intermediate image
        await socket.send_json({"discard_indices": []})
        await socket.send_json({"socket_intention": "close"})

    def _where(self, number: int, data: bytes) -> str:
        if not self.fake.by_url:
            return f"data:image/png;base64,{b64encode(data).decode()}"
        path = f"View/local/raw/2026-08-21/a cat-alpha-{number}.png"
        self.fake.files[f"/{path}"] = data
        return f"{self.fake.host}/{path}" if self.fake.host else path

    async def interrupt(self, body: Any) -> web.Response:
        for drawing in list(self.fake.sessions[body["session_id"]]):
            drawing.cancel()
        return web.json_response({"success": True})


def _error(text: str, error_id: str = "", *, status: int = 200) -> web.Response:
    told = {"error": text} | ({"error_id": error_id} if error_id else {})
    return web.Response(text=json.dumps(told), status=status, content_type="application/json")
