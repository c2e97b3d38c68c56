"""A ComfyUI server over loopback sockets, with the real one's traps and scripted faults.

It draws plain PNGs in the time it is told to take, and returns the video and the sound it is given.
Form and order of messages are those of recorded sessions with 0.33 (and 0.3.64 with `old=True`). It
knows no GPU.
"""

import asyncio
import heapq
import json
import struct
import time
import uuid
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import WSCloseCode, WSMsgType, web

from tests.fakes.ports import port_of
from tests.fakes.servers.comfyui_nodes import MODELS, Graph, Verdict, in_order, judge, object_info

_PNG = b"\x89PNG\r\n\x1a\n"
_MADE: dict[str, tuple[str, str, dict[str, Any]]] = {
    # by node: the key of its report, the ending of its files, and what else it reports
    "SaveVideo": ("images", "mp4", {"animated": [True]}),
    "SaveAnimatedWEBP": ("images", "webp", {"animated": [True]}),
    "VHS_VideoCombine": ("gifs", "mp4", {"unfinished_batch": [True]}),
    "SaveAudioMP3": ("audio", "mp3", {}),
    "PreviewAudio": ("audio", "flac", {}),
}


@dataclass
class Faults:
    """What goes wrong; fields with a number count down, the others last until changed."""

    deaf: bool = False  # websockets are accepted and get nothing
    no_socket: bool = False  # /ws is refused
    drop_socket_at_step: int | None = None
    wedged: bool = False  # the worker takes a job and never goes on; HTTP stays healthy
    lose_answers: int = 0  # POST /prompt is accepted, its answer never arrives
    drop_posts: int = 0  # POST /prompt is cut before it is read
    answer_last: bool = False  # POST /prompt is answered after its job has ended
    vanish: int = 0  # accepted jobs disappear without a trace
    broken_files: bool = False  # /view answers cut off images
    garbage: str = ""  # a path that answers with a web page
    hang: str = ""  # a path that never answers
    errors: list[tuple[str, str, str]] = field(default_factory=list)
    """(node class, exception type, message) of the next jobs that reach such a node."""


@dataclass(order=True)
class _Item:
    number: float
    key: str
    graph: Graph = field(compare=False)
    extra: dict[str, Any] = field(compare=False)
    outputs: tuple[str, ...] = field(compare=False)
    done: asyncio.Event = field(compare=False, default_factory=asyncio.Event)

    def as_json(self) -> list[Any]:
        return [self.number, self.key, self.graph, self.extra, list(self.outputs)]


class _Interrupted(Exception):
    pass


