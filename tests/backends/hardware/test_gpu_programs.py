"""Which processes on a GPU belong to whom: NVML's list compared with Linux's /proc."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from backends.hardware.gpu_memory import MB, NvmlProbe
from backends.hardware.gpu_programs import GpuPrograms
from queueing.core.ports import GpuLook
from queueing.core.specs import BackendSpec, HostSpec

COMFY = BackendSpec(name="comfy", kind="comfyui", url="http://127.0.0.1:8188")
STUDIO = BackendSpec(name="studio", kind="lmstudio", url="http://127.0.0.1:1234")
GPU = HostSpec(name="gpu", vram_mb=24000, backends=(COMFY, STUDIO), gpu="0")
LOADED = frozenset({"comfy"})


@dataclass
class OneGpu:
    """NVML with one GPU: its processes (pid, MB), and how busy it is."""

    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    busy: int | None = 30

    def nvmlInit(self) -> None:  # noqa: N802
        """Do nothing."""

    def nvmlShutdown(self) -> None:  # noqa: N802
        """Do nothing."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802
        return SimpleNamespace(total=1, free=1)

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:  # noqa: N802
        if self.busy is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=self.busy, memory=0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:  # noqa: N802
        return _processes(self.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> Any:  # noqa: N802
        return _processes(self.graphics)


def _processes(listed: list[tuple[int, int | None]]) -> list[Any]:
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=None if mb is None else mb * MB)
        for pid, mb in listed
    ]


class ProcTree:
    """A fake /proc: processes with their parents, and their listening ports."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        (proc / "net").mkdir()
        self._inode = 1000
        self._lines = ["  sl  local_address rem_address   st ..."]
        self._write()

    def _write(self) -> None:
        (self.proc / "net" / "tcp").write_text("\n".join(self._lines))

    def process(self, pid: int, parent: int = 1, *, name: str = "python (3)") -> None:
        (self.proc / str(pid) / "fd").mkdir(parents=True)
        (self.proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0")

    def listens(self, pid: int | None, port: int, *, uid: int = 99999) -> None:
        """Add a process that listens, or one whose sockets may not be read."""
        self._inode += 1
        fields = f"0: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 {uid} 0 {self._inode} 1"
        self._lines.append(fields)
        self._write()
        if pid is not None:
            (self.proc / str(pid) / "fd" / "7").symlink_to(f"socket:[{self._inode}]")


@pytest.fixture
def machine(tmp_path: Path) -> ProcTree:
    made = ProcTree(tmp_path)
    made.process(100)
    made.listens(100, 8188)
    made.process(200)
    made.process(201, 200, name="runner) of (LM")
    made.listens(200, 1234)
    made.process(300, name="game")
    return made


async def look(machine: ProcTree, gpu: OneGpu, loaded: frozenset[str] = LOADED) -> GpuLook | None:
    probe = NvmlProbe(nvml=gpu)
    try:
        return await GpuPrograms(probe, proc=machine.proc).use(GPU, loaded)
    finally:
        await probe.aclose()


async def test_servers_and_what_they_started_are_no_other_programs(machine: ProcTree) -> None:
    """Usher's own models would block its queue."""
    ours = OneGpu(compute=[(100, 9000), (201, 8000)], graphics=[(300, 200)])
    assert await look(machine, ours) == GpuLook(busy=0.3, others_mb=200)
    game = OneGpu(compute=[(100, 9000), (201, 8000)], graphics=[(300, 4000)])
    assert await look(machine, game) == GpuLook(busy=0.3, others_mb=4000)


async def test_a_process_in_both_lists_counts_once(machine: ProcTree) -> None:
    both = OneGpu(compute=[(100, 9000), (300, 700)], graphics=[(300, 700)])
    assert await look(machine, both) == GpuLook(busy=0.3, others_mb=700)


@pytest.mark.parametrize(
    "gpu",
    [OneGpu(), OneGpu(compute=[(100, None), (300, None)]), OneGpu(compute=[(300, 9000)])],
    ids=["a container without the machine's processes", "Windows", "a server in a container"],
)
async def test_where_processes_cannot_be_told_apart_nothing_is_said_of_them(
    machine: ProcTree, gpu: OneGpu
) -> None:
    """A model in a container would count as a game."""
    assert await look(machine, gpu) == GpuLook(busy=0.3)


async def test_a_server_of_another_account_is_known_by_that_account(machine: ProcTree) -> None:
    """Ollama runs as its own user, whose open files Usher cannot read."""
    port = 11434
    uid = (machine.proc / "300").stat().st_uid
    machine.listens(None, port, uid=uid)
    ollama = BackendSpec(name="ollama", kind="openai", url=f"http://localhost:{port}")
    probe = NvmlProbe(nvml=OneGpu(compute=[(300, 9000)]))
    host = HostSpec(name="gpu", vram_mb=24000, backends=(ollama,), gpu="0")
    use = await GpuPrograms(probe, proc=machine.proc).use(host, frozenset({"ollama"}))
    await probe.aclose()
    assert use == GpuLook(busy=0.3, others_mb=0)


async def test_a_gpu_elsewhere_and_one_that_cannot_tell_its_work(machine: ProcTree) -> None:
    probe = NvmlProbe(nvml=OneGpu(busy=None))
    programs = GpuPrograms(probe, proc=machine.proc)
    elsewhere = HostSpec(name="attic", vram_mb=24000, backends=(COMFY,))
    assert await programs.use(elsewhere, frozenset()) is None
    assert await programs.use(GPU, frozenset()) == GpuLook()
    await probe.aclose()


async def test_a_process_that_ends_during_the_look_is_no_servers(machine: ProcTree) -> None:
    gone = OneGpu(compute=[(100, 9000), (4242, 900)])
    assert await look(machine, gone) == GpuLook(busy=0.3, others_mb=900)
