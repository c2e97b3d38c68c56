"""Compares sizes of GPUs: measured, configured, and reported by servers.

Servers and drivers report slightly less than a GPU's nominal size, each in its own way.
"""

from collections.abc import Mapping
from typing import TypeVar

from backends.hardware.gpu_memory import is_nvidia
from queueing.core.catalog import Catalog
from queueing.core.specs import HostSpec

_ALIKE = 1.05
_IN_NVIDIAS_ORDER = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="

Gpu = TypeVar("Gpu")


def exceeds(configured_mb: int, total_mb: int) -> bool:
    """Return whether more is configured than exists."""
    return configured_mb > total_mb * _ALIKE


def alike(one_mb: int, other_mb: int) -> bool:
    """Return whether two sizes can be those of one GPU."""
    return not exceeds(one_mb, other_mb) and not exceeds(other_mb, one_mb)


def gpu_of_size(total_mb: int | None, sizes: Mapping[Gpu, int]) -> Gpu | None:
    """Return the one GPU that has a size; None if none or several have."""
    fits = [gpu for gpu, mb in sizes.items() if total_mb is not None and alike(mb, total_mb)]
    return fits[0] if len(fits) == 1 else None


def kept_back(host: HostSpec, total_mb: int) -> str:
    """Return a note if much less is configured than exists; otherwise ""."""
    if not exceeds(total_mb, host.vram_mb):
        return ""
    return f"; vram is set to {host.vram_mb} MB, the rest is left to other programs"


def seen_by_server(catalog: Catalog, server: str, total_mb: int | None) -> str:
    """Return a sentence if a server reports a GPU other than the configured one, or ""."""
    host = catalog.hosts[catalog.host_of[server]]
    if total_mb is None or len(catalog.hosts_of[server]) > 1 or alike(host.vram_mb, total_mb):
        return ""  # on several GPUs, it is unknown which of them the figure describes
    there = {
        each.name: each.vram_mb
        for each in catalog.hosts.values()
        if each.machine_name == host.machine_name and each.name != host.name
    }
    if (other := gpu_of_size(total_mb, there)) is not None:
        text = f"It sees a GPU of {total_mb} MB, as {other} has, but is configured for {host.name}"
        return f"{text}, which has {host.vram_mb} MB: correct its `gpus`{_or_start_it(host)}."
    if exceeds(host.vram_mb, total_mb):
        text = f"It sees a GPU of {total_mb} MB, but {host.name} is set to {host.vram_mb} MB"
        return f"{text}: correct `vram`{_or_start_it(host)}."
    return f"It sees {total_mb} MB{kept_back(host, total_mb)}."


def _or_start_it(host: HostSpec) -> str:
    """Return how to give a server the GPU of its host, if that is known."""
    gpu = host.gpu
    if gpu is None or not is_nvidia(gpu):
        return ""
    return f", or start it with {_IN_NVIDIAS_ORDER}{gpu}"
