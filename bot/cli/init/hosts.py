"""Groups servers into hosts: servers on one machine share its memory, measured where possible."""

import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from backends.hardware.amd_gpus import sizes_mb
from backends.hardware.gpu_memory import NO_DRIVER, NO_SUCH_GPU, SYSTEM, NvmlProbe
from backends.hardware.gpu_sizes import gpu_of_size
from bot.cli.init.scan import HERE, FoundServer
from bot.cli.init.terminal import Terminal, ask_for
from bot.config.reading.values import Megabytes
from queueing.core.specs import HostSpec

GPUS_MOST = 16
MB = 1024 * 1024
_DISPLAY = "0x03"  # the class of PCI display devices
_NVIDIA = frozenset({"0x10de"})
_MAKERS = _NVIDIA | {"0x1002", "0x8086", "0x1414"}
"""NVIDIA, AMD, Intel, and Microsoft for the GPU that WSL passes through."""
_INTEGRATED = "0000:00:02.0"  # the address of Intel's integrated graphics


async def gpus(make: Callable[[], NvmlProbe] = NvmlProbe) -> tuple[int, ...]:
    """Return the memory of each GPU on this machine in MB, in NVIDIA's order."""
    probe = make()
    found: list[int] = []
    try:
        for number in range(GPUS_MOST):
            host = HostSpec(name="", vram_mb=0, backends=(), gpu=str(number))
            if (measured := await probe.free_mb(host)) is None:
                break
            found.append(measured[0])
    finally:
        await probe.aclose()
    return tuple(found)


async def why_silent(make: Callable[[], NvmlProbe] = NvmlProbe) -> str:
    """Return why NVIDIA's driver measures no GPU although it is installed, or ""."""
    probe = make()
    try:
        measured = await probe.free_mb(HostSpec(name="", vram_mb=0, backends=(), gpu="0"))
    finally:
        await probe.aclose()
    why = probe.why_not("0")
    return "" if measured or why in {NO_DRIVER, NO_SUCH_GPU} else why


def machine_mb() -> int | None:
    """Return this machine's memory in MB; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MB
    except (AttributeError, ValueError, OSError):  # for example on Windows
        return None


def gpuless(
    system: str = platform.system(), machine: str = platform.machine(), sys: Path = Path("/sys")
) -> bool:
    """Return whether graphics, if any, use this machine's main memory, as on Apple's processors.

    False if unknown: the memory of a GPU that nothing measures is not the main memory.
    """
    if system == "Darwin":
        return machine == "arm64"
    try:
        return system == "Linux" and not any(map(_is_gpu, (sys / "bus/pci/devices").iterdir()))
    except OSError:
        return False


def _is_gpu(device: Path, makers: Collection[str] = _MAKERS) -> bool:
    if not (device / "class").read_text(encoding="ascii").startswith(_DISPLAY):
        return False
    vendor = (device / "vendor").read_text(encoding="ascii").strip()
    return vendor in makers and device.name != _INTEGRATED


def size(mb: int) -> str:
    """Return a size as written in a configuration: 24564 MB is 24GB."""
    return f"{mb}MB" if mb < 1024 else f"{round(mb / 1024, 1):g}GB"


def amd_gpus(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Return the memory of each AMD GPU on this machine in MB, in the order of `amd:0` and so on.

    Empty if there is an NVIDIA GPU: servers use that one, even if its driver is out of reach here.
    """
    try:
        others = (sys / "bus/pci/devices").iterdir()
        if any(_is_gpu(device, _NVIDIA) for device in others):
            return ()
    except OSError:
        pass  # not Linux, or hidden in a container
    return sizes_mb(sys / "class/drm", proc / "meminfo")


GUESS_MB = 8 * 1024
_SPANNING = frozenset({"llamacpp", "llamacpp-router", "ollama"})
"""Text servers that, like LM Studio, use every visible GPU by default."""

