"""Two servers on one GPU, each a separate process: never both loaded, nothing cut short.

The GPU is a file (`tests.fakes.gpu`); taking more than is left runs out of memory as on a real GPU,
which reveals a queue that miscounts or does not wait for freed memory.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from queueing.core.jobs import JobState
from queueing.core.ports import MemoryProbe
from queueing.core.snapshot import WaitCause
from queueing.core.specs import HostSpec
from tests.fakes.gpu import SharedGpu
from tests.fakes.process import serving
from tests.processes.installation import (
    CHECKPOINT,
    Installation,
    backend,
    image,
    image_model,
    installation,
    text,
    text_model,
    told,
    until,
)

TOTAL_MB = 24_000


class FileProbe:
    """Measures the GPU as NVML does: what is free in total right now."""

    def __init__(self, gpu: SharedGpu) -> None:
        self._gpu = gpu

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        return self._gpu.total_mb, self._gpu.free_mb


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queueing.engine.health_checker.EVERY_S", 0.3)
    monkeypatch.setattr("queueing.engine.loader.ROOM_POLL_S", 0.05)


@pytest.fixture
def gpu(tmp_path: Path) -> SharedGpu:
    return SharedGpu.make(tmp_path / "gpu.json", TOTAL_MB)


@asynccontextmanager
async def two_servers(
    folder: Path, *, qwen_mb: int, qwen_believed_mb: int, memory: MemoryProbe | None
) -> AsyncIterator[tuple[Installation, str, str]]:
    """Run ComfyUI and LM Studio on the GPU and a queue in front of them."""
    shared = ("--gpu", str(folder / "gpu.json"), "--load-s", "0.3", "--lingers-s", "0.4")
    async with (
        serving(
            "comfyui",
            *(*shared, "--size", f"{CHECKPOINT}=14000"),
            *("--step-s", "0.02"),
        ) as comfy,
        serving("lmstudio", *shared, "--size", f"qwen={qwen_mb}", "--step-s", "0.02") as studio,
    ):
        servers = (backend("comfyui", "comfy", comfy), backend("lmstudio", "studio", studio))
        host = HostSpec(name="gpu", vram_mb=TOTAL_MB, backends=servers)
        models = [
            image_model("sdxl", "comfy", vram_mb=14_000),
            text_model("qwen", "studio", vram_mb=qwen_believed_mb),
        ]
        async with installation(folder, [host], models, memory=memory) as running:
            yield running, comfy, studio


def ooms(gpu: SharedGpu) -> list[str]:
    return [what for _, what, _ in gpu.log if what.startswith("oom")]


@pytest.mark.parametrize("measured", [True, False], ids=["GPU measured", "no NVML"])
async def test_two_servers_of_one_gpu_take_turns(
    tmp_path: Path, gpu: SharedGpu, *, measured: bool
) -> None:
    """ComfyUI and LM Studio on one GPU would crash each other, or cut answers short."""
    memory = FileProbe(gpu) if measured else None
    async with two_servers(tmp_path, qwen_mb=12_000, qwen_believed_mb=12_000, memory=memory) as (
        running,
        comfy,
        studio,
    ):
        jobs = []
        for _ in range(2):
            jobs += await running.submit(image("sdxl"), text("qwen"), text("qwen"))
            await running.ends.of(jobs[-1:])
        ended = await running.ends.of(jobs)
        assert [job.state for job in ended] == [JobState.COMPLETED] * 6
        assert [job.attempt for job in ended] == [1] * 6, "nothing had to be tried again"
        assert not ooms(gpu)
        assert all(len(held) <= 1 for _, _, held in gpu.log), "never both loaded"
        assert len([what for _, what, _ in gpu.log if what.startswith("take")]) >= 3
        assert (await told(studio))["cut_short"] == 0
        assert not (await told(comfy))["interrupts"]


async def test_a_load_that_runs_out_of_memory_is_tried_on_an_emptied_gpu(
    tmp_path: Path, gpu: SharedGpu
) -> None:
    """A model larger than expected could never be loaded beside another."""
    async with two_servers(tmp_path, qwen_mb=12_000, qwen_believed_mb=4_000, memory=None) as (
        running,
        comfy,
        _,
    ):
        await running.done(image("sdxl"))
        (answer,) = await running.done(text("qwen"))
        assert answer.state is JobState.COMPLETED
        assert ooms(gpu) == ["oom lmstudio:qwen"], "found out once, not in a loop"
        assert (await told(comfy))["memory"] is None


async def test_another_program_on_the_gpu_shrinks_the_budget_and_nothing_fails(
    tmp_path: Path, gpu: SharedGpu
) -> None:
    """A game on the GPU would make people's jobs fail instead of wait."""
    async with two_servers(
        tmp_path, qwen_mb=12_000, qwen_believed_mb=12_000, memory=FileProbe(gpu)
    ) as (running, _, _):
        gpu.take("game", 15_000)

        async def seen() -> bool:
            (host,) = running.queue.status.snapshot().hosts
            return host.usable_mb < 12_000

        await until(seen)
        (job,) = await running.submit(text("qwen"))

        async def waits() -> bool:
            standing = (await running.queue.status.standings([job]))[job.id]
            return standing.reason is not None and standing.reason.why is WaitCause.NO_ROOM

        await until(waits)
        assert not running.ends.by_id
        gpu.give("game")
        (ended,) = await running.ends.of([job])
        assert (ended.state, ended.attempt) == (JobState.COMPLETED, 1)
        assert not ooms(gpu)
