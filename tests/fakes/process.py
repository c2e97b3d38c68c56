"""The fakes of ComfyUI and LM Studio as separate processes, which may share a GPU.

`python -m tests.fakes.process comfyui|lmstudio …` prints its address and serves until it is ended.
Beside the real routes there are two for tests: `GET /_told` returns what it has seen, `POST
/_faults` sets what goes wrong. `serving()` starts one and ends it, `respawning()` starts it again
whenever it dies, as a service manager does.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fakes.gpu import SharedGpu
from tests.fakes.llm.llm import FakeLlm, LoadFault, Model
from tests.fakes.llm.llm_words import load_failure
from tests.fakes.ports import port_of
from tests.fakes.servers.comfyui import FakeComfyUI, _Item, _NodeError

ROOT = Path(__file__).resolve().parent.parent.parent
LOADERS = {"CheckpointLoaderSimple", "UNETLoader"}


@asynccontextmanager
async def serving(kind: str, *arguments: str) -> AsyncIterator[str]:
    """Run a fake server in a separate process; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.fakes.process", kind, *arguments),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            url = (await process.stdout.readline()).decode().strip()
        yield url
    finally:
        await _killed(process)


@asynccontextmanager
async def respawning(kind: str, *arguments: str) -> AsyncIterator[str]:
    """Run a fake server on one port and start it again whenever it has died."""
    port = str(port_of(asyncio.get_running_loop()))
    async with serving(kind, "--again", "--port", port, *arguments) as url:
        yield url


async def _killed(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    # Its pipes: those that follow it end with its input, and hold its output until then.
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()


class GpuComfyUI(FakeComfyUI):
    """A fake ComfyUI whose models are on a GPU; `lingers_s` is how long freed memory shows."""

    def __init__(
        self, gpu: SharedGpu | None, sizes: dict[str, int], lingers_s: float, **fields: Any
    ) -> None:
        self._gpu, self._sizes, self._lingers_s = gpu, sizes, lingers_s
        self.dies_of = ""
        self._file: str | None = None
        super().__init__(**fields)

    # The attribute of the fake, whose every change is a change of the GPU's memory.
    @property
    def memory(self) -> str | None:
        return self._file

    @memory.setter
    def memory(self, file: str | None) -> None:
        before, self._file = self._file, file
        if self._gpu is not None and before is not None and before != file:
            holder = f"comfyui:{before}"
            # A driver shows freed memory late, when the server has long reported it as free.
            asyncio.get_running_loop().call_later(self._lingers_s, self._gpu.give, holder)

    async def _execute_node(self, item: _Item, node: str, tell: Any) -> dict[str, Any] | None:
        kind, inputs = item.graph[node]["class_type"], item.graph[node]["inputs"]
        if self.dies_of and kind == "KSampler" and self.dies_of in json.dumps(item.graph):
            os._exit(137)
        if kind in LOADERS and self._gpu is not None:
            file = inputs.get("ckpt_name") or inputs["unet_name"]
            if file != self.memory:
                self.memory = None  # the old model is unloaded before the new one is loaded
                if not self._gpu.take(f"comfyui:{file}", self._sizes.get(file, 1000)):
                    raise _NodeError(node, kind, "torch.OutOfMemoryError", "Allocation on device")
        return await super()._execute_node(item, node, tell)

    async def _system_stats(self, request: web.Request) -> web.Response:
        if self._gpu is not None:
            held = self._gpu.held
            mine = sum(mb for holder, mb in held.items() if holder.startswith("comfyui:"))
            self.stats = {
                "vram_total": self._gpu.total_mb * 2**20,
                "vram_free": self._gpu.free_mb * 2**20,
                "torch_vram_total": mine * 2**20,
            }
        return await super()._system_stats(request)

    def _app(self) -> web.Application:
        app = super()._app()
        app.router.add_get("/_told", self._told)
        app.router.add_post("/_faults", self._set_faults)
        return app

    async def _told(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "gaps_s": self.gaps_s,
                "ran": self.ran,
                "running": self.running.key if self.running else None,
                "ended": list(self.history),
                "interrupts": self.interrupts,
                "frees": self.frees,
                "memory": self.memory,
            }
        )

    async def _set_faults(self, request: web.Request) -> web.Response:
        faults = await request.json()
        if faults.pop("die", False):
            os._exit(137)
        self.step_s = faults.pop("step_s", self.step_s)
        for name, value in faults.items():
            assert hasattr(self.faults, name), name
            setattr(self.faults, name, value)
        return web.Response()


