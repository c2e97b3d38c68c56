"""Requests that ComfyUI refuses or that fail there, over real sockets: how each is handled."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from backends.comfyui.backend import ComfyUI
from backends.comfyui.model_templates import read_templates
from backends.comfyui.workflow.graph.nodes import as_json
from queueing.core.errors import (
    BackendError,
    BadModel,
    Interrupted,
    ModelCrashed,
    OutOfMemory,
    Rejected,
    ShortOfMemory,
    Unavailable,
    UnreadableAnswer,
)
from queueing.core.requests import Capability, LoraWeight
from tests.backends.comfyui.drawing import LONG, SDXL, SMALL, drawn, idle, ignore, running, work
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.told import words

pytestmark = pytest.mark.parametrize("old", [False, True], ids=["0.33", "0.3.64"])


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (("KSampler", "torch.OutOfMemoryError", "CUDA out of memory"), OutOfMemory),
        (("KSampler", "MemoryError", ""), ShortOfMemory),
        (("KSampler", "RuntimeError", "CUDA error: illegal memory access"), ModelCrashed),
        (("KSampler", "RuntimeError", "shapes in /srv/comfy/x.py"), Rejected),
        (("CheckpointLoaderSimple", "FileNotFoundError", "/srv/comfy/models/x"), BadModel),
    ],
)
async def test_a_failing_node_calls_for_the_right_reaction(
    fake: FakeComfyUI, comfy: ComfyUI, failure: tuple[str, str, str], error: type[BackendError]
) -> None:
    """Memory would not be freed, or a broken model would be retried forever."""
    fake.faults.errors.append(failure)
    with pytest.raises(error) as caught:
        await drawn(comfy)
    assert type(caught.value) is error
    assert failure[1] in str(caught.value)
    assert "/srv" not in words(caught.value)
    assert len(await drawn(comfy)) == 1


async def test_a_lora_the_server_lacks_is_the_persons_mistake(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A typing mistake would be reported as a broken model."""
    with pytest.raises(Rejected) as caught:
        await drawn(
            comfy, attempt=work(SMALL.model_copy(update={"lora": (LoraWeight(name="nope"),)}))
        )
    assert words(caught.value) == "This server has no LoRA named nope; it has: ink."
    assert len(
        await drawn(
            comfy,
            attempt=work(
                SMALL.model_copy(update={"lora": (LoraWeight(name="sub/ink.safetensors"),)})
            ),
        )
    )


async def test_a_checkpoint_the_server_lacks_is_the_operators_mistake(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """People would be shown paths on the server, and jobs would be retried in vain."""
    with pytest.raises(BadModel) as caught:
        await comfy.run(model("gone.safetensors"), work(), ignore)
    assert "gone.safetensors" in str(caught.value)
    assert "gone" not in words(caught.value)


async def test_a_template_with_a_broken_output_fails_at_once(
    fake: FakeComfyUI, comfy: ComfyUI, tmp_path: Path
) -> None:
    """A prompt of which only part was accepted would run for nothing."""
    nodes = as_json(read_templates(SDXL).all[0].nodes)
    nodes["other"] = {"class_type": "SaveImage", "inputs": {"filename_prefix": ""}}
    own = tmp_path / "own.json"
    own.write_text(json.dumps(nodes))
    able = frozenset({Capability.TEXT_TO_IMAGE})
    spec = replace(SDXL, capabilities=able, options={"workflow": str(own)})
    with pytest.raises(BadModel, match=r"node other: Required input"):
        await comfy.run(spec, work(LONG), ignore)
    await idle(fake)


async def test_an_interrupt_by_somebody_else_is_tried_again(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A job interrupted at the server's page would hang or fail for good."""
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    fake._interrupt = True
    with pytest.raises(Interrupted):
        await run


async def test_garbage_is_never_more_than_a_failure(
    fake: FakeComfyUI, comfy: ComfyUI, subtests: pytest.Subtests
) -> None:
    """A proxy's error page would crash or hang the caller."""
    for path in [
        "/prompt",
        "/history",
        "/queue",
        "/api/jobs",
        "/view",
        "/system_stats",
        "/object_info",
    ]:
        with subtests.test(path=path):
            fake.faults.garbage = path
            for call in (drawn(comfy), comfy.probe(), comfy.discover(), comfy.loaded([SDXL])):
                try:
                    await asyncio.wait_for(call, 60)
                except (Unavailable, UnreadableAnswer):
                    continue
