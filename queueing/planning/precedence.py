"""Precedence: what starts before a model's turn on the host of that turn; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from queueing.core.world import World
from queueing.planning.lying_on import backends_on, lies_on
from queueing.planning.simulated_queue import SimulatedQueue, Started
from queueing.planning.simulation import Simulation


@dataclass(frozen=True, kw_only=True, slots=True)
class Precedence:
    """When and where a model has its turn, and what starts there before.

    `ahead` waiting jobs of `other`, the model whose next job is the first of all, start before.
    Without any, `ahead` is 0 and only running jobs end there before; None if others may begin there
    all the same: future arrivals, or jobs expected to begin on another host.
    """

    turn_at: float
    host: str
    other: str | None = None
    ahead: int | None = 0


def precedence(simulation: Simulation, world: World, model: str, now: float) -> Precedence | None:
    """Return what comes before the model's next start after `now`; None if that is unknown."""
    turn = _turn(simulation, model, now)
    if turn is None:
        return None
    hosts = lies_on(world, model, turn.backend)
    host = hosts[0]
    lines = [line for line in simulation.lines.values() if line.model != model]
    known = [(at, line.model) for line in lines for at in _before(line, world, hosts, turn, now)]
    if known:
        _, first = min(known)
        ahead = sum(name == first for _, name in known)
        return Precedence(turn_at=turn.at, host=host, other=first, ahead=ahead)
    names = {
        copy.model
        for copy in world.copies
        if _is_on(hosts, lies_on(world, copy.model, copy.backend))
    }
    perhaps = any(
        _there(line, world, hosts, turn, now)
        or (line.model in names and _may_begin(line, turn, now))
        for line in lines
    )
    return Precedence(turn_at=turn.at, host=host, ahead=None if perhaps else 0)


def _turn(simulation: Simulation, model: str, now: float) -> Started | None:
    lines = [line for line in simulation.of_model(model) if line.view.count]
    while not (found := [start for line in lines if (start := _next(line, now)) is not None]):
        if simulation.over:
            return None
        simulation.step()
    return min(found, key=lambda start: start.at)


def _next(line: SimulatedQueue, now: float) -> Started | None:
    begun = line.begun(now)
    return line.starts[begun] if begun < min(len(line.starts), line.view.count) else None


def _before(
    line: SimulatedQueue, world: World, hosts: Sequence[str], turn: Started, now: float
) -> list[float]:
    """Return when jobs that wait in a line now start on the turn's host before it.

    A line of which nothing could start now may still pause then, so it does not count.
    """
    waiting = line.view.count - line.begun(now) if line.view.heads else 0
    return _there(line, world, hosts, turn, now)[: max(0, waiting)]


def _may_begin(line: SimulatedQueue, turn: Started, now: float) -> bool:
    """Whether a job of a line begins anywhere before the turn, or may because one just does."""
    paused = line.view.count > 0 and not line.view.heads
    return paused or line.begun(turn.at) > line.begun(now)


def _there(
    line: SimulatedQueue, world: World, hosts: Sequence[str], turn: Started, now: float
) -> list[float]:
    """Return when jobs of a line start on the turn's hosts before it."""
    starts = line.starts[line.begun(now) : line.begun(turn.at)]
    near = backends_on(world, line.model, hosts) if starts else ()
    return [start.at for start in starts if start.backend in near]


def _is_on(hosts: Sequence[str], others: Sequence[str]) -> bool:
    return any(host in hosts for host in others)
