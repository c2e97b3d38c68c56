"""Extrapolation: how lines continue beyond what was simulated step by step.

Pure. Lines share the cards' capacity as they did while they were simulated; when one is empty, the
others get its share.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from queueing.forecast.simulated_queue import SimulatedQueue

Key = tuple[str, str]  # model and lane

_LEAST = 1e-9


@dataclass(slots=True)
class Share:
    """What one line has left to do, and its part of all simultaneous work.

    `begun` counts its starts so far, `left` those to come; `slots` are busy with it on average, of
    `most_slots` at most.
    """

    service_s: float
    begun: float
    left: float
    slots: float
    most_slots: float
    stretches: list[tuple[float, float, float]] = field(default_factory=list)  # from, begun, pace

    def start_at(self, position: int) -> float:
        """Return when the job at that position starts; inf if no more are expected."""
        if not self.stretches:
            return inf
        index = bisect_left(self.stretches, float(position), key=_begun)
        at, begun, per_s = self.stretches[max(0, index - 1)]
        return at + (position - begun) / per_s


def _begun(stretch: tuple[float, float, float]) -> float:
    return stretch[1]


def shares(
    lines: Mapping[Key, SimulatedQueue],
    *,
    since: float,
    now: float,
    service_s: Callable[[SimulatedQueue], float],
    most_slots: Callable[[SimulatedQueue], int],
) -> dict[Key, Share]:
    """Return the lines' shares from `now` on, as they were since `since`, run to their ends."""
    seen_s = max(now - since, _LEAST)
    made = {}
    for key, line in lines.items():
        begun, usual_s = len(line.starts), max(service_s(line), _LEAST)
        left = max(0, line.left)
        made[key] = Share(usual_s, begun, left, begun * usual_s / seen_s, most_slots(line))
    waiting = [share for share in made.values() if share.left]
    seen = [share.slots for share in waiting if share.slots > 0]
    for share in waiting:
        if share.slots <= 0:  # its turn was not within sight: taken for one like the others
            share.slots = sum(seen) / len(seen) if seen else 1.0
    _drain(waiting, sum(share.slots for share in made.values()), now)
    return made


def _drain(waiting: list[Share], slots: float, now: float) -> None:
    """Record for each share the pace at which it continues, until all are empty."""
    while waiting:
        paces = _paces(waiting, slots)
        for share, pace in zip(waiting, paces, strict=True):
            share.stretches.append((now, share.begun, pace))
        step_s = min(share.left / pace for share, pace in zip(waiting, paces, strict=True))
        for share, pace in zip(waiting, paces, strict=True):
            share.begun += pace * step_s
            share.left -= pace * step_s
        now += step_s
        waiting = [share for share in waiting if share.left > _LEAST * share.begun]


def _paces(waiting: list[Share], slots: float) -> list[float]:
    """Return the starts per second of each: shares of the slots, none above its possible maximum."""
    wanted = sum(share.slots for share in waiting)
    return [
        max(min(share.slots * slots / wanted, share.most_slots), _LEAST) / share.service_s
        for share in waiting
    ]
