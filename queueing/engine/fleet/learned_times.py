"""Learned durations and arrival rates of this installation, and their checkpoints.

`LearnedTimes` holds the estimates and the rows not yet stored, and never blocks. `Checkpoint`
writes them to the store.
"""

import asyncio
from collections.abc import Mapping, Sequence

from queueing.core.errors import StoreError
from queueing.core.jobs import LATER, Job
from queueing.core.ports import Clock
from queueing.core.snapshot import Residency
from queueing.core.specs import HostSpec, ModelSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.forecast.arrivals import ArrivalRates
from queueing.forecast.calibration import Calibration, Category, Score
from queueing.forecast.durations import DurationEstimate, Durations, LearnedDuration, size_class
from queueing.store.jobs.job_store import JobStore

_Tables = tuple[Mapping[str, float], Mapping[str, float]]  # load and service times by backend


class LearnedTimes:
    """Learned durations by model and backend, falling back to the configured ones."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self.durations = Durations()
        self.rates = ArrivalRates()
        self.calibration = Calibration()
        self._scores: list[Score] = []  # not yet stored
        self._unsaved: dict[tuple[str, str, str, str], LearnedDuration] = {}
        self._worked_out: dict[str, tuple[Sequence[str], _Tables]] = {}  # by model: backends, times

    def restore(self, learned: Sequence[LearnedDuration], scores: Sequence[Score] = ()) -> None:
        """Load what earlier runs learned."""
        self.durations = Durations(learned)
        self.calibration = Calibration(scores)
        self._worked_out.clear()

    def forget_tables(self) -> None:
        """Drop the cached tables after models or their hosts have changed."""
        self._worked_out.clear()

    def take_unsaved(self) -> list[LearnedDuration]:
        """Return what was learned since the last call, to be stored."""
        rows = list(self._unsaved.values())
        self._unsaved.clear()
        return rows

    def take_scores(self) -> list[Score]:
        """Return the scores of estimates since the last call, to be stored."""
        scores, self._scores = self._scores, []
        return scores

    # ------------------------------------------------------------ asking

    def load_s(self, model: str, backend: str) -> float:
        """Return how long a load of a model usually takes on a backend, in seconds."""
        spec = self._fleet.catalog.spec_of(model)
        return self.durations.load(spec, self._host(backend)).median_s

    def service(self, job: Job, backend: str) -> DurationEstimate:
        """Return how long a job is expected to take on a backend."""
        spec = self._fleet.catalog.spec_of(job.model)
        return self.durations.service(spec, self._host(backend), size_class(job.request))

    def tables(self, spec: ModelSpec, backends: Sequence[str]) -> _Tables:
        """Return the load and service times of a model's typical job by backend; "" is any backend.

        Cached until something is learned, because every step asks for the times of all models.
        """
        asked, tables = self._worked_out.get(spec.name, ((), None))
        if tables is None or asked != backends:
            hosts = {name: self._host(name) for name in ("", *backends)}
            loads = {n: self.durations.load(spec, host).median_s for n, host in hosts.items()}
            services = {
                n: self.durations.typical_service(spec, host).mean_s for n, host in hosts.items()
            }
            tables = loads, services
            self._worked_out[spec.name] = backends, tables
        return tables

    def is_measured(self, model: str, backend: str, *, load: bool) -> bool:
        """Return whether a model has run on a backend, and with `load` also been loaded there."""
        host = self._host(backend)
        spec = self._fleet.catalog.spec_of(model)
        return self.durations.has_run(spec, host) and (
            not load or self.durations.load(spec, host).samples > 0
        )

    def wake_s(self, host: HostSpec) -> float:
        """Return how long a machine usually takes to wake, in seconds."""
        prior_s = host.wake.takes_s if host.wake else 0.0
        return self.durations.wake(host.machine_name, prior_s).median_s

    # ------------------------------------------------------------ learning

    def woke(self, host: str, seconds: float) -> None:
        """Learn how long a machine took to wake."""
        self._keep(self.durations.observe_wake(host, seconds))

    def arrived(self, job: Job) -> None:
        """Learn how often a model is requested, from an accepted job."""
        if job.lane == LATER:  # deferred jobs compete with nobody
            return
        self.rates.arrived(job.model, self._clock.now())

    def job_ended(self, job: Job, backend: str) -> None:
        """Learn from a job that its server has finished."""
        if job.started_at is not None:
            seconds = self._clock.now() - job.started_at
            size = size_class(job.request)
            self._keep(
                self.durations.observe_service(job.model, self._host(backend), size, seconds)
            )

    def loaded(self, model: str, backend: str, seconds: float) -> None:
        """Learn how long a load took."""
        self._keep(self.durations.observe_load(model, self._host(backend), seconds))

    def came_true(self, category: Category, told_at: float, expected: float, actual: float) -> None:
        """Learn how far off a job's estimate was, once it has ended."""
        self._scores.append(self.calibration.observe(category, told_at, expected, actual))

    def _keep(self, row: LearnedDuration) -> None:
        self._worked_out.pop(row.model, None)
        self._unsaved[row.kind, row.model, row.host, row.size] = row

    def _host(self, backend: str) -> str:
        return self._fleet.catalog.host_of.get(backend, "")


class Checkpoint:
    """Writes copies, learned times and model sizes to the store."""

    def __init__(self, *, store: JobStore, fleet: Fleet, times: LearnedTimes) -> None:
        self._store = store
        self._fleet = fleet
        self._times = times
        self._writing = asyncio.Lock()
        self._learned: list[LearnedDuration] = []  # not yet stored
        self._scores: list[Score] = []
        self._sizes: dict[str, int] = {}

    async def write(self) -> None:
        """Write what has changed. On return, all changes made before the call are durable.

        Raises `StoreError`; the next call then retries the unwritten changes.
        """
        async with self._writing:
            if self._fleet.copies.unsaved:
                self._fleet.copies.unsaved = False
                try:
                    await self._store.note_residency(self._residency())
                except StoreError:
                    self._fleet.copies.unsaved = True
                    raise
            self._learned += self._times.take_unsaved()
            if self._learned:
                await self._store.learn(self._learned)
                self._learned.clear()
            self._scores += self._times.take_scores()
            if self._scores:
                await self._store.note_scores(self._scores)
                self._scores.clear()
            self._sizes |= self._fleet.memory.budget.take_unsaved()
            if self._sizes:
                await self._store.note_sizes(self._sizes)
                self._sizes.clear()

    def _residency(self) -> list[tuple[str, str, str, str, bool]]:
        """Return the rows to store: all copies, and pins without a copy."""
        host_of = self._fleet.catalog.host_of
        copies = [
            (host_of[copy.backend], copy.backend, copy.model, copy.residency.value, copy.pinned)
            for copy in self._fleet.copies
        ]
        return copies + [
            (host_of[backend], backend, model, Residency.LOADING.value, True)
            for model, backend in self._fleet.copies.pins.unmet()
        ]
