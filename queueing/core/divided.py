"""How models are divided among the cards of a machine; pure."""

from collections.abc import Mapping, Sequence
from math import ceil

Shares = tuple[tuple[str, int], ...]
"""MB by host, in the order of the machine's cards."""


def parts(
    hosts: Sequence[str],
    split: Sequence[float],
    chosen: Sequence[str] | None = None,
    chosen_split: Sequence[float] = (),
) -> Mapping[str, float]:
    """Return which part of a model lies on which of its server's hosts.

    Without a split they are equal. `chosen` are those of the hosts that this model takes, and
    `chosen_split` is its own split among them.
    """
    weights = dict(zip(hosts, split or [1.0] * len(hosts), strict=True))
    if chosen is not None:
        weights = {host: weights[host] for host in hosts if host in chosen}
    if chosen_split:
        weights = dict(zip(chosen or hosts, chosen_split, strict=True))
    whole = sum(weights.values())
    return {host: weights[host] / whole for host in hosts if host in weights}


def divided(size_mb: int, parts_of: Mapping[str, float]) -> Shares:
    """Return what a model takes on each host, rounded up."""
    return tuple((host, ceil(size_mb * part)) for host, part in parts_of.items())


def whole_mb(held: Mapping[str, int], parts_of: Mapping[str, float]) -> int:
    """Return the size at which each host's part is at least what the model holds there."""
    return max(ceil(mb / parts_of[host]) for host, mb in held.items())


def together(hosts: Sequence[str]) -> str:
    """Name all hosts that one copy lies on, for people."""
    return " + ".join(hosts)
