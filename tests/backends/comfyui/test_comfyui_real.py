"""A real ComfyUI process, started, killed and started again by the test.

`USHER_COMFYUI_PYTHON` names the Python that runs it, and `USHER_COMFYUI_FOLDER` the folder of its
`main.py`. It runs on the CPU, so give it a small checkpoint. The tests are skipped where these
variables are not set.
"""

import asyncio
import io
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import pytest
from PIL import Image

from backends.comfyui.backend import ComfyUI
from queueing.core.errors import BadModel, Rejected, Unavailable
from queueing.core.requests import Capability, File, LoraWeight, Progress, TextToImage, Work
from queueing.core.specs import BackendSpec, ModelSpec
from tests.contracts.backend.backend_harness import until
from tests.contracts.backend.harness_comfyui import first_checkpoint, model
from tests.fakes.ports import free_port

PYTHON = os.environ.get("USHER_COMFYUI_PYTHON", "")
FOLDER = os.environ.get("USHER_COMFYUI_FOLDER", "")

pytestmark = [
    pytest.mark.external,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not (PYTHON and FOLDER), reason="USHER_COMFYUI_PYTHON, _FOLDER not set"),
]


@asynccontextmanager
async def served(port: int, *more: str) -> AsyncIterator[Process]:
    """Run a ComfyUI until the context ends; enter when it answers."""
    flags = ("--cpu", "--listen", "127.0.0.1", "--disable-api-nodes")
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "main.py", "--port", str(port), "--preview-method", "latent2rgb", *flags, *more),
        cwd=FOLDER,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    probe = connect(port)

    async def answers() -> bool:
        try:
            return bool((await probe.probe()).description)
        except Unavailable:
            await asyncio.sleep(0.5)
            return False

    try:
        await until(answers, within_s=120)
        yield process
    finally:
        await probe.aclose()
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def connect(port: int) -> ComfyUI:
    return ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=f"http://127.0.0.1:{port}"))


async def smallest(backend: ComfyUI) -> ModelSpec:
    """Return a model of the checkpoint named in the environment, or else of the first one found."""
    return model(os.environ.get("USHER_COMFYUI_CHECKPOINT") or await first_checkpoint(backend))


def work(*files: File, **options: object) -> Work:
    request = {"prompt": "a cat", "width": 64, "height": 64, "steps": 4, **options}
    if "upscale" in options:
        request = {"prompt": "a cat", **options}
    return Work(key=str(uuid4()), request=TextToImage.model_validate(request), files=files)


async def begun(backend: ComfyUI, attempt: Work) -> None:
    async def runs() -> bool:
        prompt = await backend._server.running()
        return prompt is not None and prompt.id == attempt.key

    await until(runs)


def ignore(_: Progress) -> None:
    pass


async def test_all_that_people_can_ask_for_is_drawn() -> None:
    """The shipped templates would only work on the fake server."""
    port = free_port()
    async with served(port):
        backend = connect(port)
        sdxl = await smallest(backend)
        await backend.verify(sdxl)
        reports: list[Progress] = []
        odd = work(prompt='кот 🦊 {{seed}} "]}', width=100, count=2, seed=2**64 - 1, negative="x")
        files = (await (await backend.run(sdxl, odd, reports.append))()).files
        assert len(files) == 2
        assert not any(b"tEXt" in file.data for file in files)
        with Image.open(io.BytesIO(files[0].data)) as image:
            assert image.size == (96, 64)
        assert any(report.preview for report in reports)
        assert [report.step for report in reports if report.step][-1] == (4, 4)
        again = await backend.run(sdxl, work(files[0], strength=0.5), ignore)
        assert len((await again()).files) == 1
        lens = replace(
            sdxl,
            name="lens",
            capabilities=frozenset({Capability.UPSCALE}),
            options={"workflow": "upscale.json"},
        )
        await backend.verify(lens)
        await backend.load(lens)
        larger = await backend.run(lens, work(files[0], upscale=True), ignore)
        with Image.open(io.BytesIO((await larger()).files[0].data)) as image:
            assert image.size == (192, 128)
        assert isinstance(await backend.loras(sdxl), tuple)
        by_model = replace(lens, options={"workflow": "upscale-model.json"})
        with pytest.raises(BadModel, match="the server does not have RealESRGAN"):
            await backend.verify(by_model)
        with pytest.raises(Rejected, match="no LoRA"):
            await backend.run(sdxl, work(lora=(LoraWeight(name="no such"),)), ignore)
        gone = replace(model("gone.safetensors"), name="gone")
        with pytest.raises(BadModel, match=r"gone\.safetensors"):
            await backend.run(gone, work(), ignore)
        await backend.aclose()


async def test_a_kill_in_the_middle_loses_nothing_silently() -> None:
    """A crashed server would hang its job, or be used though it has forgotten its work."""
    port = free_port()
    backend = connect(port)
    async with served(port) as process:
        sdxl = await smallest(backend)
        attempt = work(steps=200)
        run = asyncio.create_task(backend.run(sdxl, attempt, ignore))
        await begun(backend, attempt)
        os.killpg(process.pid, signal.SIGKILL)
        with pytest.raises(Unavailable):
            await run
        with pytest.raises(Unavailable):
            await backend.probe()
    async with served(port):
        assert await backend.resume(sdxl, attempt, ignore) is None
        assert await backend.loaded([sdxl]) == frozenset()
        await backend.load(sdxl)
        assert await backend.loaded([sdxl]) == frozenset({"sdxl"})
        assert len((await (await backend.run(sdxl, work(), ignore))()).files) == 1
    await backend.aclose()


async def test_what_we_left_running_is_watched_again() -> None:
    """A crash of the bot would waste the work that the server goes on with."""
    port = free_port()
    async with served(port):
        crashed, backend = connect(port), connect(port)
        sdxl = await smallest(backend)
        attempt, reports = work(steps=30), list[Progress]()
        run = asyncio.create_task(crashed.run(sdxl, attempt, ignore))
        await begun(backend, attempt)
        fetch = await backend.resume(sdxl, attempt, reports.append)
        assert fetch is not None
        assert len((await fetch()).files) == 1
        assert any(report.step for report in reports)
        await run
        await crashed.aclose()
        await backend.aclose()
