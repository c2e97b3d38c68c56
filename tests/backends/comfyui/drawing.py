"""A ComfyUI server to test against, and work for it."""

from typing import Any
from uuid import uuid4

from backends.comfyui.backend import ComfyUI
from queueing.core.requests import File, Progress, TextToImage, Work
from queueing.core.specs import BackendSpec
from tests.contracts.backend.backend_harness import until
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI

SMALL = TextToImage(prompt="a cat", width=64, height=64, steps=4)
LONG = TextToImage(prompt="a cat", width=64, height=64, steps=200)
SDXL = model()


def connect(fake: FakeComfyUI, **options: Any) -> ComfyUI:
    return ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=fake.url, options=options))


def work(request: TextToImage = SMALL, *files: File) -> Work:
    return Work(key=str(uuid4()), request=request, files=files)


def ignore(_: Progress) -> None:
    pass


async def drawn(comfy: ComfyUI, *, attempt: Work | None = None) -> tuple[File, ...]:
    """Run an attempt and fetch its images."""
    fetch = await comfy.run(SDXL, attempt or work(), ignore)
    return (await fetch()).files


async def running(fake: FakeComfyUI, key: str) -> None:
    """Return once an attempt is running on the server."""

    async def runs() -> bool:
        return fake.running is not None and fake.running.key == key

    await until(runs)


async def idle(fake: FakeComfyUI) -> None:
    async def rests() -> bool:
        return not fake.busy

    await until(rests)