_SIZE: TypeAdapter[int] = TypeAdapter(Megabytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPlan:
    """A host to write: its memory, the source of that figure, and its servers by name.

    If the servers use several GPUs, `gpus` are the sizes of those GPUs by number, and `uses` are
    the GPUs of each server. `maker` precedes a number in the setting `gpu`. The GPUs of servers in
    `guessed` are neither known nor confirmed.
    """

    name: str
    vram: str
    why: str
    gpu: str | None = None
    servers: tuple[tuple[str, FoundServer], ...] = ()
    gpus: Mapping[int, str] = field(default_factory=dict)
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()
    maker: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnMemory:
    """This machine's memory in MB: that of its GPUs by number, and its main memory.

    `maker` is "amd:" for AMD's GPUs. `gpuless` means that models can only be in main memory;
    otherwise main memory is never taken for a GPU's. `unified` means that a GPU shares it.
    """

    gpus: tuple[int, ...] = ()
    machine_mb: int | None = None
    gpuless: bool = False
    unified: bool = False
    maker: str = ""

    def watched(self, vram_mb: int, *, cuda: bool = False) -> str | None:
        """Return the `gpu` setting for a host here; None if models are in a GPU's memory.

        A CUDA GPU that is smaller than the main memory is in another machine, for example behind a
        tunnel, unless the GPU of this machine shares the main memory.
        """
        if not self.gpuless or self.machine_mb is None:
            return None
        least_mb = self.machine_mb * 0.95 if cuda and not self.unified else 0
        return SYSTEM if least_mb <= vram_mb <= self.machine_mb * 1.05 else None


def hosts(found: Sequence[FoundServer], own: OwnMemory, terminal: Terminal) -> tuple[HostPlan, ...]:
    """Return the hosts of these servers."""
    machines = list(dict.fromkeys(server.machine for server in found))
    machines.sort(key=lambda machine: machine != HERE)
    named = dict(_named(found))
    return tuple(
        _host(machine, f"gpu-{number}", named, own, terminal)
        for number, machine in enumerate(machines, start=1)
    )


def _named(found: Sequence[FoundServer]) -> Iterator[tuple[FoundServer, str]]:
    """Yield each server with a unique name."""
    taken: set[str] = set()
    for server in found:
        name, number = server.called, 2
        while name in taken:
            name, number = f"{server.called}-{number}", number + 1
        taken.add(name)
        yield server, name


def _host(
    machine: str,
    name: str,
    named: dict[FoundServer, str],
    own: OwnMemory,
    terminal: Terminal,
) -> HostPlan:
    servers = tuple((named[server], server) for server in named if server.machine == machine)
    told_mb = max((server.total_mb or 0 for _, server in servers), default=0)
    cuda = any(server.cuda for _, server in servers)
    if machine == HERE and own.gpus:
        return _on_gpus(name, servers, own, terminal)
    if told_mb:
        return HostPlan(
            name=name,
            vram=size(told_mb),
            why="reported by its server",
            gpu=own.watched(told_mb, cuda=cuda) if machine == HERE else None,
            servers=servers,
        )
    if machine == HERE and own.machine_mb and own.gpuless:
        usual, why = own.machine_mb, "this machine's memory: no GPU was measured"
    else:
        usual, why = GUESS_MB, "a guess: enter its GPU memory here"
    where = "this machine" if machine == HERE else machine
    of = "Memory for models on" if machine == HERE and own.gpuless else "Memory of the GPU of"
    question = f"{of} {where}, such as 24GB"
    size_mb = ask_for(terminal, question, size(usual), _size)
    if size(size_mb) != size(usual) or terminal.asks:
        why = "as you said"
    gpu = own.watched(size_mb) if machine == HERE else None
    return HostPlan(name=name, vram=size(size_mb), why=why, gpu=gpu, servers=servers)


def _size(answer: str) -> int:
    try:
        return _SIZE.validate_python(answer)
    except ValidationError:
        raise ValueError("It must be a size with its unit, such as 24GB.") from None


def _on_gpus(
    name: str,
    servers: tuple[tuple[str, FoundServer], ...],
    own: OwnMemory,
    terminal: Terminal,
) -> HostPlan:
    """Return this machine with one GPU if all servers use the same, else with all used GPUs."""
    sizes = own.gpus
    if len(sizes) > 1:
        listed = ", ".join(f"{number} ({size(mb)})" for number, mb in enumerate(sizes))
        terminal.tell(f"This machine has {len(sizes)} GPUs: {listed}.")
    uses = {called: _used(called, server, sizes, terminal) for called, server in servers}
    guessed = frozenset(
        called
        for called, server in servers
        if len(sizes) > 1 and not terminal.asks and _told(server, sizes) is None
    )
    used = sorted({number for gpus in uses.values() for number in gpus})
    if len(used) == 1:
        vram = size(sizes[used[0]])
        return HostPlan(
            name=name,
            vram=vram,
            why="measured",
            gpu=f"{own.maker}{used[0]}",
            servers=servers,
            guessed=guessed,
        )
    return HostPlan(
        name=name,
        vram="",
        why="measured",
        servers=servers,
        gpus={number: size(sizes[number]) for number in used},
        uses=uses,
        guessed=guessed,
        maker=own.maker,
    )


def _told(server: FoundServer, sizes: Sequence[int]) -> int | None:
    """Return the GPU whose size a server reports; None if that is ambiguous."""
    return None if _spans(server) else gpu_of_size(server.total_mb, dict(enumerate(sizes)))


def _spans(server: FoundServer) -> bool:
    return server.kind == "lmstudio" or server.flavour in _SPANNING


def _used(
    called: str, server: FoundServer, sizes: Sequence[int], terminal: Terminal
) -> tuple[int, ...]:
    """Return the GPUs a server uses: the answer, or by default what its kind or size suggests."""
    if len(sizes) == 1:
        return (0,)

    def read(answer: str) -> tuple[int, ...]:
        parts = [part.strip() for part in answer.split(",")]
        if not all(part.isdecimal() and int(part) < len(sizes) for part in parts):
            raise ValueError(f"It must be numbers from 0 to {len(sizes) - 1}, such as 0 or 0, 1.")
        return tuple(sorted({int(part) for part in parts}))

    everyone = range(len(sizes))
    told = _told(server, sizes)
    largest = max(everyone, key=lambda number: sizes[number])
    usual = everyone if _spans(server) else (largest if told is None else told,)
    question = f"Which of them does {called} use, such as 0 or 0, 1"
    return ask_for(terminal, question, ", ".join(map(str, usual)), read)
