"""Detects other programs that use this machine's GPUs, with NVML's process list and /proc.

A process belongs to a server if it listens on the server's port, or descends from the process that
does. Both are read from Linux's /proc. No programs are reported on other systems, in a container
that cannot see the host's processes, or if a server with a loaded model has no process on the GPU.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pynvml

from backends.hardware.gpu_memory import MB, NvmlProbe, is_nvidia
from queueing.core.ports import GpuLook
from queueing.core.specs import BackendSpec, HostSpec

log = logging.getLogger(__name__)

LISTENING = "0A"
_USUAL_PORTS = {"http": 80, "https": 443}
_DEPTH = 32  # levels of parent processes


@dataclass(frozen=True, slots=True)
class PortOwner:
    """The processes that listen on a port, if they are visible, and their user."""

    pids: frozenset[int]
    uid: int | None


class GpuPrograms:
    """Implements `queueing.core.ports.GpuWatch` with NVML and /proc."""

    def __init__(self, probe: NvmlProbe, *, proc: Path = Path("/proc")) -> None:
        self._probe = probe
        self._proc = proc

    async def use(self, host: HostSpec, loaded: frozenset[str]) -> GpuLook | None:
        """Return the use of the host's GPU; None if it has no NVIDIA GPU or the query fails."""
        if host.gpu is None or not is_nvidia(host.gpu):
            return None
        return await self._probe.ask(
            host.gpu, lambda nvml, handle: self._look(nvml, handle, host, loaded)
        )

    def _look(self, nvml: Any, handle: Any, host: HostSpec, loaded: Collection[str]) -> GpuLook:
        busy = None
        with suppress(pynvml.NVMLError):
            busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        held = _held_mb(nvml, handle)
        if not held:
            return GpuLook(busy=busy)
        listeners = _listeners(self._proc, [_port(spec) for spec in host.backends])
        owners = {pid: self._owner(pid, host.backends, listeners) for pid in held}
        if not set(loaded) <= set(owners.values()):
            return GpuLook(
                busy=busy
            )  # a server's unseen process could otherwise count as another program
        others = {pid: mb for pid, mb in held.items() if owners[pid] is None}
        return GpuLook(busy=busy, others_mb=max(others.values(), default=0))

    def _owner(
        self, pid: int, backends: Iterable[BackendSpec], listeners: Mapping[int, PortOwner]
    ) -> str | None:
        """Return the host's server that a process belongs to, or None."""
        family = [pid, *_parents(self._proc, pid)]
        for spec in backends:
            listener = listeners.get(_port(spec) or 0)
            if listener is None:
                continue
            same = not listener.pids and listener.uid == _uid(self._proc, pid)
            if same or not listener.pids.isdisjoint(family):
                return spec.name
        return None


def _held_mb(nvml: Any, handle: Any) -> dict[int, int]:
    """Return the memory in MB of every process on a GPU; empty if any is unknown."""
    held: dict[int, int] = {}
    for ask in (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        try:
            processes = ask(handle)
        except pynvml.NVMLError:
            return {}
        for process in processes:
            if process.usedGpuMemory is None:
                return {}  # Windows does not report memory per process
            mb = int(process.usedGpuMemory) // MB
            held[process.pid] = max(held.get(process.pid, 0), mb)  # may be in both lists
    return held


def _port(spec: BackendSpec) -> int | None:
    parts = urlsplit(spec.url)
    return parts.port or _USUAL_PORTS.get(parts.scheme)


def _listeners(proc: Path, ports: Iterable[int | None]) -> dict[int, PortOwner]:
    """Return the listeners on these ports of this machine."""
    sockets = {inode: (port, uid) for port, inode, uid in _sockets(proc) if port in set(ports)}
    pids: dict[int, set[int]] = {port: set() for port, _ in sockets.values()}
    uids: dict[int, int] = dict(sockets.values())
    for pid, inode in _open_sockets(proc) if sockets else ():
        if inode in sockets:
            pids[sockets[inode][0]].add(pid)
    return {port: PortOwner(frozenset(found), uids[port]) for port, found in pids.items()}


def _sockets(proc: Path) -> Iterator[tuple[int, str, int]]:
    """Yield port, inode and user of every listening TCP socket."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTENING:
                yield int(fields[1].rpartition(":")[2], 16), fields[9], int(fields[7])


def _open_sockets(proc: Path) -> Iterator[tuple[int, str]]:
    """Yield each process with the inode of each of its sockets, as far as they are readable."""
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):
            for file in (folder / "fd").iterdir():
                target = str(file.readlink())
                if target.startswith("socket:["):
                    yield int(folder.name), target[8:-1]


def _parents(proc: Path, pid: int) -> Iterator[int]:
    for _ in range(_DEPTH):
        try:
            told = (proc / str(pid) / "stat").read_text()
            pid = int(told.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        if pid <= 1:
            return
        yield pid


def _uid(proc: Path, pid: int) -> int | None:
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None
