"""What each host does at a moment: what those who follow it over time are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from queueing.core.world import Residency


@dataclass(frozen=True, kw_only=True, slots=True)
class HostActivity:
    """What runs on a host, what is in its memory, and whether one of its servers can be used.

    `running` are models, `copies` are (model, backend, residency), `servers` those that can be used.
    `up` is None until one of them has been looked at.
    """

    running: frozenset[str] = frozenset()
    copies: frozenset[tuple[str, str, Residency]] = frozenset()
    servers: frozenset[str] = frozenset()
    up: bool | None = None


HostsListener = Callable[[Mapping[str, HostActivity]], None]
"""Called in the event loop with the states that have changed, by host; must neither block nor raise."""
