"""The port of the store, in parts that fit their users, and the values they exchange.

Every method returns after its change is durable; all are safe to call concurrently and to cancel
(the change then happens whole or not at all). Errors: `StoreError` when the database fails.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, JobState, NewJob
from queueing.core.paused import Paused
from queueing.core.requests import File, Output, Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """The limits one acceptance is held against; None for no limit.

    Bulk (`queueing.core.jobs.is_bulk`), later ones and the other jobs of an owner are counted apart.
    `max_open` open jobs of the owner; of them `max_in_line` stand in lines, the rest wait in the
    owner's overflow; `max_waiting` jobs in the model's line and overflow together; `max_per_hour`
    accepted jobs of the owner in any hour, deleted ones included, failed ones not; `max_gpu_s`
    seconds of cards that the owner's jobs ended since `gpu_since` took and open ones will take,
    bulk included: a job is accepted as long as some of it is left.
    """

    max_open: int | None = None
    max_in_line: int | None = None
    max_waiting: int | None = None
    max_per_hour: int | None = None
    max_gpu_s: float | None = None
    gpu_since: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The waiting jobs of one model and lane.

    `waiting` counts those with a place (not the overflow); `heads` are the first startable ones in
    order, `first_queued_at` the acceptance of the very first waiting one, startable or not;
    `next_start_at` is when a delayed or pausing job before or among the heads becomes startable;
    `held` says that one of those has never started: its prompt is being improved. `passed` are the
    jobs before the first head, which others pass while they pause.
    """

    model: str
    lane: str
    waiting: int
    heads: tuple[Job, ...]
    first_queued_at: float
    next_start_at: float | None = None
    held: bool = False
    passed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StartOrder:
    """Where a waiting job stands among those of its model that could start now.

    `number` counts from 1 within its lane; None while others pass it or while it is starting.
    `lanes` counts such jobs in each lane of the model.
    """

    number: int | None
    lanes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """One learned duration: a running median and spread, in seconds."""

    kind: str  # "service" or "load"
    model: str
    host: str
    size: str  # the class of request sizes it applies to; "" for loads
    samples: int
    median_s: float
    spread_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How far off an estimate was, as a share of the time it looked ahead.

    `number` counts those of its category; a newer one in the same `slot` replaces an older one.
    """

    category: str
    slot: int
    number: int
    value: float


# ---------------------------------------------------------------- jobs and lines


class JobChanges(Protocol):
    """Changes jobs, and nothing else does."""

    async def add(self, new: NewJob, now: float, *, limits: Admission) -> Job:
        """Accept a job: place, limits and idempotency key in one transaction.

        A known key returns the job it made before, whatever the limits. Raises `LimitReached`, and
        `NotAccepting(full_disk=True)` when the disk is full.
        """

    async def apply(
        self,
        job: Job,
        event: JobEvent,
        now: float,
        *,
        runner: str | None = None,
        backend: str | None = None,
        not_before: float = 0.0,
        error: str | None = None,
        output: Output | None = None,
        suspect: bool = False,
        gives_back: bool = False,
        gpu_s: float = 0.0,
    ) -> JobChanged:
        """Change a job's state as `TRANSITIONS` says and return what has happened.

        A job that fails counts no longer against its owner's hour, nor does one with `gives_back`.
        `gpu_s` is what one that ends took of a card; its owner's use grows by it.

        Compare-and-set on id, version and source state; raises `StaleJob` when another change was faster. A job that ends lets its owner's oldest overflow job enter its line at the end.
        """

    async def move_first(self, job_id: int) -> Job | None:
        """Move a waiting job to the first place of its line and return it as it is now.

        Its lane is kept, and the positions of the jobs it passes rise by one. A job in its owner's
        overflow enters the line this way. Returns None when there is no such job, or it no longer
        waits.
        """

    async def replace_request(
        self,
        job_id: int,
        request: Request,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
        release: bool = True,
        version: int | None = None,
    ) -> Job | None:
        """Replace the request of a job that never started, let it start at once and return it.

        `files` are added to its inputs; `reply_to` replaces its own. It keeps its place; its delay,
        if any, ends, unless it is not to be released. Returns None when it has started or ended,
        does not exist, or has another `version` than the one given.
        """


class OutputReader(Protocol):
    """Reads what jobs produced."""

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""


class OpenJobReader(Protocol):
    """Reads the jobs that have not ended."""

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first."""


class JobFiles(OutputReader, Protocol):
    """Reads what jobs were accepted with, too.

    Both may be large: every process reads them from the database that it has open, whoever holds
    the queue.
    """

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files the job was accepted with; None after retention removed them."""


class AcceptedJobs(JobFiles, OpenJobReader, Protocol):
    """Reads jobs by number, key or owner."""

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""

    async def held_jobs(self) -> list[Job]:
        """Return the jobs that start only once they are given another request, oldest first."""

    async def history(
        self,
        owner: str,
        *,
        limit: int,
        before: int | None = None,
        made_for_jobs: bool = False,
        states: tuple[JobState, ...] = (),
    ) -> list[Job]:
        """Return an owner's jobs, open and ended, newest first.

        `before` is the id of a job: only older ones are returned. Enhancements and other jobs made
        for a job, and bulk, are left out unless `made_for_jobs`.
        With `states`, only jobs in one of them are returned.
        """


class JobRecords(AcceptedJobs, Protocol):
    """The jobs of one database."""

    database_id: UUID  # made once per database; attempts derive their keys from it


class Jobs(JobChanges, JobRecords, Protocol):
    """Reads jobs and changes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuTime:
    """A person's seconds on the cards: what ended jobs took, and what open ones will take."""

    used_s: float
    held_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarterUse:
    """The seconds that an owner's jobs took of the cards in a quarter of an hour from `at`."""

    owner: str
    at: float
    seconds: float


