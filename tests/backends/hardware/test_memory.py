"""Measuring GPUs through NVML, against a fake of its module."""
# ruff: noqa: N802 - NVIDIA's names

import asyncio
import logging
import threading
from types import SimpleNamespace

import pynvml
import pytest

from backends.hardware.gpu_memory import NvmlProbe
from queueing.core.specs import HostSpec
from tests.patience import runs_out

GB = 1024**3
UUID = "GPU-11111111-2222-3333-4444-555555555555"


class FakeNvml:
    """Two GPUs; `fault` is raised by the next measurements, `hang` blocks them."""

    def __init__(self) -> None:
        self.started = 0
        self.fault: int | None = None
        self.init_fault: int | None = None
        self.hang: threading.Event | None = None

    def nvmlInit(self) -> None:
        if self.init_fault is not None:
            raise pynvml.NVMLError(self.init_fault)
        self.started += 1

    def nvmlShutdown(self) -> None:
        self.started -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index > 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        assert uuid == UUID
        return 1

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        if self.hang:
            self.hang.wait(10)
        if self.fault is not None:
            raise pynvml.NVMLError(self.fault)
        return SimpleNamespace(total=(24 + handle) * GB, free=(20 - handle) * GB)


def host(gpu: str | None) -> HostSpec:
    return HostSpec(name="h", vram_mb=24000, backends=(), gpu=gpu)


async def test_a_gpu_is_measured_by_index_and_by_uuid() -> None:
    """A host would be planned with another GPU's memory."""
    probe = NvmlProbe(nvml=FakeNvml())
    assert await probe.free_mb(host("0")) == (24 * 1024, 20 * 1024)
    assert await probe.free_mb(host(UUID)) == (25 * 1024, 19 * 1024)
    assert await probe.free_mb(host(None)) is None
    await probe.aclose()


async def test_without_a_driver_nothing_is_measured_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A machine without a GPU would not start, or its log would fill."""
    nvml = FakeNvml()
    nvml.init_fault = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    probe = NvmlProbe(nvml=nvml)
    with caplog.at_level(logging.WARNING):
        assert [await probe.free_mb(host("0")) for _ in range(3)] == [None, None, None]
    assert len(caplog.records) == 1
    await probe.aclose()
    assert nvml.started == 0


async def test_an_unknown_gpu_does_not_disturb_the_others() -> None:
    """One wrong index in the configuration would prevent all measurements."""
    probe = NvmlProbe(nvml=FakeNvml())
    assert await probe.free_mb(host("7")) is None
    assert await probe.free_mb(host("0")) is not None
    await probe.aclose()


@pytest.mark.parametrize("fault", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
async def test_a_gpu_that_was_lost_is_found_again(fault: int) -> None:
    """A GPU that came back would stay unmeasured until a restart."""
    nvml = FakeNvml()
    probe = NvmlProbe(nvml=nvml)
    assert await probe.free_mb(host("0")) is not None
    nvml.fault = fault
    assert await probe.free_mb(host("0")) is None
    assert nvml.started == 0
    nvml.fault = None
    assert await probe.free_mb(host("0")) is not None
    assert nvml.started == 1
    await probe.aclose()
    await probe.aclose()
    assert nvml.started == 0


async def test_a_hung_driver_costs_one_timeout_and_one_thread() -> None:
    """A faulty GPU would freeze the queue, or take one more thread with each measurement."""
    nvml = FakeNvml()
    probe = NvmlProbe(nvml=nvml, timeout_s=60.0)
    assert await probe.free_mb(host("0")) is not None
    nvml.hang = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        runs_out(patch, probe._calls, "_timeout_s")
        assert [await probe.free_mb(host("0")) for _ in range(5)] == [None] * 5
    assert [thread.name for thread in threading.enumerate()].count("driver") == 1
    (hung,) = (thread for thread in threading.enumerate() if thread.name == "driver")
    nvml.hang.set()
    await asyncio.to_thread(hung.join, 60)
    assert await probe.free_mb(host("0")) is not None
    await probe.aclose()
