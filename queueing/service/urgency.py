"""Urgency: which jobs that shall be done by a moment must begin now, asked of the forecast.

Reads; moves and starts nothing.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

from queueing.core.catalog import ModelSpec
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.world import World
from queueing.engine.durations import Times
from queueing.engine.fleet import Fleet
from queueing.engine.scheduler import Router
from queueing.engine.snapshots import Snapshots
from queueing.planning.forecast import Expected, Forecast
from queueing.planning.in_time import Rival, kept_s, open_until, spare_s

log = logging.getLogger(__name__)


class Urgency:
    """Tells how much longer each dated job may wait."""

    def __init__(
        self,
        *,
        router: Router,
        snapshots: Snapshots,
        fleet: Fleet,
        times: Times,
        clock: Clock,
    ) -> None:
        self._router = router
        self._snapshots = snapshots
        self._fleet = fleet
        self._times = times
        self._clock = clock

    async def spares(self, dated: Sequence[Job]) -> Mapping[int, float]:
        """Return by job how many seconds it may wait before it must be let go, less than 0 for late.

        The jobs come in the order in which they shall be done; of one model, those before another
        must be let go with it. Raises `StoreError`.
        """
        by_model: defaultdict[str, list[Job]] = defaultdict(list)
        for job in dated:
            if job.model in self._fleet.catalog.models:
                by_model[job.model].append(job)
        world = await self._snapshots.with_later(self._router.plan, by_model)
        forecast = Forecast(world, self._times.service)
        found = dict[int, float]()
        for model, jobs in by_model.items():
            try:
                found.update(self._of_model(model, jobs, forecast, world))
            except Exception:  # a fault in an estimate must not end the queue, or make a job late
                log.exception("%s: its jobs with a moment may begin now", model)
                found.update(dict.fromkeys((job.id for job in jobs), 0.0))
        return found

    def _of_model(
        self, model: str, jobs: Sequence[Job], forecast: Forecast, world: World
    ) -> Mapping[int, float]:
        spec, now = self._fleet.catalog.models[model], self._clock.now()
        load_s = self._times.durations.load(spec, "").median_s
        work_s, found = 0.0, list[float]()
        for number, job in enumerate(jobs, start=1):
            expected = _expected(forecast, job, number)
            service_s = self._times.service(job, "").mean_s
            done_at = now + load_s + service_s if expected is None else expected.done_at
            found.append(self._spare_s(spec, job, max(done_at, now + service_s), work_s, world))
            work_s += service_s / spec.parallel
        for place in range(len(jobs) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return {job.id: spare for job, spare in zip(jobs, found, strict=True)}

    def _spare_s(
        self, spec: ModelSpec, job: Job, done_at: float, work_s: float, world: World
    ) -> float:
        """Return how long a job may wait, on the host on which it may wait longest."""
        fleet, due_at = self._fleet, job.due_at or 0.0
        load_s = self._times.durations.load(spec, "").median_s
        service_s = self._times.service(job, "").mean_s
        best = None
        for backend in fleet.serving(spec):
            for host in fleet.catalog.parts_of(spec, backend):
                kept = kept_s(load_s, self._rivals(spec, host, world), world.rules)
                needed_s = load_s + service_s + 2 * work_s + kept
                by_at = open_until(due_at, fleet.rests.view(host).quiet, needed_s)
                spare = spare_s(done_at, by_at, work_s=work_s, kept_s=kept)
                best = spare if best is None else max(best, spare)
        return due_at - done_at if best is None else best

    def _rivals(self, spec: ModelSpec, host: str, world: World) -> Sequence[Rival]:
        """Return the models that a host could not keep in memory, or run, beside this one."""
        fleet, durations = self._fleet, self._times.durations
        there = [
            other
            for other in fleet.catalog.models.values()
            if any(host in fleet.catalog.parts_of(other, name) for name in fleet.serving(other))
        ]
        serial = any(each.serial for each in fleet.catalog.hosts[host].backends)
        if not serial and sum(map(fleet.memory.vram_mb, there)) <= fleet.memory.usable_mb(host):
            return ()
        return [
            Rival(
                load_s=durations.load(other, "").median_s,
                service_s=durations.typical_service(other, "").mean_s,
                waits=bool((view := world.models.get(other.name)) and view.waiting),
            )
            for other in there
            if other is not spec and not fleet.rests.paused.stops_model(other.name)
        ]


def _expected(forecast: Forecast, job: Job, number: int) -> Expected | None:
    try:
        return forecast.of(job, number)
    except Exception:  # a fault in an estimate must not keep the job from its turn
        log.exception("job %d: no estimate", job.id)
        return None
