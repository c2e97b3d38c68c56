"""Measures the memory of this machine's cards by who made them, and the machine's own memory.

`gpu: 0` and UUIDs are NVIDIA's and go to NVML; `amd:0`, or `amd:` with a PCI address, is read from the
files that Linux's driver amdgpu shows; `system` is the main memory, for servers without a card and for
Apple's processors, whose graphics use it. Linux shows it in a file; elsewhere psutil asks the system.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Protocol

from backends.hardware.driver_calls import DriverCalls
from backends.hardware.memory import MB, TIMEOUT_S, NvmlProbe
from queueing.core.catalog import HostSpec

SYSTEM, AMD = "system", "amd:"
_VENDOR = "0x1002"
_FIELD = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


class VirtualMemory(Protocol):
    """The part of psutil's answer that is used: bytes, of which `available` needs no swapping."""

    @property
    def total(self) -> int:
        """All there is."""

    @property
    def available(self) -> int:
        """What programs can be given."""


class CardMemory:
    """Implements `queueing.core.ports.MemoryProbe` for every kind; a failure never raises."""

    def __init__(
        self, nvidia: NvmlProbe, *, proc: Path = Path("/proc"), sys: Path = Path("/sys")
    ) -> None:
        self._nvidia = nvidia
        self._meminfo = proc / "meminfo"
        self._cards = sys / "class/drm"
        self._calls = DriverCalls(TIMEOUT_S)  # a card that hangs lets no one read its files either

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) in MB of what a host's `gpu` names; None if it cannot be measured."""
        card = host.gpu
        if card is None or is_nvidia(card):
            return await self._nvidia.free_mb(host)
        return await self._calls.try_to(_measuring(card), lambda: self._measure(card))

    def why_not(self, card: str) -> str:
        """Return why AMD's card or the main memory could not be measured last; "" if it could."""
        return self._calls.faults.get(_measuring(card), "")

    def _measure(self, card: str) -> tuple[int, int]:
        if card == SYSTEM:
            if not self._meminfo.exists():
                return _asked_memory()
            return _main_memory(self._meminfo.read_text(encoding="ascii"))
        device = self._device(card.removeprefix(AMD))
        total = int((device / "mem_info_vram_total").read_text(encoding="ascii"))
        used = int((device / "mem_info_vram_used").read_text(encoding="ascii"))
        return total // MB, max(0, total - used) // MB

    def _device(self, name: str) -> Path:
        """Return the folder of an AMD card, by its number among them or its PCI address."""
        if not self._cards.is_dir():
            raise ValueError("AMD cards are measured on Linux only, from the files of amdgpu")
        found = [each / "device" for each in sorted(self._cards.glob("card*"), key=_number)]
        ours = [device for device in found if _is_amd(device)]
        if name.isdecimal() and int(name) < len(ours):
            return ours[int(name)]
        by_address = {device.resolve().name: device for device in ours}
        if name in by_address:
            return by_address[name]
        known = ", ".join(by_address) or "none"
        raise ValueError(f"there is no such AMD card; found: {known}")


def _measuring(card: str) -> str:
    return f"measure the memory of {card}"


def is_nvidia(card: str) -> bool:
    """Return whether a name of a card is one of NVIDIA's: a number, or a UUID."""
    return card != SYSTEM and not card.startswith(AMD)


def _main_memory(text: str) -> tuple[int, int]:
    kb = {name: int(value) for name, value in _FIELD.findall(text)}
    if kb.keys() != {"MemTotal", "MemAvailable"}:
        raise ValueError("the system does not say how much memory there is")
    return kb["MemTotal"] // 1024, kb["MemAvailable"] // 1024


def _asked_memory() -> tuple[int, int]:
    """Return (total, free) in MB as psutil tells them, on macOS and Windows."""
    try:
        memory: VirtualMemory = import_module("psutil").virtual_memory()
    except ImportError:
        raise ValueError("psutil is not installed") from None
    return memory.total // MB, memory.available // MB


def _is_amd(device: Path) -> bool:
    try:
        return (device / "vendor").read_text(encoding="ascii").strip() == _VENDOR
    except OSError:  # an output of a card, such as card0-HDMI-A-1
        return False


def _number(card: Path) -> tuple[int, str]:
    digits = card.name.removeprefix("card")
    return (int(digits) if digits.isdecimal() else 1 << 30, card.name)
