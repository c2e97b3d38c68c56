"""What loading ahead by prediction would bring: the rules as they are beside three ways to foresee.

`python -m benchmarks.predictive [--seeds 5] [--first 1] [--families NAME...]` replays every kind of
traces, and the sparse ones. While nothing waits and a host is idle, it loads there the model most
likely to be asked for next, if what that is expected to save exceeds what it is expected to cost.
`rates` foresees by the learned arrival rates, `turns` by which model followed which so far, `told`
knows the next request: hardly any prediction can do better. Printed are mean, 95 % and worst wait over
those of the rules as they are (geometric means), loads over theirs, and `others`, the jobs that waited
while a load was going on that was foreseen for another model, as a share of all.
"""

import logging
import random
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, mean, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from unittest.mock import patch

from benchmarks.families import asked
from benchmarks.schedule import Replay, rare_collections
from benchmarks.trace import Outcome, Trace
from benchmarks.traces.make import KINDS
from benchmarks.traces.sparse import SPARSE
from queueing.core.world import Load, ModelView, Plan, World
from queueing.engine import scheduler
from queueing.planning import plan
from queueing.planning.arrivals import Rates
from queueing.planning.board import Board
from queueing.planning.board_states import BackendState, ModelState, Space
from queueing.planning.space import candidates, is_idle, make_room, places_for
from tests.simulation import loop as virtual

FAMILIES = KINDS | SPARSE
WAYS = ("today", "rates", "turns", "told")
RATIO = 2.0  # what is saved must be worth so many times what it costs
FIGURES = ("mean", "p95", "worst", "loads")

Figures = Mapping[str, float]


class Foresight:
    """Plans by the rules as they are, and loads ahead where a host is idle."""

    def __init__(self, trace: Trace, way: str) -> None:
        self._trace, self._way = trace, way
        self._moments = [job.at for job in trace.jobs]
        self._rates = Rates()
        self._after: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seen = 0
        self.ahead: list[tuple[str, str, float]] = []  # host, model and moment of each load ahead

    def __call__(self, world: World) -> Plan:
        """Decide."""
        answer = plan(world)
        self._watch(world.now)
        waits = any(line.count for model in world.models.values() for line in model.waiting)
        if self._way == "today" or waits or answer.loads or answer.starts or answer.evictions:
            return answer
        chances = self._chances(world.now)
        if not chances:
            return answer
        board = Board(replace(world, models={**world.models, **self._missing(world)}))
        load = self._best(board, chances)
        board.dissolve()
        return answer if load is None else replace(answer, loads=(load,))

    def _watch(self, now: float) -> None:
        for job in self._trace.jobs[self._seen : bisect_left(self._moments, now)]:
            self._rates.arrived(job.model, job.at)
            if self._seen:
                self._after[self._trace.jobs[self._seen - 1].model][job.model] += 1
            self._seen += 1

    def _chances(self, now: float) -> dict[str, float]:
        """Return how likely each model is the next to be asked for."""
        if self._way == "told":
            return {job.model: 1.0 for job in self._trace.jobs[self._seen : self._seen + 1]}
        if not self._seen:
            return {}
        weights: Mapping[str, float]
        if self._way == "turns":
            weights = self._after[self._trace.jobs[self._seen - 1].model]
        else:
            weights = {m.name: self._rates.per_s(m.name, now) for m in self._trace.models}
        whole = sum(weights.values())
        return {name: weight / whole for name, weight in weights.items()} if whole else {}

    def _missing(self, world: World) -> dict[str, ModelView]:
        """Return the models that neither wait nor have a copy."""
        return {
            each.name: ModelView(
                name=each.name,
                vram_mb=each.vram_mb,
                backends=each.backends,
                parallel=each.parallel,
                load_s={"": each.load_s},
                service_s={"": each.service_s},
                rate_per_s=self._rates.per_s(each.name, world.now),
            )
            for each in self._trace.models
            if each.name not in world.models
        }

    def _best(self, board: Board, chances: Mapping[str, float]) -> Load | None:
        """Return the load ahead that is expected to save most, None if none is worth it."""
        best: tuple[float, ModelState, Space] | None = None
        for name, chance in chances.items():
            model = board.models[name]
            if model.copies:
                continue
            for backend in candidates(board, model):
                if backend not in places_for(board, model) or backend.host.running:
                    continue
                room = make_room(model, backend, is_idle)
                if room is None:
                    continue
                net = chance * model.load_s(backend.view.name) - RATIO * self._cost(
                    board, model, backend, room, chances
                )
                if net > 0 and (best is None or net > best[0]):
                    best = net, model, room
        if best is None:
            return None
        _, model, room = best
        self.ahead.append((room.backend.host.view.name, model.view.name, board.now))
        board.load(model, room.backend, room.victims)
        return board.loads[0]

    def _cost(
        self,
        board: Board,
        model: ModelState,
        backend: BackendState,
        room: Space,
        chances: Mapping[str, float],
    ) -> float:
        """Return the expected seconds of the next request that a load ahead costs."""
        load_s = model.load_s(backend.view.name)
        gone = sum(
            chances.get(copy.view.model, 0.0) * copy.model.load_s(copy.view.backend)
            for copy in room.victims
            if len(copy.model.copies) == 1
        )
        others = sum(
            board.models[name].view.rate_per_s
            for name in chances
            if board.models[name] is not model and not board.models[name].copies
        )
        return gone + others * load_s * load_s / 2


