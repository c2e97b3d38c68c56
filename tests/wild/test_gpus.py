"""What NVIDIA's driver answers where something is wrong, and what becomes of it.

Each file of `gpus/` has the error of the `start` of NVML, of the `handle` of GPU 0 or of its
`memory`, or the `total_mb` it reports. `says` is what `usher check` is to say, and `init` what
`usher init` is to find: sizes, a `guess` for a GPU that is silent, `system` or `none`.

Each file of `several_gpus/` has the `sizes` of a machine's GPUs in MB and a `server` on it. `uses`
are the GPUs that `init` gives it, perhaps as a `guess`, and `says` is what the check says if the
server is `configured` for one.

Each file of `amd/` has the files of a machine's `cards`, with the size and revisions of the table
`gpu_metrics`, and the `available_mb` of its main memory. `measures` are the total and free memory of
a `gpu`, or null with what the check `says`. `init` are the sizes that `usher init` finds.
"""
# ruff: noqa: N802 - NVIDIA's names

import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from backends.hardware.gpu_memory import MB, UNIFIED, GpuMemory, NvmlProbe
from backends.hardware.gpu_sizes import seen_by_server
from bot.cli.init import files
from bot.cli.init.hosts import OwnMemory, amd_gpus, gpus, hosts, why_silent
from bot.cli.init.scan import HERE, FoundServer
from bot.cli.init.terminal import NoQuestions
from queueing.core.catalog import Catalog
from queueing.core.specs import BackendSpec, HostSpec
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("gpus")
AMDS = cases("amd")
SEVERAL = cases("several_gpus")
HOST = HostSpec(name="gpu-1", vram_mb=24_000, backends=(), gpu="0")


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


@in_turn("case", CASES)
async def test_the_check_says_what_the_driver_says_and_what_helps(case: Path) -> None:
    """An operator would install a driver that exists, where only a restart is needed."""
    odd = read_case(case)
    memory = GpuMemory(NvmlProbe(nvml=OddNvml(odd)))
    measured = await memory.free_mb(HOST)
    assert (measured is None) == bool(odd["says"])
    assert odd["says"] in memory.why_not("0")
    assert bool(memory.why_not("0")) == bool(odd["says"])


@in_turn("case", CASES)
async def test_init_takes_the_main_memory_for_no_gpu_that_is_silent(case: Path) -> None:
    """Models would be planned into 125 GB of a GPU that has 24."""
    odd = read_case(case)
    make = partial(NvmlProbe, nvml=OddNvml(odd))
    found = await gpus(make)
    silent = "" if found else await why_silent(make)
    outcomes = {"": "none", UNIFIED: "system"}
    assert (list(found) or outcomes.get(silent, "guess")) == odd["init"]


@in_turn("case", SEVERAL)
def test_init_gives_a_server_the_gpu_whose_memory_it_reports(case: Path) -> None:
    """Models for a small GPU would be planned on a large one, and fail one by one."""
    odd = read_case(case)
    server = FoundServer(url=f"http://{HERE}:1", **odd["server"])
    (plan,) = hosts([server], OwnMemory(gpus=tuple(odd["sizes"])), NoQuestions())
    uses = plan.uses.get(server.called) or [int(plan.gpu or "")]
    assert (list(uses), server.called in plan.guessed) == (odd["uses"], odd["guess"])
    assert any("a guess" in line for line in files._hosts([plan])) == odd["guess"]


@pytest.mark.parametrize(
    "case",
    [case for case in SEVERAL if "configured" in read_case(case)],
    ids=lambda case: case.stem,
)
def test_the_check_notices_a_server_on_another_gpu(case: Path) -> None:
    """CUDA counts GPUs in another order than the driver, and nothing would compare them."""
    odd = read_case(case)
    spec = BackendSpec(name="server", kind=odd["server"]["kind"])
    machine = [
        HostSpec(
            name=f"gpu-1/{number}",
            machine="gpu-1",
            vram_mb=mb,
            gpu=str(number),
            backends=(spec,) if number == odd["configured"] else (),
        )
        for number, mb in enumerate(odd["sizes"])
    ]
    said = seen_by_server(Catalog([], machine), "server", odd["server"]["total_mb"])
    assert odd["says"] in said
    assert bool(said) == bool(odd["says"])


@in_turn("case", AMDS)
async def test_amds_files_say_how_much_memory_models_may_take(case: Path, tmp_path: Path) -> None:
    """A processor with 96 GB for models would be regarded as a GPU of 512 MB."""
    odd = read_case(case)
    (root := tmp_path / case.stem).mkdir()
    _write_files(odd, root)
    memory = GpuMemory(NvmlProbe(), proc=root / "proc", sys=root / "sys")
    measured = await memory.free_mb(replace(HOST, gpu=odd["gpu"]))
    assert measured == (odd["measures"] and tuple(odd["measures"]))
    assert odd.get("says", "") in memory.why_not(odd["gpu"])
    assert bool(memory.why_not(odd["gpu"])) == ("says" in odd)
    assert list(amd_gpus(root / "sys", root / "proc")) == odd["init"]


def _write_files(odd: dict[str, Any], root: Path) -> None:
    """Write the files of a machine's drivers, as Linux shows them."""
    (root / "proc").mkdir()
    meminfo = f"MemTotal: 131000000 kB\nMemAvailable: {odd['available_mb'] * 1024} kB\n"
    (root / "proc/meminfo").write_text(meminfo, encoding="ascii")
    for folder in ("class/drm", "bus/pci/devices"):
        (root / "sys" / folder).mkdir(parents=True)
    for number, (card, shown) in enumerate(odd["cards"].items(), start=3):
        device = root / f"sys/bus/pci/devices/0000:{number:02}:00.0"
        device.mkdir()
        (device / "class").write_text("0x030000\n", encoding="ascii")
        for name, content in shown.items():
            if isinstance(content, str):
                (device / name).write_text(content, encoding="ascii")
            else:
                (device / name).write_bytes(struct.pack("<HBB", *content) if content else b"\0")
        (root / "sys/class/drm" / card).mkdir()
        (root / "sys/class/drm" / card / "device").symlink_to(device)
