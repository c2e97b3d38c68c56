"""Copies that leave together, and the cheapest of them that make room. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from queueing.planning.states import (
    CopyState,
    HostState,
)

Needs = Sequence[tuple[HostState, int]]
"""The MB a model takes, by host."""


@dataclass(frozen=True, slots=True)
class EvictionUnit:
    """Copies that leave together, and how many MB that frees on one host."""

    copies: tuple[CopyState, ...]
    mb: int
    cost: float


def lacking_mb(host: HostState, needed_mb: int) -> int:
    """Return how many MB must leave the host before a model fits; zero or less if it fits now."""
    if needed_mb >= host.view.budget_mb:
        return host.used_mb  # it takes the host alone, whatever other programs use
    return needed_mb - (host.view.usable_mb - host.used_mb)


def cheapest(units: Sequence[EvictionUnit], missing_mb: int) -> list[EvictionUnit] | None:
    """Return units that free at least so many MB at low cost; None if all are too few.

    The cheapest per MB come first. Units that prove unnecessary are dropped again.
    """
    by_density = sorted(units, key=lambda unit: (unit.cost / max(unit.mb, 1), -unit.mb))
    chosen: list[EvictionUnit] = []
    surplus = -missing_mb
    for unit in by_density:
        if surplus >= 0:
            break
        chosen.append(unit)
        surplus += unit.mb
    if surplus < 0:
        return None
    for unit in sorted(chosen, key=lambda unit: -unit.cost):
        if surplus >= unit.mb:
            chosen.remove(unit)
            surplus -= unit.mb
    alone = [unit for unit in units if unit.mb >= missing_mb]
    best = min(alone, key=lambda unit: unit.cost, default=None)
    if best is not None and best.cost < sum(unit.cost for unit in chosen):
        return [best]
    return chosen


def over_gpus(
    needs: Needs, units: Sequence[EvictionUnit], first: Sequence[EvictionUnit]
) -> list[EvictionUnit] | None:
    """Return units, including `first`, that make room on every GPU; None if impossible.

    Works GPU by GPU, in both orders: evicting a copy that spans GPUs may make other evictions
    unnecessary on each of them.
    """
    orders = (needs, tuple(reversed(needs)))
    found = [_gpu_by_gpu(order, units, first) for order in orders]
    enough = [chosen for chosen in found if chosen is not None]
    return min(enough, key=lambda chosen: sum(unit.cost for unit in chosen), default=None)


def _gpu_by_gpu(
    needs: Needs, units: Sequence[EvictionUnit], first: Sequence[EvictionUnit]
) -> list[EvictionUnit] | None:
    chosen = list(first)
    for host, needed_mb in needs:
        missing = lacking_mb(host, needed_mb) - _freed_mb(chosen, host)
        if missing <= 0:
            continue
        left = {unit.copies: unit for unit in units if unit not in chosen}
        here = [replace(unit, mb=_freed_mb((unit,), host)) for unit in left.values()]
        more = cheapest([unit for unit in here if unit.mb], missing)
        if more is None:
            return None
        chosen += [left[unit.copies] for unit in more]
    for unit in sorted(chosen[len(first) :], key=lambda unit: -unit.cost):
        rest = [each for each in chosen if each is not unit]
        if all(lacking_mb(host, mb) <= _freed_mb(rest, host) for host, mb in needs):
            chosen = rest
    return chosen


def _freed_mb(units: Sequence[EvictionUnit], host: HostState) -> int:
    return sum(copy.mb_on(host) for unit in units for copy in unit.copies)