class ForeseenReplay(Replay):
    """A replay under one way to foresee."""

    def __init__(self, trace: Trace, way: str) -> None:
        super().__init__(trace, "full", promises=False)
        self.foresight = Foresight(trace, way)

    def outcome(self) -> Outcome:
        """Replay it."""
        with patch.object(scheduler, "plan", self.foresight), rare_collections():
            return virtual.run(self.run())


def figures(given: tuple[str, int]) -> dict[str, Figures]:
    """Return the figures of one trace by way."""
    kind, seed = given
    trace = FAMILIES[kind](random.Random(f"{kind}-{seed}"))
    return {way: _figures(trace, ForeseenReplay(trace, way)) for way in WAYS}


def _figures(trace: Trace, run: ForeseenReplay) -> Figures:
    outcome = run.outcome()
    host_of = {b.name: host.name for host in trace.hosts for b in host.backends}
    load_s = {model.name: model.load_s for model in trace.models}
    waits, held = [], 0
    for job in outcome.jobs:
        if job.started_s is None or job.backend is None:
            continue
        at = trace.jobs[job.index].at
        waits.append(job.started_s - at)
        held += any(
            host == host_of[job.backend]
            and name != job.model
            and began < job.started_s
            and began + load_s[name] > at
            and job.started_s > at
            for host, name, began in run.foresight.ahead
        )
    return {
        "mean": mean(waits),
        "p95": quantiles(waits, n=20)[-1],
        "worst": max(waits),
        "loads": float(len(outcome.loads)),
        "others": held / len(waits),
    }


def _print_row(kind: str, runs: Sequence[Mapping[str, Figures]]) -> None:
    cells = [f"{kind:<20}{len(runs):>4}{mean(run['today']['mean'] for run in runs):8.1f}"]
    for way in WAYS[1:]:
        cells += [f"{_over_today(runs, way, figure):8.3f}" for figure in FIGURES]
        cells.append(f"{mean(run[way]['others'] for run in runs):8.3f}")
    print("".join(cells), flush=True)


def _over_today(runs: Sequence[Mapping[str, Figures]], way: str, figure: str) -> float:
    # A wait below a second is no wait: a ratio of two such would say nothing.
    return geometric_mean(
        max(run[way][figure], 1.0) / max(run["today"][figure], 1.0) for run in runs
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    given = asked(__doc__, FAMILIES, arguments, seeds=5)
    logging.basicConfig(level=logging.ERROR)
    headings = "".join(
        f"{way:>8}{'p95':>8}{'worst':>8}{'loads':>8}{'others':>8}" for way in WAYS[1:]
    )
    print(f"{'over today':<20}{'n':>4}{'wait s':>8}{headings}")
    for kind, runs in given.by_kind(figures):
        _print_row(kind, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
