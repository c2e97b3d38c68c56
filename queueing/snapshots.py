"""Snapshots: the world as the planner sees it, built from the store, the fleet and what was learned.

Looks and remembers what has not changed; changes nothing.
"""

from collections.abc import Sequence
from itertools import takewhile

from queueing.fleet import Fleet
from queueing.jobs import Job
from queueing.ports import Clock, Line, Store
from queueing.processor import Processor
from queueing.times import Times
from queueing.world import ModelView, Plan, Rules, Waiting, World

HEADS_PER_LINE = 8  # starts of one line in one step; the next step follows at once


class Snapshots:
    """Takes snapshots; the router and the forecast ask for them, thousands of times an hour."""

    def __init__(
        self,
        *,
        store: Store,
        fleet: Fleet,
        processor: Processor,
        times: Times,
        clock: Clock,
        rules: Rules,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._processor = processor
        self._times = times
        self._clock = clock
        self._rules = rules
        # By line: what it was, the jobs at its head, and what was made of it.
        self._shown: dict[tuple[str, str], tuple[Line, list[int], Waiting]] = {}

    async def take(self, last: Plan) -> World:
        """Return the world as it is now, after the last plan. Raises `StoreError`."""
        now = self._clock.now()
        lines = await self._store.lines(now, per_line=HEADS_PER_LINE)
        return self._world(now, lines, last)

    def _world(self, now: float, lines: Sequence[Line], last: Plan) -> World:
        waiting: dict[str, list[Waiting]] = {}
        for line in lines:
            if line.model in self._fleet.catalog.models:
                waiting.setdefault(line.model, []).append(self._waiting(line))
        models = self._fleet.models_in_play(waiting)
        return World(
            now=now,
            models={name: self._model(name, now, tuple(waiting.get(name, ()))) for name in models},
            hosts=self._fleet.host_views(),
            backends=self._fleet.backend_views(),
            copies=self._fleet.copies,
            reservations=last.reservations,
            lane_credit=last.lane_credit,
            rules=self._rules,
            watched_s=self._times.rates.watched_s(now),
        )

    def _model(self, name: str, now: float, waiting: tuple[Waiting, ...]) -> ModelView:
        spec = self._fleet.catalog.models[name]
        backends = self._fleet.serving(spec)
        loads_s, services_s = self._times.tables(spec, backends)
        paused = self._fleet.paused.stops_model(name)
        return ModelView(
            name=name,
            vram_mb=self._fleet.vram_mb(spec),
            backends=backends,
            parallel=spec.parallel,
            load_s=loads_s,
            service_s=services_s,
            rate_per_s=self._times.rates.per_s(name, now),
            left_at=self._fleet.left_at(name),
            load_after=self._fleet.setbacks.of(name).until,
            paused=paused,
            waiting=waiting,
            wanted_by_admin=() if paused else self._fleet.wishes(name),
        )

    def _waiting(self, line: Line) -> Waiting:
        """Return a line as the planner sees it.

        A head whose last attempt is still being wound up ends the list: it may have come back to
        its place a moment ago, so it must neither start twice nor be passed.
        """
        under_way = self._processor.under_way
        key = line.model, line.lane
        shown = self._shown.get(key)
        if shown is not None and shown[0] is line and under_way.isdisjoint(shown[1]):
            return shown[2]
        ids = [job.id for job in line.heads]
        if under_way.isdisjoint(ids):
            waiting = self._with_heads(line, line.heads)
            self._shown[key] = line, ids, waiting
            return waiting
        heads = takewhile(lambda job: job.id not in under_way, line.heads)
        return self._with_heads(line, tuple(heads))

    @staticmethod
    def _with_heads(line: Line, heads: tuple[Job, ...]) -> Waiting:
        return Waiting(
            lane=line.lane,
            count=line.waiting,
            heads=heads,
            oldest_at=line.first_queued_at,
            next_start_at=line.next_start_at,
            held=line.held,
        )
