"""What ComfyUI holds in memory, over real sockets, and how it is brought there and back."""

import asyncio
from dataclasses import replace

import pytest

from backends.comfyui import ComfyUI
from queueing.errors import OutOfMemory
from tests.backends.drawing import LONG, SDXL, connect, drawn, ignore, running, work
from tests.contracts.harness_comfyui import model
from tests.fakes.comfyui import FakeComfyUI


async def test_loading_happens_once_and_leaves_no_file(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed every load would draw again and litter the server's output."""
    await comfy.load(SDXL)
    await comfy.load(SDXL)
    assert len(fake.ran) == 1
    assert fake.memory == "sd_xl_base_1.0.safetensors"
    assert not [place for place in fake.files if place[0] == "output"]


async def test_loading_what_was_freed_really_loads(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed the server's cache would answer a warm-up without loading anything."""
    for _ in range(2):
        await comfy.load(SDXL)
        assert fake.memory is not None
        await comfy.unload(SDXL)
        assert fake.memory is None
        assert await comfy.loaded([SDXL]) == frozenset()


async def test_what_is_loaded_follows_the_server(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed jobs would be sent to models that somebody else replaced."""
    other = replace(model("sub/dreams v2.ckpt"), name="dreams")
    both = [SDXL, other]
    assert await comfy.loaded(both) == frozenset()
    await drawn(comfy)
    assert await comfy.loaded(both) == frozenset({"sdxl"})
    stranger = connect(fake)
    await stranger.run(other, work(), ignore)
    await stranger.aclose()
    assert await comfy.loaded(both) == frozenset({"dreams"})
    run = asyncio.create_task(comfy.run(SDXL, attempt := work(LONG), ignore))
    await running(fake, attempt.key)
    assert await comfy.loaded(both) == frozenset({"sdxl"})
    run.cancel()
    await asyncio.wait({run})
    await fake.restart()
    assert await comfy.loaded(both) == frozenset()


async def test_nothing_is_loaded_after_running_out_of_memory(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed the planner would count on a model that the server has thrown out."""
    fake.faults.errors.append(("KSampler", "torch.OutOfMemoryError", ""))
    with pytest.raises(OutOfMemory):
        await comfy.load(SDXL)
    assert await comfy.loaded([SDXL]) == frozenset()


async def test_unloading_waits_until_the_worker_has_done_it(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed the next model would be loaded into memory that is still full."""
    stranger = connect(fake)
    run = asyncio.create_task(stranger.run(SDXL, attempt := work(LONG), ignore))
    await running(fake, attempt.key)
    await comfy.unload(SDXL)
    assert fake.memory is None
    await run
    await stranger.aclose()