class GpuLmStudio(FakeLlm):
    """A fake LM Studio whose models are on a GPU and take a while to load."""

    def __init__(
        self,
        gpu: SharedGpu | None,
        sizes: dict[str, int],
        lingers_s: float,
        *,
        load_s: float,
        port: int,
    ) -> None:
        super().__init__("lmstudio", [Model(name) for name in sizes], port=port)
        self._gpu, self._sizes, self._lingers_s = gpu, sizes, lingers_s
        self._load_s = load_s
        self.dies_of = ""
        self._loading: set[str] = set()
        self.cut_short = 0

    async def add_load(self, model: Model) -> web.Response | None:
        if self._gpu is not None:
            held = self._sizes[model.id] * (1 + len(model.copies))
            if not self._gpu.take(f"lmstudio:{model.id}", held):
                return load_failure(self.kind, LoadFault.OOM)
        self._loading.add(model.id)
        try:
            await asyncio.sleep(self._load_s)
            return await super().add_load(model)
        finally:
            self._loading.discard(model.id)

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.dies_of and request.can_read_body and self.dies_of in await request.text():
            await asyncio.sleep(0.3)  # others are being answered by then
            os._exit(137)
        response = await super()._gate(request, handler)
        if request.path.endswith("/unload"):
            for model in self.models.values():
                if not model.copies and model.id not in self._loading:
                    self.cut_short += model.running
                    if self._gpu is not None:
                        later = asyncio.get_running_loop().call_later
                        later(self._lingers_s, self._gpu.give, f"lmstudio:{model.id}")
        return response

    async def _unknown(self, request: web.Request) -> web.Response:
        if request.path == "/_told":
            loaded = [model.id for model in self.models.values() if model.copies]
            told = {
                "cut_short": self.cut_short + self.aborted,
                "running": self.running,
                "asked": len(self.posted("/v1/chat/completions")),
                "loaded": loaded,
            }
            return web.json_response(told)
        if request.path == "/_faults":
            self.pace_s = json.loads(await request.text())["pace_s"]
            return web.Response()
        return await super()._unknown(request)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=["comfyui", "lmstudio"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--gpu", type=Path)
    parser.add_argument("--size", action="append", default=[], help="MODEL=MB")
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--lingers-s", type=float, default=0.0)
    parser.add_argument("--image", type=Path)
    parser.add_argument("--again", action="store_true", help="start it again whenever it has died")
    parser.add_argument("--dies-of", default="", help="a word in a request that kills the server")
    options = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        if options.again:
            _follow_each_other()
        asyncio.run(_serve(options))


def _follow_each_other() -> None:
    """Return in one new process after the other, each with everything imported."""
    while child := os.fork():
        os.waitpid(child, 0)


async def _serve(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    if options.again:  # what kills the first process closes the input of those that follow
        asyncio.get_running_loop().add_reader(0, os._exit, 0)
    gpu = SharedGpu(options.gpu) if options.gpu else None
    sizes = {name: int(mb) for name, _, mb in (each.partition("=") for each in options.size)}
    server: GpuComfyUI | GpuLmStudio
    if options.kind == "comfyui":
        image = options.image.read_bytes() if options.image else None
        server = GpuComfyUI(
            gpu,
            sizes,
            options.lingers_s,
            step_s=options.step_s,
            load_s=options.load_s,
            image=image,
            port=options.port,
        )
    else:
        server = GpuLmStudio(
            gpu, sizes, options.lingers_s, load_s=options.load_s, port=options.port
        )
        server.pace_s = options.step_s
    server.dies_of = options.dies_of
    await server.start()
    print(server.url, flush=True)
    await stopped.wait()


if __name__ == "__main__":
    main()
