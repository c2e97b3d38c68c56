"""Running jobs: which backend each one occupies, and how much GPU time it takes.

In memory only, changed by the job runner. It never calls a server or the store.

Jobs that run on a GPU at the same time share its time: while n jobs run, each takes 1/n of a second
per second.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from queueing.core.catalog import Catalog
from queueing.core.constructors import altering
from queueing.core.jobs import Job
from queueing.core.ports import Clock


@dataclass(slots=True)
class _Gpu:
    """A GPU's clock: by `at`, a job running on it all along would have taken `share_s` seconds."""

    at: float
    share_s: float = 0.0
    running: int = 0

    def advance(self, now: float) -> float:
        if self.running and now > self.at:
            self.share_s += (now - self.at) / self.running
        self.at = now
        return self.share_s


@dataclass(slots=True)
class _Metered:
    """A job on its GPUs: `taken_s` until it last resumed, when the clocks showed `since_s`."""

    gpus: tuple[_Gpu, ...]
    taken_s: float
    since_s: float | None = None  # None while paused

    def go_on(self, now: float) -> None:
        if self.since_s is None:
            self.since_s = self.share_s(now)
            for gpu in self.gpus:
                gpu.running += 1

    def rest(self, now: float) -> None:
        if self.since_s is not None:
            self.taken_s += self.share_s(now) - self.since_s
            for gpu in self.gpus:
                gpu.running -= 1
            self.since_s = None

    def share_s(self, now: float) -> float:
        return sum([gpu.advance(now) for gpu in self.gpus])


class GpuMeter:
    """Measures the GPU time of jobs. A job on several GPUs takes its share of each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gpus: dict[str, _Gpu] = {}
        self._jobs: dict[int, _Metered] = {}

    def begin(self, job_id: int, hosts: Sequence[str], *, taken_s: float = 0.0) -> None:
        """Start measuring an attempt on the GPUs of these hosts; discard the job's earlier ones.

        `taken_s` is the time that this attempt has taken before.
        """
        self.forget(job_id)
        now = self._clock.now()
        gpus = [self._gpus.setdefault(host, _Gpu(now)) for host in hosts]
        self._jobs[job_id] = metered = _Metered(tuple(gpus), taken_s)
        metered.go_on(now)

    def go_on(self, job_id: int) -> None:
        """Resume measuring a job. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.go_on(self._clock.now())

    def rest(self, job_id: int) -> None:
        """Pause measuring a job that has ended or is queued on its server. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.rest(self._clock.now())

    def forget(self, job_id: int) -> None:
        """Discard the time a job has taken. Idempotent."""
        self.rest(job_id)
        self._jobs.pop(job_id, None)

    def taken_s(self, job_id: int) -> float:
        """Return the GPU seconds that a job's current attempt has taken so far."""
        metered = self._jobs.get(job_id)
        if metered is None:
            return 0.0
        if metered.since_s is None:
            return metered.taken_s
        return metered.taken_s + metered.share_s(self._clock.now()) - metered.since_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A job's place on a backend, from just before its start is stored until the server is done."""

    job: Job
    backend: str
    ends_at: float
    held: bool = False  # queued on the server behind other clients
    began_at: float = 0.0
    fraction: float | None = None  # of its work, as last reported by the server


_altered = altering(Slot)


class RunningJobs:
    """Tracks the occupied slots of all backends and the GPU time of each job."""

    def __init__(self, catalog: Catalog, clock: Clock, changed: Callable[[], None]) -> None:
        """Create it; `changed` is called when the scheduler should run a step."""
        self.catalog = catalog
        # `shown` is called when the running jobs of copies change, `ended` with the model and
        # backend of an ended job.
        self.shown: Callable[[], None] = lambda: None
        self.ended: Callable[[str, str], None] = lambda _model, _backend: None
        self.meter = GpuMeter(clock)
        self.busy: Counter[tuple[str, str]] = Counter()  # running jobs by model and backend
        # Backends where a model began or stopped running, or a copy changed.
        self.turned: set[str] = set()
        self._clock = clock
        self._changed = changed
        self._slots: dict[int, Slot] = {}

    def occupy(self, job: Job, backend: str, ends_at: float, *, taken_s: float = 0.0) -> None:
        """Give a job a slot on a backend until `vacate` is called; `ends_at` is an estimate.

        `taken_s` is the GPU time that the same attempt took before a restart.
        """
        hosts = self.catalog.parts_of(self.catalog.spec_of(job.model), backend)
        self.meter.begin(job.id, tuple(hosts), taken_s=taken_s)
        began_at = self._clock.now() if job.started_at is None else job.started_at
        self._free(job.id)
        self._slots[job.id] = Slot(job=job, backend=backend, ends_at=ends_at, began_at=began_at)
        self.busy[job.model, backend] += 1
        if self.busy[job.model, backend] == 1:
            self.turned.add(backend)
        self.shown()
        self._changed()

    def begun(self, job: Job) -> None:
        """Record that a job's start is stored."""
        slot = self._slots.get(job.id)
        if slot is not None:
            self._slots[job.id] = _altered(slot, job=job)

    def expect(self, job_id: int, ends_at: float) -> None:
        """Update the expected end of a running job from its progress."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, ends_at=ends_at, held=False)
            self.meter.go_on(job_id)
            self.shown()

    def hold(self, job_id: int) -> None:
        """Record that a job is queued on its server for an unknown time."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, held=True)
            self.meter.rest(job_id)
            self.shown()

    def reach(self, job_id: int, fraction: float) -> None:
        """Record how much of a running job is done. Planning does not use it."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, fraction=fraction)

    def last_to_end(self, host: str, *, apart_from: str) -> str | None:
        """Return the other model on a host whose jobs end last, or None if there is none."""
        running = [
            (slot.ends_at, slot.job.model)
            for slot in self._slots.values()
            if host in self.catalog.hosts_of[slot.backend] and slot.job.model != apart_from
        ]
        return max(running)[1] if running else None

    def vacate(self, job_id: int) -> None:
        """Free a job's slot. Idempotent."""
        if (slot := self._free(job_id)) is not None:
            self.ended(slot.job.model, slot.backend)
            self.meter.rest(job_id)
            self.shown()
            self._changed()

    def _free(self, job_id: int) -> Slot | None:
        slot = self._slots.pop(job_id, None)
        if slot is not None:
            key = slot.job.model, slot.backend
            self.busy[key] -= 1
            if not self.busy[key]:
                del self.busy[key]
                self.turned.add(slot.backend)
        return slot

    @property
    def slots(self) -> Mapping[int, Slot]:
        """The occupied slots by job id."""
        return self._slots

    def running_on(self, backend: str) -> tuple[Job, ...]:
        """Return the jobs that occupy slots on a backend."""
        return tuple(slot.job for slot in self._slots.values() if slot.backend == backend)
