"""The services the queue needs, as protocols it owns.

Adapters implement these elsewhere; one contract suite per protocol runs against every
implementation. An implementation raises the errors named here and nothing else on purpose.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from queueing.core.catalog import HostSpec, ModelSpec
from queueing.core.jobs import Job, JobEvent, NewJob
from queueing.core.paused import Paused
from queueing.core.requests import Capability, Chat, File, Output, Progress, TextToImage, Work


class Clock(Protocol):
    """Tells the time. Waiting is plain asyncio and needs no port."""

    def now(self) -> float:
        """Return UNIX seconds."""


# ---------------------------------------------------------------- the store


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """The limits one acceptance is held against; None for no limit.

    `max_open` open jobs of the owner; of them `max_in_line` stand in lines, the rest wait in the
    owner's overflow; `max_waiting` jobs in the model's line and overflow together; `max_per_hour`
    accepted jobs of the owner in any hour, deleted ones included, failed ones not.
    """

    max_open: int | None = None
    max_in_line: int | None = None
    max_waiting: int | None = None
    max_per_hour: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The waiting jobs of one model and lane.

    `waiting` counts those with a place (not the overflow); `heads` are the first startable ones
    in order, `first_queued_at` the acceptance of the very first waiting one, startable or not;
    `next_start_at` is when a held or pausing job before or among the heads becomes startable;
    `held` says that one of those has never started: its prompt is being improved. `passed` are
    the jobs before the first head, which others pass while they pause.
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

    `number` counts from 1 within its lane; None while it is passed by others or starts already.
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
    size: str  # the class of request sizes it holds for; "" for loads
    samples: int
    median_s: float
    spread_s: float


class Store(Protocol):
    """The durable record of all jobs; the only writer of their states.

    Every method returns after its change is durable; all are safe to call concurrently and to
    cancel (the change then happens whole or not at all). Errors: `StoreError` when the database
    fails, `NotAccepting(full_disk=True)` from `add` when the disk is full.
    """

    database_id: UUID  # made once per database; attempts derive their keys from it

    async def add(self, new: NewJob, now: float, *, limits: Admission) -> Job:
        """Accept a job: place, limits and idempotency key in one transaction.

        A known key returns the job it made before, whatever the limits. Raises `LimitReached`.
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
    ) -> Job:
        """Change a job's state as `TRANSITIONS` says and return its new value.

        A job that fails counts no longer against its owner's hour, nor does one with `gives_back`.

        Compare-and-set on id, version and source state; raises `StaleJob` when somebody was
        faster. A job that ends lets its owner's oldest overflow job enter its line at the end.
        """

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""

    async def lines(self, now: float, *, per_line: int) -> list[Line]:
        """Return every line that has waiting jobs; cost does not grow with their number."""

    def take_entered(self) -> frozenset[str]:
        """Return the models whose lines an overflow job has entered since the last call.

        No event tells of it: the job did nothing, another one of its owner's ended.
        """

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return 1 + the number of jobs waiting ahead in the same model and lane.

        Overflow jobs count the whole line and their owner's earlier overflow as ahead. Jobs that
        wait no longer are left out. Microseconds each, at any depth.
        """

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return where waiting jobs stand that have a place, as the lines were last read.

        `begun` are those whose start is being written down: they count as started. Microseconds
        each, at any depth.
        """

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of everybody, oldest first."""

    async def inputs(self, job: Job) -> tuple[File, ...]:
        """Return the files the job was accepted with."""

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""

    async def processing(self) -> list[Job]:
        """Return the jobs in state processing, oldest start first (after a restart: orphans)."""

    async def abandoned(self) -> list[Job]:
        """Return the jobs that were cancelled after a start and are not yet acknowledged.

        After a restart the server of such a job may not have been told.
        """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first.

        `owner` leaves out those of others.
        """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

    async def move_first(self, job_id: int) -> Job | None:
        """Give a waiting job a place before all others of its line and return it as it is now.

        Its lane is kept, and the positions of the jobs it passes rise by one. A job in its
        owner's overflow enters the line so. None when there is no such job, or it waits no longer.
        """

    async def amend(
        self,
        job_id: int,
        request: TextToImage | Chat,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
    ) -> Job | None:
        """Give a job that never started another request, let it start at once and return it.

        `files` join its inputs, after those it has; `reply_to` replaces its own. It keeps its place;
        its hold, if any, ends. None when it has started or ended, or there is
        no such job.
        """

    async def history(
        self, owner: str, *, limit: int, before: int | None = None, made_for_jobs: bool = False
    ) -> list[Job]:
        """Return an owner's jobs, open and ended, newest first.

        `before` is the id of a job: only older ones are returned. Enhancements and other jobs made
        for a job are left out unless `made_for_jobs`.
        """

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end. Idempotent."""

    async def learned(self) -> list[Learned]:
        """Return all learned durations."""

    async def learn(self, learned: Sequence[Learned]) -> None:
        """Replace learned durations."""

    async def sizes(self) -> Mapping[str, int]:
        """Return the memory models were seen to take, in MB."""

    async def note_sizes(self, sizes: Mapping[str, int]) -> None:
        """Replace the memory these models were seen to take, in MB; others keep theirs."""

    async def residency(self) -> list[tuple[str, str, bool]]:
        """Return (model, backend, pinned) of the copies noted last."""

    async def note_residency(self, copies: Sequence[tuple[str, str, str, str, bool]]) -> None:
        """Replace the table of copies: (host, backend, model, residency, pinned)."""

    async def paused(self) -> Paused:
        """Return what an admin has paused."""

    async def note_paused(self, paused: Paused) -> None:
        """Replace what an admin has paused."""

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged ended jobs older than `before` with their bytes.

        With `keep_mb`, also the oldest outputs and inputs beyond that size. Returns the number of
        jobs deleted.
        """

    async def erase(self, job_ids: Sequence[int]) -> int:
        """Delete those of the jobs that have ended, with their files and what others keep of them.

        Ended jobs whose `parent` is one of them go too, uncounted. Their bytes are overwritten in
        the store's files before this returns, as far as the file system writes in place; backups
        made before keep them. Returns the number deleted.
        """

    async def aclose(self) -> None:
        """Flush and close. Idempotent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFile:
    """A file of a job's result without its bytes; `owner` is the job's."""

    owner: str
    name: str
    size: int


class ResultFiles(Protocol):
    """The files of all results, by job and number (counted from 1)."""

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return what is known of a file, None where it is not kept (any more)."""

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None where the file is not kept (any more)."""


# ---------------------------------------------------------------- inference servers

Report = Callable[[Progress], None]
"""Called with each progress; must neither block nor raise."""

Fetch = Callable[[], Awaitable[Output]]
"""Brings the output of an attempt the server is done with; may be awaited again after an error."""


Recorded = Callable[[], Awaitable[None]]
"""Returns once an attempt is written down; raises when it cannot be."""


async def at_once() -> None:
    """Return: there is nothing to wait for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """What a server says of itself: a name with version, its memory, and what to know about it.

    `total_mb` and `free_mb` are the memory of its card where it tells, None otherwise. `notes`
    are sentences for `usher check`, such as what an old version cannot do.
    """

    description: str
    total_mb: int | None = None
    free_mb: int | None = None
    notes: tuple[str, ...] = ()


