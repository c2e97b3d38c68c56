"""Eta: when waiting and running jobs will probably be done.

Keeps one forecast of the router's newest snapshot; reads, and never changes anything.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from queueing.core.catalog import ModelSpec
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.world import Blocked, ModelView, Residency, World
from queueing.engine.durations import Times
from queueing.engine.fair_lines import FairLines
from queueing.engine.fleet import Fleet
from queueing.engine.scheduler import Router
from queueing.planning.estimates import Usual
from queueing.planning.forecast import Expected, Forecast
from queueing.planning.precedence import Precedence
from queueing.planning.rests import opens_for
from queueing.planning.simulation import OVERDUE_SHARE

FRESH_S = 1.0  # a forecast costs milliseconds: older jobs are answered from one this recent
log = logging.getLogger(__name__)

FRESH_LONG_S = 3.0  # newer ones as well from one cut short: it costs most, and the waits are long
FRESH_FAR_S = 10.0  # the same, for what goes first on a host


class Eta:
    """Answers "when" for people."""

    def __init__(
        self,
        *,
        router: Router,
        fleet: Fleet,
        times: Times,
        clock: Clock,
        fair: FairLines | None = None,
    ) -> None:
        self._router = router
        self._fleet = fleet
        self._times = times
        self._clock = clock
        self._fair = fair
        self._forecast: Forecast | None = None
        self._world: World | None = None
        self._newest_id = 0

    async def refresh(self, asked: Sequence[tuple[Job, int]]) -> None:
        """Make sure there is a forecast that covers these waiting jobs at their positions.

        An older one, or one without the newest jobs, serves if it looks far enough ahead: with
        thousands waiting, a new one for each job that joins would cost more than everything else.
        Raises `StoreError`.
        """
        newest_id = max((job.id for job, _ in asked), default=0)
        if not self._tells(asked, newest_id):
            self._look_at(await self._router.snapshot())
            self._newest_id = max(self._newest_id, newest_id)

    def _tells(self, asked: Sequence[tuple[Job, int]], newest_id: int) -> bool:
        """Whether the present forecast covers these jobs."""
        if self._forecast is None or self._world is None or self._stand(asked):
            return False
        if self._turned(self._world):
            return False
        now = self._clock.now()
        age_s, far = now - self._world.now, self._forecast.far
        if age_s < FRESH_S and newest_id <= self._newest_id:
            return True
        if self._held_back(asked) and self._stale(age_s):
            return False
        if age_s < FRESH_LONG_S and far and self._knows(asked):
            return True
        news = self._surprised(self._world)
        return all(
            self._forecast.still_tells(job, position, now, news=news) for job, position in asked
        )

    def _stale(self, age_s: float) -> bool:
        """Whether another forecast may know better what goes first on a host."""
        if self._forecast is None or self._world is None or age_s >= FRESH_FAR_S:
            return True
        if self._forecast.far:
            return False
        return age_s >= FRESH_LONG_S or (age_s >= FRESH_S and self._surprised(self._world))

    def _held_back(self, asked: Sequence[tuple[Job, int]]) -> bool:
        """Whether one of them waits for other models on its host: that order changes soon."""
        reasons = self._router.plan.reasons
        return any(
            (reason := reasons.get(model)) is not None and reason.why is Blocked.ROOM_BUSY
            for model in {job.model for job, _ in asked}
        )

    def look(self) -> None:
        """Make sure there is a recent forecast, of the router's last snapshot if necessary."""
        world = self._router.world
        if world is not None and (
            self._world is None
            or self._turned(self._world)
            or self._stale(self._clock.now() - self._world.now)
        ):
            self._look_at(world)

    def _knows(self, asked: Sequence[tuple[Job, int]]) -> bool:
        return self._forecast is not None and all(self._forecast.knows(job) for job, _ in asked)

    def _stand(self, asked: Sequence[tuple[Job, int]]) -> bool:
        """Whether the forecast does not cover a line because a job of it was just starting."""
        return self._forecast is not None and any(self._forecast.stands(job) for job, _ in asked)

    def _turned(self, then: World) -> bool:
        """Whether servers can be used that could not when the forecast was made, or the reverse.

        An older forecast would promise people a card that has just been taken by a game.
        """
        now = self._router.world
        return now is not None and now.now >= then.now and _usable(now) != _usable(then)

    def _surprised(self, then: World) -> bool:
        """Whether models wait or are in memory that did not when the forecast was made."""
        now = self._router.world
        return now is None or not _present(now) <= _present(then)

    def _look_at(self, world: World) -> None:
        self._world = world
        self._forecast = Forecast(world, self._service)

    def of_waiting(self, job: Job, position: int) -> Expected | None:
        """Return when a waiting job will be done; None if nothing can honestly be said."""
        if job.id in self._fleet.jobs.slots:
            return self.of_running(job)  # its start is being stored
        if self._forecast is None:
            return None
        now = self._clock.now()
        try:
            newcomers = None if self._fair is None else self._fair.newcomers(job)
            expected = self._forecast.of(job, position, now, newcomers)
        except Exception:  # an estimate is optional: a fault in it must not silence the rest
            log.exception("job %d: no estimate", job.id)
            return None
        if expected is None:
            return None
        late_s = now - expected.start_at
        if late_s <= 0:
            return expected
        return replace(  # it cannot begin sooner than now
            expected, start_at=expected.start_at + late_s, done_at=expected.done_at + late_s
        )

    def precedence(self, model: str) -> Precedence | None:
        """Return what comes before a model's next start, as far as the last forecast shows."""
        if self._forecast is None:
            return None
        return self._forecast.precedence(model, self._clock.now())

    def of_running(self, job: Job) -> Expected | None:
        """Return when a running job will be done.

        None when the server has already finished it, has not begun it, or does not answer.
        """
        slot = self._fleet.jobs.slots.get(job.id)
        if slot is None or slot.held or not self._fleet.health.of(slot.backend).up:
            return None
        usual, now = self._service(job, slot.backend), self._clock.now()
        done_at = slot.ends_at if slot.ends_at > now else now + OVERDUE_SHARE * usual.mean_s
        started_at = job.started_at or now
        return Expected(
            start_at=started_at, start_spread_s=0.0, done_at=done_at, spread_s=usual.spread_s
        )

    def of_next(self, spec: ModelSpec) -> float | None:
        """Return when a job accepted now would be done; None if that cannot be said."""
        world = self._router.world
        if world is None:
            return None
        view = world.models.get(spec.name)
        if view is not None and view.waiting:
            return self._after_the_last(world, view)
        usual_s = self._times.durations.typical_service(spec, "").median_s
        free_at = self._free_at(spec)
        return None if free_at is None else free_at + usual_s

    def _after_the_last(self, world: World, view: ModelView) -> float | None:
        line = max(view.waiting, key=lambda waiting: waiting.count)
        if not line.heads:
            return None
        head, position = line.heads[0], line.count + 1
        expected = self.of_waiting(head, position)
        if expected is None and self._missed(head):
            expected = Forecast(world, self._service).of(head, position, self._clock.now())
        return None if expected is None else expected.done_at

    def _missed(self, head: Job) -> bool:
        """Whether the forecast was made at a start, or before a change that matters for a line."""
        if self._forecast is None or self._world is None:
            return True
        known = self._forecast.knows(head) and not self._forecast.stands(head)
        return not known or self._surprised(self._world)

    def _free_at(self, spec: ModelSpec) -> float | None:
        """Return when a model without a line could start a job: now, or after work or a load."""
        now = self._clock.now()
        copies = [
            c for c in self._fleet.copies_of(spec.name) if self._fleet.health.of(c.backend).up
        ]
        moments = [
            (
                copy.backend,
                max(now, min(copy.ends_at, default=now) if copy.running else copy.ready_at)
                if copy.running >= spec.parallel or copy.residency is Residency.LOADING
                else now,
            )
            for copy in copies
            if copy.residency is not Residency.UNLOADING
        ]
        host_of = self._fleet.catalog.host_of
        moments += [
            (name, now + self._times.load_s(spec.name, name))
            for name in self._fleet.serving(spec)
            if self._fleet.health.of(name).up
            and not copies
            and all(map(self._fleet.memory.quiet, self._fleet.catalog.parts_of(spec, name)))
        ]
        moments += [
            (name, now + self._times.wake_s(host) + self._times.load_s(spec.name, name))
            for name in self._fleet.serving(spec)
            if self._fleet.rests.sleep.is_asleep(host := self._fleet.catalog.hosts[host_of[name]])
        ]
        opened = (self._open_at(spec, name, at) for name, at in moments)
        return min((at for at in opened if at is not None), default=None)

    def _open_at(self, spec: ModelSpec, backend: str, at: float) -> float | None:
        """Return when a host can begin a job that could otherwise begin then.

        None while another program has its card; after quiet hours the model must be loaded again.
        """
        service_s = self._times.durations.typical_service(spec, "").median_s
        opens_at: float | None = at
        for host in self._fleet.catalog.hosts_of[backend]:
            if opens_at is not None:
                opens_at = opens_for(self._fleet.rests.view(host), opens_at, service_s)
        if opens_at is None or opens_at == at:
            return opens_at
        return opens_at + self._times.load_s(spec.name, backend)

    def _service(self, job: Job, backend: str) -> Usual:
        return self._times.service(job, backend)


def _usable(world: World) -> tuple[set[str], set[str]]:
    """Return the hosts that may serve and the servers that can; quiet hours are foreseen."""
    hosts = {n for n, view in world.hosts.items() if view.yields_since is None and not view.paused}
    return hosts, {n for n, view in world.backends.items() if view.up and not view.paused}


def _present(world: World) -> set[tuple[str, str]]:
    """Return what decides which copies are evicted: the waiting models and the copies."""
    copies = {(copy.model, copy.backend) for copy in world.copies}
    return copies | {(model.name, "") for model in world.models.values() if model.waiting}
