"""The memory of AMD GPUs, from the files of Linux's driver amdgpu.

A discrete GPU has its own memory. An integrated one has a small part of the main memory, set aside
by the firmware, and takes the rest of what it needs from the main memory as well (GTT). Discrete
GPUs have a GTT too, which is too slow for models.
"""

import re
import struct
from collections.abc import Sequence
from pathlib import Path

MB = 1024 * 1024
UNREPORTED = "its driver does not report its memory: amdgpu does, radeon and virtual GPUs do not"
_VENDOR = "0x1002"
_INTEGRATED = frozenset({2, 3})  # format revisions of `gpu_metrics`; discrete GPUs have 1
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


def devices(drm: Path) -> Sequence[Path]:
    """Return the folders of AMD's GPUs, in the order of their numbers."""
    cards = sorted(drm.glob("card*"), key=_number)
    return [card / "device" for card in cards if _is_amd(card / "device")]


def device_named(name: str, drm: Path) -> Path:
    """Return the folder of a GPU, by its number or PCI address. Raises `ValueError`."""
    if not drm.is_dir():
        raise ValueError("AMD GPUs can be measured only on Linux, with the amdgpu driver")
    ours = devices(drm)
    if name.isdecimal() and int(name) < len(ours):
        return ours[int(name)]
    by_address = {device.resolve().name: device for device in ours}
    if name in by_address:
        return by_address[name]
    known = ", ".join(by_address) or "none"
    raise ValueError(f"no such AMD GPU; found: {known}")


def memory_of(device: Path, meminfo: Path) -> tuple[int, int]:
    """Return (total, free) of a GPU in MB. Raises `OSError`, and `ValueError` with the reason."""
    total, used = _memory(device, "vram")
    free = max(0, total - used)
    if _is_integrated(device):
        shared, taken = _memory(device, "gtt")
        total += shared
        free += min(max(0, shared - taken), _available(meminfo))
    if not total:
        raise ValueError(UNREPORTED)
    return total // MB, free // MB


def sizes_mb(drm: Path, meminfo: Path) -> tuple[int, ...]:
    """Return the memory of each GPU in MB, up to the first that does not report it.

    If there is a discrete GPU, an integrated one counts only with its own memory, because nobody
    runs models on it.
    """
    ours = devices(drm)
    alone = all(map(_is_integrated, ours))
    found: list[int] = []
    for device in ours:
        try:
            total = memory_of(device, meminfo)[0] if alone else _memory(device, "vram")[0] // MB
        except (OSError, ValueError):
            break
        if not total:
            break
        found.append(total)
    return tuple(found)


def _memory(device: Path, kind: str) -> tuple[int, int]:
    """Return (total, used) of a kind of memory in bytes."""
    try:
        total, used = (
            int((device / f"mem_info_{kind}_{what}").read_text(encoding="ascii"))
            for what in ("total", "used")
        )
    except (FileNotFoundError, ValueError):
        raise ValueError(UNREPORTED) from None
    return total, used


def _is_integrated(device: Path) -> bool:
    """Return whether a GPU is part of a processor, as its table of sensors shows."""
    try:
        head = (device / "gpu_metrics").read_bytes()[:4]  # its size and two revisions
    except OSError:
        return False
    return len(head) == 4 and struct.unpack("<HBB", head)[1] in _INTEGRATED


def _available(meminfo: Path) -> int:
    found = _AVAILABLE.search(meminfo.read_text(encoding="ascii"))
    if found is None:
        raise ValueError("the system does not report its memory")
    return int(found[1]) * 1024


def _is_amd(device: Path) -> bool:
    try:
        return (device / "vendor").read_text(encoding="ascii").strip() == _VENDOR
    except OSError:  # a connector, such as card0-HDMI-A-1
        return False


def _number(gpu: Path) -> tuple[int, str]:
    digits = gpu.name.removeprefix("card")
    return (int(digits) if digits.isdecimal() else 1 << 30, gpu.name)
