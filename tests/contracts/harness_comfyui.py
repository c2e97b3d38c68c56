"""ComfyUI for the backend contract: two versions of the fake, and a real one where named.

`USHER_COMFYUI_URL` names a running server; `USHER_COMFYUI_CHECKPOINT` one of its checkpoints, a
small one best (default: the first it offers).
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from unittest.mock import patch

from backends.comfyui.backend import ComfyUI
from queueing.core.catalog import BackendSpec, ModelSpec
from queueing.core.requests import Capability, TextToImage
from tests.contracts.backend_harness import Harness, Opens
from tests.fakes.comfyui import FakeComfyUI

URL = os.environ.get("USHER_COMFYUI_URL", "")


def model(
    checkpoint: str = "sd_xl_base_1.0.safetensors", *, workflow: str = "sdxl.json"
) -> ModelSpec:
    """Return a model drawn by the shipped SDXL templates."""
    return ModelSpec(
        name="sdxl",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE}),
        options={"workflow": workflow, "values": {"checkpoint": checkpoint}},
    )


@asynccontextmanager
async def _fake(*, old: bool) -> AsyncIterator[Harness]:
    async with FakeComfyUI(step_s=0.005, load_s=0.02, old=old) as fake:
        backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=fake.url))

        async def busy() -> bool:
            return fake.busy

        with patch("backends.comfyui.attempts.GRACE_S", 0.2):
            yield Harness(
                backend=backend,
                model=model(),
                quick=TextToImage(prompt="a cat", width=64, height=64, steps=3),
                long=TextToImage(prompt="a cat", width=64, height=64, steps=200),
                busy=busy,
                absent=model("missing.safetensors"),
                unusable=model(workflow="missing.json"),
                die=fake.kill,
                remembers=True,
            )
        await backend.aclose()


@asynccontextmanager
async def _real() -> AsyncIterator[Harness]:
    backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=URL))
    offered = (await backend.discover())[0].options["values"]
    assert isinstance(offered, dict)
    checkpoint = os.environ.get("USHER_COMFYUI_CHECKPOINT") or str(offered["checkpoint"])

    async def busy() -> bool:
        return await backend._server.running() is not None

    yield Harness(
        backend=backend,
        model=model(checkpoint),
        quick=TextToImage(prompt="a cat", width=64, height=64, steps=3),
        long=TextToImage(prompt="a cat", width=64, height=64, steps=200),
        busy=busy,
        absent=model("missing.safetensors"),
        unusable=model(workflow="missing.json"),
        remembers=True,
    )
    await backend.aclose()


HARNESSES: dict[str, Opens] = {
    "comfyui": partial(_fake, old=False),
    "comfyui-0.3.64": partial(_fake, old=True),
}
EXTERNAL: dict[str, Opens] = {"comfyui-real": _real} if URL else {}
