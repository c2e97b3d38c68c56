"""Measures what models may fill here: NVIDIA's cards, else the machine's own memory."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

from backends.hardware.memory import NvmlProbe
from queueing.core.catalog import HostSpec

CARDS_MOST = 16
MB = 1024 * 1024
_DISPLAY = "0x03"  # the class of PCI devices that draw
_MAKERS = frozenset({"0x10de", "0x1002", "0x8086", "0x1414"})
"""NVIDIA, AMD, Intel, and Microsoft for the card that WSL passes on."""
_INTEGRATED = "0000:00:02.0"  # where Intel's processors have the graphics of their own


async def cards(make: Callable[[], NvmlProbe] = NvmlProbe) -> tuple[int, ...]:
    """Return the memory of each card of this machine in MB, by NVIDIA's numbers."""
    probe = make()
    found: list[int] = []
    try:
        for number in range(CARDS_MOST):
            host = HostSpec(name="", vram_mb=0, backends=(), gpu=str(number))
            if (measured := await probe.free_mb(host)) is None:
                break
            found.append(measured[0])
    finally:
        await probe.aclose()
    return tuple(found)


def machine_mb() -> int | None:
    """Return this machine's memory in MB, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MB
    except (AttributeError, ValueError, OSError):  # such as on Windows
        return None


def cardless(
    system: str = platform.system(), machine: str = platform.machine(), sys: Path = Path("/sys")
) -> bool:
    """Return whether graphics, if any, use this machine's own memory, as on Apple's processors.

    False where that cannot be told: memory of a card nothing measures is not the main memory.
    """
    if system == "Darwin":
        return machine == "arm64"
    try:
        return system == "Linux" and not any(map(_is_card, (sys / "bus/pci/devices").iterdir()))
    except OSError:
        return False


def _is_card(device: Path) -> bool:
    if not (device / "class").read_text(encoding="ascii").startswith(_DISPLAY):
        return False
    vendor = (device / "vendor").read_text(encoding="ascii").strip()
    return vendor in _MAKERS and device.name != _INTEGRATED


def size(mb: int) -> str:
    """Return a size as a configuration has it: 24564 MB are 24GB."""
    return f"{mb}MB" if mb < 1024 else f"{round(mb / 1024, 1):g}GB"
