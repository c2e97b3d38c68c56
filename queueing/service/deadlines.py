"""Urgency: which jobs that shall be done by a moment must begin now, asked of the forecast.

Reads; moves and starts nothing.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

from queueing.core.catalog import ModelSpec
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.snapshot import HostView, World
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Times
from queueing.engine.scheduler import Router
from queueing.engine.snapshot_builder import Snapshots
from queueing.forecast.forecast import Forecast
from queueing.planning.sites import Site, sites
from queueing.service.in_time import Rival, Way, kept_s, spare_s

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
        ways = [self._way(spec, site, world) for site in sites(world, world.models[model])]
        load_s = self._times.durations.load(spec, "").median_s
        work_s, found = 0.0, list[float]()
        for number, job in enumerate(jobs, start=1):
            service_s, due_at = self._times.service(job, "").mean_s, job.due_at or 0.0
            soonest_at = now + load_s + work_s + service_s
            done_at = max(now + service_s, _done_at(forecast, job, number, soonest_at))
            spares = (
                spare_s(done_at, due_at, way, service_s=service_s, work_s=work_s) for way in ways
            )
            found.append(max(spares, default=due_at - done_at))
            work_s += service_s / spec.parallel
        for place in range(len(jobs) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return {job.id: spare for job, spare in zip(jobs, found, strict=True)}

    def _way(self, spec: ModelSpec, site: Site, world: World) -> Way:
        """Return what a job waits for on a server: on several cards, for all of them."""
        load_s = self._times.load_s(spec.name, site.backend)
        own_s = self._times.durations.typical_service(spec, "").mean_s  # of one that has just begun
        specs = [self._fleet.catalog.hosts[host.name] for host in site.hosts]
        return Way(
            quiet=tuple(quiet for host in site.hosts for quiet in host.quiet),
            load_s=load_s,
            kept_s=own_s + kept_s(load_s, self._rivals(spec, site, world), world.rules),
            wake_s=max(self._times.wake_s(host) for host in specs),
        )

    def _rivals(self, spec: ModelSpec, site: Site, world: World) -> Sequence[Rival]:
        """Return the models that one of the hosts could not keep in memory, or run, beside this one."""
        durations, there = self._times.durations, dict[str, ModelSpec]()
        for host in site.hosts:
            there |= self._crowding(host)
        return [
            Rival(
                load_s=durations.load(other, "").median_s,
                service_s=durations.typical_service(other, "").mean_s,
                waits=bool((view := world.models.get(other.name)) and view.waiting),
            )
            for other in there.values()
            if other is not spec and not self._fleet.rests.paused.stops_model(other.name)
        ]

    def _crowding(self, host: HostView) -> Mapping[str, ModelSpec]:
        """Return the models that may lie on a host; none if all of them can, and run, at once."""
        fleet, catalog = self._fleet, self._fleet.catalog
        needed_mb = {
            model.name: max(needs)
            for model in catalog.models.values()
            if (
                needs := [mb for name in fleet.serving(model) for mb in self._mb(model, name, host)]
            )
        }
        serial = any(backend.serial for backend in catalog.hosts[host.name].backends)
        if not serial and sum(needed_mb.values()) <= host.usable_mb:
            return {}
        return {name: catalog.models[name] for name in needed_mb}

    def _mb(self, model: ModelSpec, backend: str, host: HostView) -> Sequence[int]:
        """Return what a model takes on a host at a server, nothing if it does not lie there."""
        memory = self._fleet.memory
        if host.name not in self._fleet.catalog.parts_of(model, backend):
            return ()
        return (dict(memory.shares(model, backend)).get(host.name, memory.vram_mb(model)),)


def _done_at(forecast: Forecast, job: Job, number: int, soonest_at: float) -> float:
    """Return when a job would be done, as soon as it could be where that cannot be foreseen."""
    try:
        expected = forecast.of(job, number)
    except Exception:  # a fault in an estimate must not keep the job from its turn
        log.exception("job %d: no estimate", job.id)
        return soonest_at
    return soonest_at if expected is None else expected.done_at