class GpuTimes(Protocol):
    """Knows what people took of the cards, for the last two days."""

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return how many seconds of the cards each owner's jobs took since a moment."""


class GpuReader(GpuTimes, Protocol):
    """Knows what a person took of the cards as well, and what is held."""

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return what an owner's jobs took of the cards since a moment, and what is held.

        A job counts from its end; a failed one never does.
        """


class CardUse(GpuReader, Protocol):
    """Knows who took how much of the cards when."""

    async def gpu_quarters(self, since: float) -> list[QuarterUse]:
        """Return what each owner's jobs took of the cards since a moment, the oldest first."""


class Deliveries(Protocol):
    """Lists the jobs whose end people have not seen, until it is acknowledged.

    Events are hints: any that were missed, by a restart or a lost connection, are found here.
    """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first.

        `owner` restricts it to that person's jobs.
        """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end: it is not listed again. Idempotent."""


class InterruptedJobs(Protocol):
    """Names the jobs that a stop or a crash left behind."""

    async def processing(self) -> list[Job]:
        """Return the jobs in state processing, oldest start first (after a restart: orphans)."""

    async def overtaking(self) -> list[Job]:
        """Return the ended jobs that started before one that waits ahead of them, oldest first.

        One that comes later may have the place that such a job had.
        """

    async def abandoned(self) -> list[Job]:
        """Return the jobs that were cancelled after a start and are not yet acknowledged.

        After a restart, the server of such a job may not know of the cancellation.
        """


class DatedJobs(Protocol):
    """Names waiting jobs that have a moment."""

    async def expired(self, now: float) -> list[Job]:
        """Return the jobs that have not begun although they should have by now."""

    async def next_expiry(self) -> float | None:
        """Return when the next job ends unless it begins, None if no waiting one does."""

    async def dated(self) -> list[Job]:
        """Return the waiting jobs that shall be done at a moment, the soonest first."""


class Lines(Protocol):
    """Shows who waits, in which order."""

    async def lines(self, now: float, *, per_line: int) -> list[Line]:
        """Return every line that has waiting jobs; the cost does not grow with their number."""

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return 1 + the number of jobs waiting ahead in the same model and lane.

        Overflow jobs count the whole line and their owner's earlier overflow as ahead. Jobs that no
        longer wait are left out. Microseconds each, at any depth.
        """

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return where waiting jobs with a place stand, as the lines were last read.

        `begun` are those whose start is being stored: they count as started. Microseconds each, at
        any depth.
        """


# ---------------------------------------------------------------- models, pauses, upkeep


class ModelKnowledge(Protocol):
    """Keeps what is known of models: copies, memory and learned times."""

    async def residency(self) -> list[tuple[str, str, bool]]:
        """Return the (model, backend, pinned) of the copies stored last."""

    async def note_residency(self, copies: Sequence[tuple[str, str, str, str, bool]]) -> None:
        """Replace the table of copies: (host, backend, model, residency, pinned)."""

    async def sizes(self) -> Mapping[str, int]:
        """Return the measured memory of models, in MB."""

    async def note_sizes(self, sizes: Mapping[str, int]) -> None:
        """Replace the measured memory of these models, in MB; others keep theirs."""

    async def learned(self) -> list[Learned]:
        """Return all learned durations."""

    async def learn(self, learned: Sequence[Learned]) -> None:
        """Replace learned durations."""

    async def scores(self) -> list[Score]:
        """Return the newest scores of estimates."""

    async def note_scores(self, scores: Sequence[Score]) -> None:
        """Store scores of estimates."""


class Pauses(Protocol):
    """Keeps what an admin has paused."""

    async def paused(self) -> Paused:
        """Return what an admin has paused."""

    async def note_paused(self, paused: Paused) -> None:
        """Replace what an admin has paused."""


class Upkeep(Protocol):
    """Deletes jobs for good."""

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged ended jobs older than `before` with their bytes.

        With `keep_mb`, also the oldest outputs and inputs beyond that size. Returns the number of
        jobs deleted.
        """

    async def erase(self, job_ids: Sequence[int]) -> int:
        """Delete the given jobs that have ended, with their files and references from other jobs.

        Ended jobs whose `parent` is one of them are deleted too, uncounted. Their bytes are
        overwritten in the store's files before this returns, as far as the file system writes in
        place; earlier backups keep them. Returns the number deleted.
        """


class Store(
    Jobs,
    CardUse,
    Deliveries,
    InterruptedJobs,
    DatedJobs,
    Lines,
    ModelKnowledge,
    Pauses,
    Upkeep,
    Protocol,
):
    """The durable record of all jobs, for those who hand its parts on."""

    async def aclose(self) -> None:
        """Flush and close. Idempotent."""


# ---------------------------------------------------------------- files of results


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFile:
    """A file of a job's result without its bytes; `owner` is the job's."""

    owner: str
    name: str
    mime: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a job produced, without the bytes of its files."""

    text: str = ""
    answer: str = ""
    files: tuple[ResultFile, ...] = ()


class ResultFiles(Protocol):
    """The files of all results, by job and number (counted from 1)."""

    async def result(self, job_id: int) -> Result | None:
        """Return a job's result, None if there is none (any more)."""

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties, None if it is not kept (any more)."""

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None if the file is not kept (any more)."""
