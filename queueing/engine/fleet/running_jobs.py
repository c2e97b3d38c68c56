"""Which job runs on which backend, and how much of its GPU it takes.

Memory only, changed by the job runner. It never calls a server or the store.

A GPU shared by several running jobs is split among them: while n run, each takes 1/n of a second a
second.
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
    """`share_s` is what a job that ran all the time would have taken by the moment `at`."""

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
    """A job on its GPUs: what it took before `since_s`, its gpus' share when it went on."""

    gpus: tuple[_Gpu, ...]
    taken_s: float
    since_s: float | None = None  # None while it takes nothing

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
    """Keeps the jobs on each host's GPU; a model that spans several takes its share of each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gpus: dict[str, _Gpu] = {}
        self._jobs: dict[int, _Metered] = {}

    def begin(self, job_id: int, hosts: Sequence[str], *, taken_s: float = 0.0) -> None:
        """Note that an attempt begins on hosts' GPUs; an earlier one of the job is not counted.

        `taken_s` is what this very attempt took before.
        """
        self.forget(job_id)
        now = self._clock.now()
        gpus = [self._gpus.setdefault(host, _Gpu(now)) for host in hosts]
        self._jobs[job_id] = metered = _Metered(tuple(gpus), taken_s)
        metered.go_on(now)

    def go_on(self, job_id: int) -> None:
        """Note that a job that rested takes its share again. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.go_on(self._clock.now())

    def rest(self, job_id: int) -> None:
        """Note that a job takes nothing: it has ended there, or not begun yet. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.rest(self._clock.now())

    def forget(self, job_id: int) -> None:
        """Drop what a job took. Idempotent."""
        self.rest(job_id)
        self._jobs.pop(job_id, None)

    def taken_s(self, job_id: int) -> float:
        """Return the seconds of a GPU that a job's present attempt has taken so far."""
        metered = self._jobs.get(job_id)
        if metered is None:
            return 0.0
        if metered.since_s is None:
            return metered.taken_s
        return metered.taken_s + metered.share_s(self._clock.now()) - metered.since_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A job's place on a backend, from before its start is stored until the server has finished."""

    job: Job
    backend: str
    ends_at: float
    held: bool = False  # by other clients' prompts in the server's own queue
    began_at: float = 0.0
    fraction: float | None = None  # of its work, as its server has reported last


_altered = altering(Slot)


class RunningJobs:
    """Keeps the slots of all backends, and what each job takes of its GPUs."""

    def __init__(self, catalog: Catalog, clock: Clock, changed: Callable[[], None]) -> None:
        """Create it; `changed` is called when the router should look again."""
        self.catalog = catalog
        # Called when what copies run has changed, and with the model and backend of an ended job.
        self.shown: Callable[[], None] = lambda: None
        self.ended: Callable[[str, str], None] = lambda _model, _backend: None
        self.meter = GpuMeter(clock)
        self.busy: Counter[tuple[str, str]] = Counter()  # running jobs by model and backend
        self.turned: set[str] = set()  # backends where a model began or ceased to run, or moved
        self._clock = clock
        self._changed = changed
        self._slots: dict[int, Slot] = {}

    def occupy(self, job: Job, backend: str, ends_at: float, *, taken_s: float = 0.0) -> None:
        """Give a job a slot on a backend until it is vacated; `ends_at` is only an expectation.

        `taken_s` is what the same attempt took of the GPU before the last restart.
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
        """Note that a job's start is stored."""
        slot = self._slots.get(job.id)
        if slot is not None:
            self._slots[job.id] = _altered(slot, job=job)

    def expect(self, job_id: int, ends_at: float) -> None:
        """Correct when a running job is expected to end, from its own progress."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, ends_at=ends_at, held=False)
            self.meter.go_on(job_id)
            self.shown()

    def hold(self, job_id: int) -> None:
        """Note that a job waits in its server's own queue for an unknown time."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, held=True)
            self.meter.rest(job_id)
            self.shown()

    def reach(self, job_id: int, fraction: float) -> None:
        """Note how much of a running job is done; nothing is planned by it."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = _altered(slot, fraction=fraction)

    def last_to_end(self, host: str, *, apart_from: str) -> str | None:
        """Return, of the other models that run on a host, the one whose jobs end last."""
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
        """The occupied slots, by job id."""
        return self._slots

    def running_on(self, backend: str) -> tuple[Job, ...]:
        """Return the jobs that occupy slots of a backend."""
        return tuple(slot.job for slot in self._slots.values() if slot.backend == backend)