class Backend(Protocol):
    """An inference server. Failures are `BackendError`s only; calls may overlap.

    Cancelling any call stops its work on the server as far as the server can, then re-raises;
    after `leave` the attempts of `run` and `resume` go on instead.
    """

    capabilities: frozenset[Capability]  # what servers of this kind can do at all
    unloads_together: bool  # one unload frees all models of this server
    can_unload: bool  # False: a model stays until the server itself drops it

    def check(self, model: ModelSpec) -> None:
        """Raise `BadModel` when the model's options cannot work here. No I/O but local files."""

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        """Return the fields of `TextToImage` the model honours here; None: all of them.

        The prompt is not named. Empty for models that draw nothing. The model has passed `check`.
        """

    def weightless(self, model: ModelSpec) -> bool:
        """Return whether the model takes no memory here: always at hand, in nobody's way."""

    def own_name(self, model: ModelSpec) -> str:
        """Return what the server itself calls what a model takes into memory.

        Two models of one own name cannot be told apart there: what unloads one unloads both.
        """

    async def probe(self) -> ServerInfo:
        """Ask the server who it is; raise `Unavailable` when it does not answer."""

    async def gone(self) -> None:
        """Return once the server has gone away since the call, however soon it is back.

        It is asked of a server that answers but does not work, whose restart between two probes
        must be seen. It may return early, and never returns where there is nothing to see.
        """

    async def verify(self, model: ModelSpec) -> None:
        """Ask the server whether it has what the model needs; raise `BadModel` when not."""

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return what the server offers beside `known`, each with `backends=(its own name,)`.

        A known model is left out under whatever name: two of it would be counted in memory twice.
        """

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:
        """Return the names of the LoRAs the server has for a model, as requests may give them.

        Empty where the model takes none. Raises `Unavailable`.
        """

    async def run(
        self, model: ModelSpec, work: Work, report: Report, recorded: Recorded = at_once
    ) -> Fetch:
        """Run one attempt; return when the server is done with it: the slot is free then.

        All can be made ready before `recorded` returns, but nothing that the server would work on
        is sent. What `recorded` raises is raised again.
        """

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:
        """Go on with an attempt sent before a crash, under the same `work.key`.

        Still running: watch it to its end. Finished: return its `Fetch` at once. Unknown to the
        server, or stopped before its end: return None, soon. Fails as `run` does when the attempt
        failed.
        """

    def leave(self) -> bool:
        """Let the server go on with what runs when its calls are cancelled, from now on.

        Called once, before an orderly stop: `resume` finds the attempts at the next start. False
        where the server stops when nobody listens, or keeps nothing.
        """

    async def load(self, model: ModelSpec) -> None:
        """Bring the model into memory; return when it is usable. Idempotent; never two copies."""

    async def unload(self, model: ModelSpec) -> None:
        """Free the model's memory; return when the server says so. Idempotent."""

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return the names of those models that are in memory; None when the server cannot tell."""

    async def aclose(self) -> None:
        """Close connections. Idempotent."""


class MemoryProbe(Protocol):
    """Measures cards that are in this machine."""

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's card in MB, or None when it cannot be measured."""
