"""Measures what models may fill here: NVIDIA's cards, else the machine's own memory."""

import os
from collections.abc import Callable

from backends.common.memory import NvmlProbe
from queueing.core.catalog import HostSpec

CARDS_MOST = 16
MB = 1024 * 1024


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


def size(mb: int) -> str:
    """Return a size as a configuration has it: 24564 MB are 24GB."""
    return f"{mb}MB" if mb < 1024 else f"{round(mb / 1024, 1):g}GB"
