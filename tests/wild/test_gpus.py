"""What NVIDIA's driver answers where something is wrong, and what becomes of it.

Each file of `gpus/` has the error of the `start` of NVML, of the `handle` of GPU 0 or of its
`memory`, or the `total_mb` it reports. `says` is what `usher check` is to say, and `init` what
`usher init` is to find: sizes, a `guess` for a GPU that is silent, `system` or `none`.
"""
# ruff: noqa: N802 - NVIDIA's names

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from backends.hardware.driver_faults import UNIFIED
from backends.hardware.gpu_memory import MB, GpuMemory, NvmlProbe
from bot.cli.init.hosts import gpus, why_silent
from queueing.core.specs import HostSpec

CASES = sorted(Path(__file__).with_name("gpus").glob("*.json"))
HOST = HostSpec(name="gpu-1", vram_mb=24_000, backends=(), gpu="0")


def read(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.read_text(encoding="utf-8"))
    return found


class OddNvml:
    """NVML with one GPU, which fails as a case says."""

    def __init__(self, odd: dict[str, Any]) -> None:
        self._odd = odd

    def _fail(self, call: str) -> None:
        if call in self._odd:
            raise pynvml.NVMLError(self._odd[call])

    def nvmlInit(self) -> None:
        self._fail("start")

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._fail("handle")
        if index > 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        self._fail("memory")
        total = self._odd.get("total_mb", 24_564) * MB
        return SimpleNamespace(total=total, free=total)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
async def test_the_check_says_what_the_driver_says_and_what_helps(case: Path) -> None:
    """An operator would install a driver that is there, where a restart is all that is needed."""
    odd = read(case)
    memory = GpuMemory(NvmlProbe(nvml=OddNvml(odd)))
    measured = await memory.free_mb(HOST)
    assert (measured is None) == bool(odd["says"])
    assert odd["says"] in memory.why_not("0")
    assert bool(memory.why_not("0")) == bool(odd["says"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
async def test_init_takes_the_main_memory_for_no_gpu_that_is_silent(case: Path) -> None:
    """Models would be planned into 125 GB of a GPU that has 24."""
    odd = read(case)
    make = partial(NvmlProbe, nvml=OddNvml(odd))
    found = await gpus(make)
    silent = "" if found else await why_silent(make)
    outcomes = {"": "none", UNIFIED: "system"}
    assert (list(found) or outcomes.get(silent, "guess")) == odd["init"]
