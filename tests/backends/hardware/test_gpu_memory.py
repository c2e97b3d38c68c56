"""The memory of GPUs that are not NVIDIA's, and of the machine itself, from the files Linux shows."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from backends.hardware.gpu_memory import GpuMemory, NvmlProbe, is_nvidia
from queueing.core.specs import HostSpec
from tests.patience import runs_out

HOST = HostSpec(name="gpu-1", vram_mb=24000, backends=())
MEMINFO = """\
MemTotal:       65776300 kB
MemFree:         1291528 kB
MemAvailable:   48120108 kB
Buffers:          602072 kB
Cached:         45094664 kB
"""
RADEON = {
    "vendor": "0x1002\n",
    "mem_info_vram_total": "25753026560\n",
    "mem_info_vram_used": "1173204992\n",
}
OTHER = {"vendor": "0x10de\n"}


@pytest.fixture
def probe(tmp_path: Path) -> GpuMemory:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    drm = tmp_path / "sys/class/drm"
    drm.mkdir(parents=True)
    (drm / "card1-HDMI-A-1").mkdir()
    gpus = {"card0": ("0000:01:00.0", OTHER), "card1": ("0000:03:00.0", RADEON)}
    smaller = RADEON | {"mem_info_vram_total": "8573157376\n", "mem_info_vram_used": "0\n"}
    for name, (address, files) in (gpus | {"card10": ("0000:0b:00.0", smaller)}).items():
        _gpu(tmp_path, drm / name, address, files)
    return GpuMemory(NvmlProbe(), proc=tmp_path / "proc", sys=tmp_path / "sys")


def _gpu(root: Path, gpu: Path, address: str, files: Mapping[str, str]) -> None:
    device = root / "sys/devices" / address
    device.mkdir(parents=True)
    for name, text in files.items():
        (device / name).write_text(text)
    gpu.mkdir()
    (gpu / "device").symlink_to(device)


@pytest.mark.parametrize(
    ("gpu", "found"),
    [
        ("amd:0", (24560, 23441)),
        ("amd:1", (8176, 8176)),
        ("amd:0000:03:00.0", (24560, 23441)),
        ("system", (64234, 46992)),
    ],
)
async def test_total_and_free_are_what_the_system_shows(
    probe: GpuMemory, gpu: str, found: tuple[int, int]
) -> None:
    """A game on a Radeon, or a build in main memory, would go unnoticed until a load fails."""
    assert await probe.free_mb(replace(HOST, gpu=gpu)) == found


@pytest.mark.parametrize("gpu", ["amd:2", "amd:0000:01:00.0", "amd:first"])
async def test_a_gpu_that_is_not_there_is_told_once_with_those_that_are(
    probe: GpuMemory, gpu: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator would have to guess names, and the log would grow every ten seconds."""
    with caplog.at_level(logging.WARNING):
        assert await probe.free_mb(replace(HOST, gpu=gpu)) is None
        assert await probe.free_mb(replace(HOST, gpu=gpu)) is None
    (record,) = caplog.records
    assert "found: 0000:03:00.0, 0000:0b:00.0" in record.getMessage()


async def test_a_system_without_these_files_has_nothing_to_measure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue would not run where a library is missing."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    probe = GpuMemory(NvmlProbe(), proc=tmp_path, sys=tmp_path)
    for gpu in ("system", "amd:0"):
        assert await probe.free_mb(replace(HOST, gpu=gpu)) is None
    (tmp_path / "meminfo").write_text("MemTotal: much\n")
    assert await probe.free_mb(replace(HOST, gpu="system")) is None
    assert len(caplog.records) == 3


async def test_main_memory_is_asked_for_where_no_file_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a Mac, memory that other programs use would go unnoticed."""
    psutil = ModuleType("psutil")
    shown = SimpleNamespace(total=64 * 2**30, available=21 * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: shown, raising=False)
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    probe = GpuMemory(NvmlProbe(), proc=tmp_path, sys=tmp_path)
    assert await probe.free_mb(replace(HOST, gpu="system")) == (64 * 1024, 21 * 1024)


def test_numbers_and_uuids_are_nvidias() -> None:
    """After an update of Usher, a GPU that is configured this way would no longer be measured."""
    assert is_nvidia("0")
    assert is_nvidia("GPU-8f1e27c9-a7f0-4d2a-b16f-0d3c5e9b7a61")
    assert not is_nvidia("amd:0")
    assert not is_nvidia("system")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
async def test_a_gpu_that_hangs_takes_one_thread_and_none_of_the_others(
    probe: GpuMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few measurements all of the few threads would hang, and no image could be read."""
    file = tmp_path / "sys/class/drm/card1/device/mem_info_vram_total"
    file.unlink()
    os.mkfifo(file)  # opening it waits until another program writes to it
    runs_out(monkeypatch, probe._calls, "_timeout_s")
    assert [await probe.free_mb(replace(HOST, gpu="amd:0")) for _ in range(9)] == [None] * 9
    assert "does not answer" in probe.why_not("amd:0")
    (hung,) = (thread for thread in threading.enumerate() if thread.name == "driver")
    assert await asyncio.to_thread(int, "1") == 1
    await asyncio.to_thread(file.write_text, "")
    await asyncio.to_thread(hung.join)
