"""Statistics of a model or host per minute or hour. Pure functions and values.

Buckets are added up, so they may arrive in any order and in any number of parts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import exp, floor, log
from typing import NamedTuple, Self

from bot.monitoring.records import Activity
from queueing.core.errors import Problem
from queueing.core.jobs import Job, JobState
from queueing.core.status import Promised

FIRST_S = 0.1
_WIDER = log(1.1)
_LAST = 210  # the class for half a year and longer


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of durations by class number."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of durations."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """Return the quantile at `share` (0 to 1) in seconds, or None without durations."""
        rest = share * self.total
        for number in sorted(self.counts):
            rest -= self.counts[number]
            if rest <= 0:
                return middle_s(number)
        return None

    def __add__(self, other: "Histogram") -> "Histogram":
        """Return the sum of both histograms."""
        counts = dict(self.counts)
        for number, count in other.counts.items():
            counts[number] = counts.get(number, 0) + count
        return Histogram(counts)

    def written(self) -> str:
        """Return the histogram as text, such as `12:3 40:1`."""
        return " ".join(f"{number}:{self.counts[number]}" for number in sorted(self.counts))

    @classmethod
    def read(cls, text: str) -> "Histogram":
        """Parse the text of `written`."""
        pairs = (pair.partition(":") for pair in text.split())
        return cls({int(number): int(count) for number, _, count in pairs})

    @classmethod
    def of(cls, seconds: float) -> "Histogram":
        """Return the histogram of a single duration."""
        return cls({class_of(seconds): 1})


def class_of(seconds: float) -> int:
    """Return the class number of a duration."""
    if seconds <= FIRST_S:
        return 0
    return min(_LAST, 1 + floor(log(seconds / FIRST_S) / _WIDER))


def middle_s(number: int) -> float:
    """Return the duration in the middle of a class."""
    return FIRST_S / 2 if number == 0 else FIRST_S * exp((number - 0.5) * _WIDER)


MINUTE_S, HOUR_S = 60, 3600
GRAINS = (MINUTE_S, HOUR_S)
"""The lengths of stored buckets, in seconds."""


class BucketKey(NamedTuple):
    """A bucket: its first second, and the model or host."""

    at: int
    name: str


def beginning(moment: float, grain_s: int) -> int:
    """Return the first second of the bucket that contains a moment."""
    return floor(moment / grain_s) * grain_s


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedJob:
    """The facts about an ended job that are counted."""

    id: int
    model: str
    state: JobState
    queued_at: float
    started_at: float | None
    finished_at: float
    error: str | None
    promised: Promised | None = None


def ended_job(job: Job, promised: Promised | None) -> EndedJob:
    """Return the facts to count for a job that has just ended."""
    return EndedJob(
        id=job.id,
        model=job.model,
        state=job.state,
        queued_at=job.queued_at,
        started_at=job.started_at,
        finished_at=job.queued_at if job.finished_at is None else job.finished_at,
        error=job.error,
        promised=promised,
    )


class _Sum:
    """Adds instances field by field."""

    __slots__ = ()

    def plus(self, other: Self) -> Self:
        """Return the sum of both."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class CountsByName:
    """Counts by name, such as failed jobs by cause, and the newest job of each."""

    by_name: Mapping[str, int] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "CountsByName") -> "CountsByName":
        """Return the sums by name."""
        sums, newest = dict(self.by_name), dict(self.newest)
        for name, count in other.by_name.items():
            sums[name] = sums.get(name, 0) + count
        for name, job in other.newest.items():
            newest[name] = max(newest.get(name, 0), job)
        return CountsByName(sums, newest)

    def written(self) -> str:
        """Return the counts and jobs as text, such as `away:2:17 memory:1:9`."""
        return " ".join(
            f"{name}:{count}" + (f":{self.newest[name]}" if name in self.newest else "")
            for name, count in sorted(self.by_name.items())
        )

    @classmethod
    def read(cls, text: str) -> "CountsByName":
        """Parse the text of `written`."""
        parts = [each.split(":") for each in text.split()]
        return cls(
            {name: int(count) for name, count, *_ in parts},
            {name: int(job[0]) for name, _, *job in parts if job},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelBucket(_Sum):
    """Statistics of a model's jobs and copies.

    A job counts when it ends. `waits` and `services` cover only jobs that were started. `service_s`
    is the total running time of jobs, and `load_s` the total time of loads.
    """

    done: int = 0
    failed: int = 0
    cancelled: int = 0
    service_s: float = 0.0
    waits: Histogram = field(default_factory=Histogram)
    services: Histogram = field(default_factory=Histogram)
    loads: int = 0
    failed_loads: int = 0
    load_s: float = 0.0
    evictions: int = 0
    given: int = 0
    kept: int = 0
    errors: CountsByName = field(default_factory=CountsByName)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostBucket(_Sum):
    """How long a host spent on each activity, and its loads and evictions."""

    run_s: float = 0.0
    loading_s: float = 0.0
    idle_s: float = 0.0
    quiet_s: float = 0.0
    yielding_s: float = 0.0
    paused_s: float = 0.0
    asleep_s: float = 0.0
    down_s: float = 0.0
    loads: int = 0
    failed_loads: int = 0
    load_s: float = 0.0
    evictions: int = 0


SECONDS: Mapping[Activity, str] = {
    "run": "run_s",
    "load": "loading_s",
    "idle": "idle_s",
    "quiet": "quiet_s",
    "yielding": "yielding_s",
    "paused": "paused_s",
    "asleep": "asleep_s",
    "down": "down_s",
}
"""The field of `HostBucket` for the seconds of each activity."""


class _Tally:
    """Collects jobs into a bucket one by one; buckets themselves are immutable."""

    def __init__(self) -> None:
        self.ended: Counter[JobState] = Counter()
        self.waits: Counter[int] = Counter()
        self.services: Counter[int] = Counter()
        self.errors = CountsByName()
        self.service_s = 0.0
        self.given = self.kept = 0

    def add(self, job: EndedJob) -> None:
        """Count a job."""
        self.ended[job.state] += 1
        if job.started_at is not None:
            service_s = max(0.0, job.finished_at - job.started_at)
            self.service_s += service_s
            self.services[class_of(service_s)] += 1
            self.waits[class_of(max(0.0, job.started_at - job.queued_at))] += 1
        if job.state is JobState.FAILED and job.error:
            what = str(Problem.read(job.error).what)
            self.errors += CountsByName({what: 1}, {what: job.id})
        if job.state is JobState.COMPLETED and job.promised is not None:
            self.given += 1
            self.kept += job.promised.kept(job.finished_at)

    def bucket(self) -> ModelBucket:
        """Return the bucket of the jobs counted so far."""
        return ModelBucket(
            done=self.ended[JobState.COMPLETED],
            failed=self.ended[JobState.FAILED],
            cancelled=self.ended[JobState.CANCELLED],
            service_s=self.service_s,
            waits=Histogram(self.waits),
            services=Histogram(self.services),
            given=self.given,
            kept=self.kept,
            errors=self.errors,
        )


def tallied(jobs: Iterable[EndedJob]) -> Mapping[BucketKey, ModelBucket]:
    """Return the statistics of jobs by the minute of their end and their model."""
    tallies: defaultdict[BucketKey, _Tally] = defaultdict(_Tally)
    for job in jobs:
        tallies[BucketKey(beginning(job.finished_at, MINUTE_S), job.model)].add(job)
    return {key: tally.bucket() for key, tally in tallies.items()}
