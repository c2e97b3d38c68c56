"""What each host does at a moment, and why it does nothing: for those who follow it over time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from queueing.core.snapshot import Blocked, Reason, Residency

Rest = Literal["paused", "quiet", "yielding", "asleep", "waking"]
"""Why a host is given nothing to do: `paused` by an admin, in its `quiet` hours, `yielding` its card
to another program, `asleep`, or `waking` after it was called."""

_RESTS: Mapping[Blocked, Rest] = {
    Blocked.QUIET: "quiet",
    Blocked.YIELDING: "yielding",
    Blocked.ASLEEP: "asleep",
    Blocked.WAKING: "waking",
}


def rest_of(reason: Reason | None, *, paused: bool) -> Rest | None:
    """Return why a host does nothing; None for one that works. A pause comes before the reason."""
    if paused:
        return "paused"
    return None if reason is None else _RESTS.get(reason.why)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostActivity:
    """What runs on a host, what is in its memory, and whether one of its servers can be used.

    `running` are models, `copies` are (model, backend, residency), `servers` those that can be used.
    `up` is None until one of them has been looked at. `rest` is why nothing begins there.
    """

    running: frozenset[str] = frozenset()
    copies: frozenset[tuple[str, str, Residency]] = frozenset()
    servers: frozenset[str] = frozenset()
    up: bool | None = None
    rest: Rest | None = None


HostsListener = Callable[[Mapping[str, HostActivity]], None]
"""Called in the event loop with the states that have changed, by host; must neither block nor raise."""
