"""A fake of image servers over a loopback socket.

LocalAI, sd-server, vLLM-Omni, SwarmUI, or a plain one. It answers as their sources say (see the
modules in `backends/images`). It draws one plain image at a time, of the requested size, and writes
the prompt into it as those servers do. If there are `faults`, each drawing uses up the next one
instead.
"""

import asyncio
import io
import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.fakes.ports import port_of
from tests.fakes.servers.painter_calls import routes_of

KINDS = ("localai", "sdcpp", "vllm-omni", "swarmui", "generic")
STEPS = 3
LORAS = ("ink.safetensors", "styles/video.safetensors")


def image(width: int = 64, height: int = 64, prompt: str = "", form: str = "PNG") -> bytes:
    """Return an image in which its prompt is written, as servers do."""
    buffer = io.BytesIO()
    told = PngInfo()
    told.add_text("parameters", f"{prompt}\nSteps: 20, Model: /srv/models/secret.safetensors")
    Image.new("RGB", (width, height), "teal").save(buffer, form, pnginfo=told)  # PNG's alone
    return buffer.getvalue()


class FakePainter:
    """One server. `url` is set once it runs; `requests` are (path, body) in order."""

    def __init__(self, kind: str, *, token: str | None = None, port: int = 0) -> None:
        self.kind = kind
        self.token = token
        self.models = ["alpha.safetensors", "beta"] if kind in {"localai", "swarmui"} else ["alpha"]
        self.loaded: set[str] = set() if kind in {"localai", "swarmui"} else {"alpha"}
        self.loras = LORAS
        self.gpus: list[tuple[int, int]] = []  # (total, free) in MB; none may be asked for
        self.preview = image(8, 8, form="JPEG")
        self.step_s = 0.0
        self.running = 0
        self.aborted = 0
        self.requests: list[tuple[str, Any]] = []
        self.faults: deque[Callable[[], web.Response]] = deque()
        self.by_url = False  # results as addresses instead of base64
        self.files: dict[str, bytes] = {}  # what such addresses lead to
        self.guarded = False  # a gateway before it refuses paths that it does not know
        self.host = ""  # the server such addresses name, its own if empty
        self.jobs: dict[str, dict[str, Any]] = {}
        self.sessions: dict[str, set[asyncio.Future[Any]]] = {}
        self.one_at_a_time = asyncio.Lock()
        self.changed = asyncio.Event()
        self.port = port or port_of(self)
        self.url = f"http://127.0.0.1:{self.port}"
        self.tasks: set[asyncio.Future[Any]] = set()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Begin to serve, as after a restart: only the files remain."""
        app = web.Application(middlewares=[self._gate], client_max_size=64 * 1024**2)
        for method, path, handler in routes_of(self):
            app.router.add_route(method, path, handler)
        app.router.add_route("*", "/{tail:.*}", self._unknown)
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.2, handler_cancellation=self.kind != "swarmui"
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        """End every connection and forget all work, as a crash does."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for task in list(self.tasks):
            task.cancel()
        self.jobs.clear()
        self.sessions.clear()

    def asked(self, path: str) -> list[Any]:
        """Return the bodies of a call."""
        return [body for where, body in self.requests if where == path]

    async def draw(self, prompt: str, size: tuple[int, int], steps: int, count: int) -> list[bytes]:
        """Draw at the configured pace, one request at a time."""
        self.running += 1
        self.changed.set()
        try:
            async with self.one_at_a_time:
                for _ in range(count * steps):
                    await asyncio.sleep(self.step_s)
            return [image(*size, prompt) for _ in range(count)]
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        finally:
            self.running -= 1

    async def until_running(self, count: int) -> None:
        """Return when this many drawings have begun."""
        while self.running < count:
            self.changed.clear()
            await self.changed.wait()

    def item(self, data: bytes, number: int) -> dict[str, str]:
        """Return an image as OpenAI's calls return it."""
        if not self.by_url:
            return {"b64_json": b64encode(data).decode()}
        path = f"/generated-images/b64 {number}.png"
        self.files[path] = data
        return {"url": f"{self.host or self.url}{path.replace(' ', '%20')}"}

    async def file(self, request: web.Request) -> web.Response:
        """Answer with a file, with a wrong type, as some proxies do."""
        return web.Response(body=self.files[request.path], content_type="application/x-other")

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Start work that goes on after the connection has closed."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if "Upgrade" not in request.headers:
            self.requests.append((request.path, await _body(request)))
        bearer = request.headers.get("Authorization") == f"Bearer {self.token}"
        cookie = request.cookies.get("swarm_token") == self.token
        if self.token and not (cookie if self.kind == "swarmui" else bearer):
            return web.json_response({"error": {"message": "An API key is required"}}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    async def _unknown(self, request: web.Request) -> web.Response:
        if self.guarded:
            return web.json_response({"error": {"message": "Unauthorized"}}, status=401)
        if self.kind == "swarmui":
            return web.Response(text="<html>SwarmUI</html>", content_type="text/html")
        return web.json_response({"error": {"code": 404, "message": "Not Found"}}, status=404)


async def _body(request: web.Request) -> Any:
    """Return a body: JSON, or a form whose files are bytes and whose repeated fields are lists."""
    if not request.can_read_body:
        return None
    if not request.content_type.startswith("multipart/"):
        return json.loads(await request.text())
    form: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        read = value.file.read() if isinstance(value, web.FileField) else value
        form.setdefault(name, []).append(read)
    return {name: found if name == "image[]" else found[0] for name, found in form.items()}


def plain(data: str) -> bytes:
    """Return the bytes of base64 as sd-server reads it, with or without a data address."""
    return b64decode(data.rpartition(",")[2])


@asynccontextmanager
async def painting(kind: str, *, token: str | None = None) -> AsyncIterator[FakePainter]:
    """Serve a fake as long as the block lasts."""
    fake = FakePainter(kind, token=token)
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()