class _NodeError(Exception):
    def __init__(self, node: str, class_type: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.data = {
            "node_id": node,
            "node_type": class_type,
            "executed": [],
            "exception_message": message,
            "exception_type": kind,
            "traceback": ['  File "/srv/comfy/execution.py", line 545, in execute\n'],
            "current_inputs": {},
            "current_outputs": [],
        }


class FakeComfyUI:
    """Use as an async context manager; `url` is where it listens.

    `ran` are the ids of the prompts whose execution began, in order; `gaps_s` the seconds between
    the end of a job and the start of the next. `memory` is the file of the model in memory.
    """

    def __init__(
        self,
        *,
        step_s: float = 0.0,
        load_s: float = 0.0,
        old: bool = False,
        image: bytes | None = None,
        video: bytes = b"",
        sound: bytes = b"",
        port: int = 0,
    ) -> None:
        self.step_s = step_s
        self.load_s = load_s
        self.old = old
        self.image = image
        self.video = video
        self.sound = sound
        self.faults = Faults()
        self.ran: list[str] = []
        self.posts: list[dict[str, Any]] = []
        self.gaps_s: list[float] = []
        self.frees = 0
        self.interrupts: list[str | None] = []
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.memory: str | None = None
        self.models = {folder: dict(files) for folder, files in MODELS.items()}
        self.metadata: dict[str, dict[str, Any]] = {}  # of model files, by name
        self.broken_models: set[str] = set()  # files that the server cannot read
        self.stats: dict[str, Any] = {}  # overrides of the device in /system_stats
        self.headers_seen: list[dict[str, str]] = []
        self._port = port or port_of(self)
        self._runner: web.AppRunner | None = None
        self._forget()

    # ---------------------------------------------------------------- life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def busy(self) -> bool:
        return self.running is not None or bool(self.pending)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        self._runner = web.AppRunner(self._app(), shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._worker = asyncio.create_task(self._work())

    async def kill(self) -> None:
        """Die as by SIGKILL: sockets end without a close frame; queue and history are gone."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        self._worker.cancel()
        assert runner.server is not None
        for connection in runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
        with suppress(asyncio.CancelledError):
            await self._worker
        self._forget()

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    def _forget(self) -> None:
        self.pending: list[_Item] = []
        self.running: _Item | None = None
        self.history: dict[str, dict[str, Any]] = {}
        self.sockets: dict[str, web.WebSocketResponse] = {}
        self._labelled: set[str] = set()
        self._number = 0
        self._interrupt = False
        self._cache: dict[str, Any] = {}
        self._outputs: dict[str, dict[str, Any]] = {}
        self._work_there = asyncio.Event()
        self._ended_at: float | None = None
        self._flags: dict[str, bool] = {}
        self.memory = None
        self.files = {place: data for place, data in self.files.items() if place[0] != "temp"}

    # ---------------------------------------------------------------- HTTP

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=100 * 2**20, middlewares=[self._faulty])
        routes: list[tuple[str, str, Any]] = [
            ("GET", "/ws", self._socket),
            ("POST", "/prompt", self._post),
            ("GET", "/queue", self._get_queue),
            ("POST", "/queue", self._post_queue),
            ("POST", "/interrupt", self._post_interrupt),
            ("GET", "/history", self._get_newest),
            ("GET", "/history/{key}", self._get_history),
            ("GET", "/view", self._view),
            ("HEAD", "/view", self._view),
            ("POST", "/upload/image", self._upload),
            ("POST", "/free", self._free),
            ("GET", "/object_info/{kind}", self._object_info),
            ("GET", "/models/{folder}", self._model_files),
            ("GET", "/experiment/models/{folder}", self._model_sizes),
            ("GET", "/view_metadata/{folder}", self._model_metadata),
            ("GET", "/system_stats", self._system_stats),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, path, handler)
            app.router.add_route(method, f"/api{path}", handler)
        if not self.old:
            app.router.add_get("/api/jobs/{key}", self._get_job)
            app.router.add_post("/api/jobs/{key}/cancel", self._cancel)
        return app

    @web.middleware
    async def _faulty(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.headers_seen.append(dict(request.headers))
        if self.faults.hang and request.path.startswith(self.faults.hang):
            await asyncio.Event().wait()
        if self.faults.garbage and request.path.startswith(self.faults.garbage):
            return web.Response(text="<html>busy</html>", content_type="text/html")
        response: web.StreamResponse = await handler(request)
        return response

    async def _post(self, request: web.Request) -> web.StreamResponse:
        if self.faults.drop_posts:
            self.faults.drop_posts -= 1
            return _cut(request)
        body = await request.json()
        self.posts.append(body)
        key = body.get("prompt_id")
        if key is None or (not self.old and key != str(uuid.UUID(key))):
            return web.json_response({"error": {"type": "invalid_prompt_id"}}, status=400)
        number, self._number = self._number, self._number + 1
        verdict = judge(
            body["prompt"], {f"{s}/{n}" for kind, s, n in self.files if kind == "input"}
        )
        if verdict.refusal is not None:
            return web.json_response(verdict.refusal, status=400)
        return await self._accept(request, body, number, verdict)

    async def _accept(
        self, request: web.Request, body: dict[str, Any], number: int, verdict: Verdict
    ) -> web.StreamResponse:
        key = body["prompt_id"]
        extra = {**body.get("extra_data", {}), "client_id": body.get("client_id")}
        item = _Item(number, key, body["prompt"], extra, verdict.outputs)
        if self.faults.vanish:
            self.faults.vanish -= 1
        else:
            heapq.heappush(self.pending, item)
            self._work_there.set()
            await self._tell_status()
        if self.faults.lose_answers:
            self.faults.lose_answers -= 1
            return _cut(request)
        if self.faults.answer_last:
            await item.done.wait()
        answer = {"prompt_id": key, "number": number, "node_errors": verdict.node_errors}
        return web.json_response(answer)

    async def _get_queue(self, _: web.Request) -> web.Response:
        running = [self.running.as_json()] if self.running else []
        pending = [item.as_json() for item in self.pending]
        return web.json_response({"queue_running": running, "queue_pending": pending})

    async def _post_queue(self, request: web.Request) -> web.Response:
        for key in (await request.json()).get("delete", []):
            self._delete(key)
        return web.Response()

    async def _post_interrupt(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        self.interrupts.append(body.get("prompt_id"))
        if body.get("prompt_id") in {None, self.running.key if self.running else None}:
            self._interrupt = True
        return web.Response()

    async def _cancel(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        running = self.running is not None and self.running.key == key
        if running:
            self.interrupts.append(key)
            self._interrupt = True
        return web.json_response({"cancelled": self._delete(key) or running})

    def _delete(self, key: str) -> bool:
        kept = [item for item in self.pending if item.key != key]
        found = len(kept) < len(self.pending)
        self.pending = kept
        heapq.heapify(self.pending)
        return found

    async def _get_job(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if self.running is not None and self.running.key == key:
            return web.json_response({"id": key, "status": "in_progress"})
        if any(item.key == key for item in self.pending):
            return web.json_response({"id": key, "status": "pending"})
        if key not in self.history:
            return web.json_response({"error": "Job not found"}, status=404)
        names = [name for name, _ in self.history[key]["status"]["messages"]]
        kinds = {"execution_error": "failed", "execution_interrupted": "cancelled"}
        status = next((kinds[name] for name in names if name in kinds), "completed")
        return web.json_response({"id": key, "status": status})

    async def _get_history(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        return web.json_response({key: self.history[key]} if key in self.history else {})

    async def _get_newest(self, request: web.Request) -> web.Response:
        count = int(request.query["max_items"])
        return web.json_response(dict(list(self.history.items())[-count:]))

    async def _view(self, request: web.Request) -> web.Response:
        query = request.query
        place = (query.get("type", "output"), query.get("subfolder", ""), query["filename"])
        if place not in self.files:
            return web.Response(status=404)
        data = self.files[place]
        cut = len(data) // 2 if self.faults.broken_files else len(data)
        return web.Response(body=data[:cut], content_type="image/png")

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        image = form["image"]
        assert isinstance(image, web.FileField)
        assert form["overwrite"] == "true"
        place = (str(form["type"]), str(form["subfolder"]), image.filename)
        self.files[place] = image.file.read()
        names = {"name": place[2], "subfolder": place[1], "type": place[0]}
        return web.json_response(names)

    async def _free(self, request: web.Request) -> web.Response:
        self.frees += 1
        self._flags = await request.json()
        self._work_there.set()
        return web.Response()

    async def _object_info(self, request: web.Request) -> web.Response:
        return web.json_response(object_info(request.match_info["kind"]))

    async def _model_files(self, request: web.Request) -> web.Response:
        folder = self.models.get(request.match_info["folder"])
        return web.Response(status=404) if folder is None else web.json_response(list(folder))

    async def _model_sizes(self, request: web.Request) -> web.Response:
        folder = self.models.get(request.match_info["folder"])
        if folder is None:
            return web.Response(status=404)
        listed = [
            {"name": name.replace("\\", "/"), "pathIndex": 0, "size": size}
            for name, size in folder.items()
        ]
        return web.json_response(listed)

    async def _model_metadata(self, request: web.Request) -> web.Response:
        name = request.query.get("filename", "")
        if name in self.broken_models:
            return web.Response(status=500, text="500 Internal Server Error")
        told = self.metadata.get(name)
        return web.Response(status=404) if told is None else web.json_response(told)

    async def _system_stats(self, _: web.Request) -> web.Response:
        device = {
            "name": "cuda:0 Fake",
            "type": "cuda",
            "index": 0,
            "vram_total": 24 * 2**30,
            "vram_free": (12 if self.memory else 23) * 2**30,
            "torch_vram_total": (11 if self.memory else 0) * 2**30,
            "torch_vram_free": 2**20,
            **self.stats,
        }
        version = "0.3.64" if self.old else "0.33.0"
        system = {"os": "linux", "comfyui_version": version, "argv": ["main.py"]}
        return web.json_response({"system": system, "devices": [device]})

    # ---------------------------------------------------------------- websocket

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if self.faults.no_socket:
            return web.Response(status=403)
        sid = request.query.get("clientId") or uuid.uuid4().hex
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets[sid] = socket
        try:
            await self._tell_status(sid)
            if self.running is not None and self.running.extra.get("client_id") == sid:
                await self._send(sid, "executing", {"node": "sampler"})  # without a prompt_id
            first = True
            async for message in socket:
                if message.type is WSMsgType.TEXT and first:
                    await self._handshake(sid, message.data)
                    first = False
        finally:
            self.sockets.pop(sid, None)  # also when a newer one took the id: trap 1
        return socket

    async def _handshake(self, sid: str, text: str) -> None:
        message = json.loads(text)
        if message.get("type") == "feature_flags":
            if message["data"].get("supports_preview_metadata"):
                self._labelled.add(sid)
            flags = {"supports_preview_metadata": True, "max_upload_size": 104857600}
            await self._send(sid, "feature_flags", flags)

    async def _tell_status(self, sid: str | None = None) -> None:
        remaining = len(self.pending) + (self.running is not None)
        data: dict[str, Any] = {"status": {"exec_info": {"queue_remaining": remaining}}}
        if sid is not None:
            await self._send(sid, "status", {**data, "sid": sid})
        else:
            for other in list(self.sockets):
                await self._send(other, "status", data)

    async def _send(self, sid: str | None, kind: str, data: dict[str, Any]) -> None:
        socket = self.sockets.get(sid or "")
        if socket is not None and not self.faults.deaf:
            with suppress(ConnectionError, RuntimeError):
                await socket.send_str(json.dumps({"type": kind, "data": data}))

    async def _send_preview(self, item: _Item, node: str) -> None:
        sid = item.extra.get("client_id")
        socket = self.sockets.get(sid or "")
        if socket is None or self.faults.deaf or not item.extra.get("preview_method"):
            return
        image = b"\xff\xd8preview\xff\xd9"
        frame = struct.pack(">II", 1, 1) + image
        if sid in self._labelled:
            labels = {"node_id": node, "prompt_id": item.key, "image_type": "image/jpeg"}
            header = json.dumps(labels).encode()
            frame = struct.pack(">II", 4, len(header)) + header + image
        with suppress(ConnectionError, RuntimeError):
            await socket.send_bytes(frame)

    # ---------------------------------------------------------------- the worker

    async def _work(self) -> None:
        while True:
            while not self.pending and not self._flags:
                self._work_there.clear()
                await self._work_there.wait()
            if self.pending:
                await self._run(heapq.heappop(self.pending))
            if self._flags:  # read between jobs only
                self._cache, self.memory, self._flags = {}, None, {}

    async def _run(self, item: _Item) -> None:
        self.running, self._interrupt = item, False
        self.ran.append(item.key)
        if self._ended_at is not None:
            self.gaps_s.append(time.perf_counter() - self._ended_at)
        if self.faults.wedged:
            await asyncio.Event().wait()
        messages: list[tuple[str, dict[str, Any]]] = []

        async def tell(kind: str, data: dict[str, Any]) -> None:
            data = {**data, "prompt_id": item.key}
            if kind.startswith("execution_"):
                data["timestamp"] = int(time.time() * 1000)
                messages.append((kind, data))
            await self._send(item.extra.get("client_id"), kind, data)

        await self._tell_status()
        await tell("execution_start", {})
        outputs: dict[str, Any] = {}
        status = "error"
        try:
            await self._execute(item, outputs, tell)
            await tell("execution_success", {})
            status = "success"
        except _Interrupted:
            await tell("execution_interrupted", {"node_id": "", "node_type": "", "executed": []})
        except _NodeError as error:
            await tell("execution_error", error.data)
        self._ended_at = time.perf_counter()
        self.history[item.key] = {
            "prompt": item.as_json(),
            "outputs": outputs,
            "status": {
                "status_str": status,
                "completed": status == "success",
                "messages": messages,
            },
        }
        self.running = None
        await self._tell_status()
        await self._send(
            item.extra.get("client_id"), "executing", {"node": None, "prompt_id": item.key}
        )
        item.done.set()

    async def _execute(self, item: _Item, outputs: dict[str, Any], tell: Any) -> None:
        order = in_order(item.graph, item.outputs)
        keys = {node: self._cache_key(item.graph, node) for node in order}
        cached = [node for node in order if keys[node] in self._cache]
        await tell("execution_cached", {"nodes": cached})
        fresh = {keys[node]: self._cache.get(keys[node]) for node in order}
        for node in order:
            if node not in cached:
                await tell("executing", {"node": node, "display_node": node})
                fresh[keys[node]] = await self._execute_node(item, node, tell)
            made = fresh[keys[node]]
            if made:
                outputs[node] = made
                await tell("executed", {"node": node, "display_node": node, "output": made})
        self._cache = fresh  # only what the last prompt used is kept

    def _cache_key(self, graph: Graph, node: str) -> str:
        inputs = {
            name: self._cache_key(graph, value[0]) if isinstance(value, list) else value
            for name, value in graph[node]["inputs"].items()
        }
        return json.dumps([graph[node]["class_type"], inputs], sort_keys=True)

    async def _execute_node(self, item: _Item, node: str, tell: Any) -> dict[str, Any] | None:
        kind, inputs = item.graph[node]["class_type"], item.graph[node]["inputs"]
        self._raise_if_told(node, kind)
        match kind:
            case "CheckpointLoaderSimple" | "UNETLoader":
                file = inputs.get("ckpt_name") or inputs["unet_name"]
                if file != self.memory:
                    await asyncio.sleep(self.load_s)
                self.memory = file
            case "DiffusersLoader" | "Sleep":
                self.memory = inputs.get("model_path") or inputs["text"]
            case "LoadImage":
                subfolder, _, name = inputs["image"].rpartition("/")
                if not self.files["input", subfolder, name].startswith(_PNG):
                    message = f"cannot identify image file '/srv/comfy/input/{name}'"
                    raise _NodeError(node, kind, "PIL.UnidentifiedImageError", message)
            case "KSampler" | "KSamplerAdvanced" | "SamplerCustomAdvanced":
                await self._sample(item, node, _steps(item.graph, inputs), tell)
            case "SaveImage" | "PreviewImage":
                return self._save(item, kind, inputs)
            case _ if kind in _MADE:
                return self._save_other(kind, inputs)
            case _:
                pass
        return None

    def _raise_if_told(self, node: str, kind: str) -> None:
        for error in self.faults.errors:
            if error[0] == kind:
                self.faults.errors.remove(error)
                if error[1].endswith("OutOfMemoryError"):
                    self.memory = None
                raise _NodeError(node, kind, error[1], error[2])

    async def _sample(self, item: _Item, node: str, steps: int, tell: Any) -> None:
        for step in range(1, steps + 1):
            await asyncio.sleep(self.step_s)
            if self._interrupt:
                raise _Interrupted
            await tell("progress", {"value": step, "max": steps, "node": node})
            await self._send_preview(item, node)
            if step == self.faults.drop_socket_at_step:
                for socket in list(self.sockets.values()):
                    await socket.close(code=WSCloseCode.GOING_AWAY)

    def _save(self, item: _Item, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
        place = "output" if kind == "SaveImage" else "temp"
        subfolder, _, name = inputs.get("filename_prefix", "ComfyUI_temp").rpartition("/")
        images = []
        for _ in range(_batch(item.graph)):
            start = (place, subfolder, f"{name}_")
            taken = sum(
                1 for at in self.files if at[:2] == start[:2] and at[2].startswith(start[2])
            )
            filename = f"{name}_{taken + 1:05}_.png"
            self.files[place, subfolder, filename] = self.image or draw(item.graph)
            images.append({"filename": filename, "subfolder": subfolder, "type": place})
        return {"images": images}

    def _save_other(self, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Save a video or a sound as its node does, under the key that the node reports."""
        key, ending, more = _MADE[kind]
        place = "temp" if kind == "PreviewAudio" or inputs.get("save_output") is False else "output"
        subfolder, _, name = inputs.get("filename_prefix", "ComfyUI_temp").rpartition("/")
        filename = f"{name}_{1 + len(self.files):05}_.{ending}"
        self.files[place, subfolder, filename] = self.sound if key == "audio" else self.video
        entry = {"filename": filename, "subfolder": subfolder, "type": place}
        if kind == "VHS_VideoCombine":
            still = filename.replace(ending, "png")
            self.files[place, subfolder, still] = draw({})  # left on disk, with the graph
            entry |= {"format": "video/h264-mp4", "workflow": still, "fullpath": f"/srv/{filename}"}
        return {key: [entry], **more}


def draw(graph: Graph) -> bytes:
    """Return a plain PNG of this size, in a colour from the seed, with the graph as a text."""
    width, height, seed = 64, 64, 0
    for node in graph.values():
        inputs = node["inputs"]
        if "Latent" in node["class_type"] or node["class_type"] == "ImageScale":
            width, height = inputs.get("width", width), inputs.get("height", height)
        seed = inputs.get("seed", inputs.get("noise_seed", seed))
    row = b"\0" + bytes([seed % 256, seed // 256 % 256, 128]) * width
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    text = b"prompt\0" + json.dumps(graph).encode()
    pixels = zlib.compress(row * height, 1)
    chunks = [(b"IHDR", header), (b"tEXt", text), (b"IDAT", pixels), (b"IEND", b"")]
    return _PNG + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _steps(graph: Graph, inputs: dict[str, Any]) -> int:
    """Return how many steps a sampler takes: its own part of them, where several share them."""
    if "sigmas" in inputs:
        inputs = graph[inputs["sigmas"][0]]["inputs"]
    last = min(inputs.get("end_at_step", inputs["steps"]), inputs["steps"])
    return int(last - inputs.get("start_at_step", 0))


def _batch(graph: Graph) -> int:
    counts = [
        node["inputs"].get("batch_size", node["inputs"].get("amount", 1)) for node in graph.values()
    ]
    return int(max(counts))


def _cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
