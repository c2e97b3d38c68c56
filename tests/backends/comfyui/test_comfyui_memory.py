"""What ComfyUI holds in memory, over real sockets: how models are loaded and unloaded."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.backend import ComfyUI
from queueing.core.errors import BadModel, OutOfMemory
from queueing.core.requests import Capability, TextToImage
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.drawing import LONG, SDXL, connect, drawn, ignore, running, work
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.servers.comfyui_nodes import NODES

DRAWS = frozenset({Capability.TEXT_TO_IMAGE})
PLAIN = TextToImage(prompt="a cat")


async def test_loading_happens_once_and_leaves_no_file(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """Every load would draw an image and litter the server's output folder."""
    await comfy.load(SDXL)
    await comfy.load(SDXL)
    assert len(fake.ran) == 1
    assert fake.memory == "sd_xl_base_1.0.safetensors"
    assert not [place for place in fake.files if place[0] == "output"]


async def test_loading_what_was_freed_really_loads(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """The server's cache would answer a warm-up without loading anything."""
    for _ in range(2):
        await comfy.load(SDXL)
        assert fake.memory is not None
        await comfy.unload(SDXL)
        assert fake.memory is None
        assert await comfy.loaded([SDXL]) == frozenset()


async def test_what_is_loaded_follows_the_server(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """Jobs would be sent as if a model were loaded that another person has since replaced."""
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


def own(folder: Path, name: str, graph: dict[str, Any]) -> ModelSpec:
    """Return a model of a workflow that an operator supplies."""
    file = folder / f"{name}.json"
    graph = {key: {"class_type": kind, "inputs": inputs} for key, (kind, inputs) in graph.items()}
    file.write_text(json.dumps(graph), encoding="utf-8")
    return replace(SDXL, name=name, options={"workflow": str(file)}, capabilities=DRAWS)


def named_by_folder(folder: Path, name: str) -> ModelSpec:
    """Return a model whose loader names a folder, not a file."""
    graph = {
        "load": ("DiffusersLoader", {"model_path": name}),
        "words": ("CLIPTextEncode", {"text": "{{prompt}}", "clip": ["load", 1]}),
        "latent": ("EmptyLatentImage", {"width": 64, "height": 64, "batch_size": 1}),
        "sampler": (
            "KSampler",
            {
                "model": ["load", 0],
                "seed": "{{seed}}",
                "steps": "{{steps:2}}",
                "cfg": 1.0,
                "sampler_name": "euler",
                "scheduler": "karras",
                "positive": ["words", 0],
                "negative": ["words", 0],
                "latent_image": ["latent", 0],
                "denoise": 1.0,
            },
        ),
        "decode": ("VAEDecode", {"samples": ["sampler", 0], "vae": ["load", 2]}),
        "save": ("SaveImage", {"images": ["decode", 0], "filename_prefix": "x"}),
    }
    return own(folder, name, graph)


def without_a_name(folder: Path, name: str) -> ModelSpec:
    """Return a model whose workflow names no file that it loads, and whose seeds are small."""
    graph = {
        "words": ("CLIPTextEncode", {"text": "{{prompt}}", "clip": ["sleep", 1]}),
        "sleep": ("Sleep", {"text": f"as {name}", "seed": "{{seed}}", "steps": "{{steps:8}}"}),
        "tint": ("Tint", {"image": ["sleep", 0], "color": "{{seed}}"}),
        "save": ("SaveImage", {"images": ["tint", 0], "filename_prefix": "x"}),
        "second": ("SaveImage", {"images": ["words", 0], "filename_prefix": "y"}),
    }
    return own(folder, name, graph)


@pytest.mark.parametrize("kind", [named_by_folder, without_a_name])
async def test_a_model_without_a_file_is_known_to_be_there(
    fake: FakeComfyUI,
    comfy: ComfyUI,
    tmp_path: Path,
    kind: Callable[[Path, str], ModelSpec],
) -> None:
    """Its model would be warmed up for every request, and never freed for other servers."""
    fox, owl = kind(tmp_path, "fox"), kind(tmp_path, "owl")
    models = [SDXL, fox, owl]
    await comfy.verify(fox)
    await comfy.load(fox)
    assert await comfy.loaded(models) == frozenset({"fox"})
    for _ in range(2):
        await (await comfy.run(fox, work(PLAIN), ignore))()
        assert await comfy.loaded(models) == frozenset({"fox"})
        await comfy.load(fox)
    assert len(fake.ran) == 3
    await comfy.load(owl)
    assert await comfy.loaded(models) == frozenset({"owl"})
    await comfy.unload(owl)
    assert fake.memory is None
    assert await comfy.loaded(models) == frozenset()


async def test_seeds_stay_within_what_the_nodes_take(
    fake: FakeComfyUI, comfy: ComfyUI, tmp_path: Path
) -> None:
    """Such nodes would refuse most seeds, and their models would never load."""
    fox = without_a_name(tmp_path, "fox")
    seeds = [0, 7, 0xFFFFFF, 0xFFFFFF + 1, 2**32 - 1, 2**64 - 1]
    for seed in [*seeds, *seeds]:
        await comfy.run(fox, work(PLAIN.model_copy(update={"seed": seed})), ignore)
    sent = [post["prompt"]["tint"]["inputs"]["color"] for post in fake.posts]
    assert sent[:6] == sent[6:]
    assert sent[1:3] == [7, 0xFFFFFF]
    assert all(1 <= seed <= 0xFFFFFF for seed in sent)


async def test_ranges_that_leave_no_seed_are_found_by_a_check(
    comfy: ComfyUI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`usher check` would accept a model that cannot draw anything."""
    fox = without_a_name(tmp_path, "fox")
    monkeypatch.setitem(NODES["Tint"], "color", ["INT", {"min": 2**60}])
    with pytest.raises(BadModel, match="no seed"):
        await comfy.verify(fox)


async def test_what_loads_nothing_leaves_memory_alone(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """Each image that is only enlarged would cost two loads of a model."""
    lens = replace(
        SDXL,
        name="lens",
        capabilities=frozenset({Capability.UPSCALE}),
        options={"workflow": "upscale.json"},
    )
    assert comfy.weightless(lens)
    assert not comfy.weightless(SDXL)
    both = [SDXL, lens]
    assert await comfy.loaded(both) == frozenset({"lens"})
    await comfy.load(lens)
    (image,) = await drawn(comfy)
    before = len(fake.ran)
    larger = TextToImage(prompt="", upscale=True)
    for _ in range(9):
        await comfy.run(lens, work(larger, image), ignore)
    assert await comfy.loaded(both) == frozenset({"lens", "sdxl"})
    await comfy.unload(lens)
    await comfy.load(SDXL)
    assert len(fake.ran) == before + 9
    assert fake.memory
    await comfy.unload(SDXL)
    await comfy.run(lens, work(larger, image), ignore)
    assert await comfy.loaded(both) == frozenset({"lens"})


async def test_nothing_is_loaded_after_running_out_of_memory(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """The planner would count on a model that the server has unloaded."""
    fake.faults.errors.append(("KSampler", "torch.OutOfMemoryError", ""))
    with pytest.raises(OutOfMemory):
        await comfy.load(SDXL)
    assert await comfy.loaded([SDXL]) == frozenset()


async def test_unloading_waits_until_the_worker_has_done_it(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """The next model would be loaded into memory that is still full."""
    stranger = connect(fake)
    run = asyncio.create_task(stranger.run(SDXL, attempt := work(LONG), ignore))
    await running(fake, attempt.key)
    await comfy.unload(SDXL)
    assert fake.memory is None
    await run
    await stranger.aclose()
