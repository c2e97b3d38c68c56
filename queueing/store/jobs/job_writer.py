"""Accepts and changes jobs in batches, inside the writer's transaction.

Runs in the writer's thread. Nothing may be written for an item whose outcome is an exception, so
every check comes before the first write.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from queueing.core.errors import StaleJob
from queueing.core.events import JobChanged, make_change
from queueing.core.jobs import LATER, Job, JobEvent, JobState, NewJob, SubmitLimits, is_bulk
from queueing.core.requests import File, Output, Request
from queueing.store.jobs import queries
from queueing.store.jobs.admission import AdmissionCounters, account
from queueing.store.jobs.positions import Move, PositionIndex, QueueKey, account_of
from queueing.store.jobs.rows import (
    Row,
    accepted,
    file_rows,
    insert_rows,
    job_from,
    job_row,
    output_rows,
)
from queueing.store.sql.database import DISK_FULL, Changes, Connection, DiskFull

_TEXT_BYTES = 16_384


class Submission(NamedTuple):
    """A job to accept, with its request as JSON. A tuple for speed."""

    new: NewJob
    request: str
    now: float
    limits: SubmitLimits


class Replacement(NamedTuple):
    """A new request for a job, with further inputs and a new `reply_to` if given.

    With `version`, applies only if the job still has that version. Without `release`, the job's
    delay continues.
    """

    job_id: int
    request: Request
    files: Sequence[File] = ()
    reply_to: str | None = None
    release: bool = True
    version: int | None = None


class Change(NamedTuple):
    """A job before an event, as the caller knows it, and after it."""

    event: JobEvent
    before: Job
    after: Job
    runner: str | None
    output: Output | None
    gives_back: bool
    gpu_s: float = 0.0  # GPU time to count, if any


class JobWriter:
    """Writes batches of items and returns an outcome for each.

    `moves` are committed changes of place that the `PositionIndex` has not applied.
    """

    def __init__(self, is_short_of_disk: Callable[[], bool], *, numbers_used: int = 0) -> None:
        self._is_short_of_disk = is_short_of_disk
        self._counters = AdmissionCounters(numbers_used)
        self.moves: list[Move] = []
        self._unsettled: list[Move] = []  # moves of the open transaction

    def forget(self) -> None:
        """Discard all cached state after a rollback."""
        self._counters.forget()
        self._unsettled.clear()

    def settle(self, _: Connection) -> None:
        """Keep the moves of the committed transaction, even if the next one is rolled back."""
        self.moves += self._unsettled
        self._unsettled.clear()

    # ------------------------------------------------------------ accepting

    def accept(
        self, connection: Connection, arrivals: Sequence[Submission]
    ) -> list[Job | Exception]:
        """Accept jobs, or find those that their keys created earlier."""
        self._counters.know(connection)
        self._counters.arrive()
        known = known_by_key(connection, [arrival.new.key for arrival in arrivals])
        full = DiskFull(DISK_FULL) if self._is_short_of_disk() else None
        outcomes: list[Job | Exception] = []
        rows: list[Row] = []
        inputs: list[Row] = []
        for arrival in arrivals:
            new, key = arrival.new, arrival.new.key
            answer = (
                known.get(key)
                or full
                or self._counters.refusal(connection, new, arrival.limits, arrival.now)
            )
            if answer is None:
                answer = known[key] = self._admit(arrival)
                rows.append(job_row(answer, key, arrival.request))
                if new.files:
                    inputs += file_rows(answer.id, new.files)
            outcomes.append(answer)
        insert_rows(connection, queries.INSERT_JOB, queries.INSERT_JOBS, rows)
        connection.insert_files(queries.INSERT_INPUT, inputs)
        self._counters.write(connection, arrivals[-1].now)
        return outcomes

    def _admit(self, arrival: Submission) -> Job:
        job_id, seq = self._counters.admit(arrival.new, arrival.limits.max_queued)
        job = accepted(arrival.new, job_id, seq, arrival.now)
        self._unsettled.append(Move(job_id, account(job), (job.model, job.lane), seq))
        self._counters.charge(job)
        return job

    # ------------------------------------------------------------ moving forward

    def move_first(self, connection: Connection, job_ids: Sequence[int]) -> list[Job | None]:
        """Move waiting jobs to the front of their queues, one after the other."""
        self._counters.know(connection)
        jobs = jobs_by_id(connection, job_ids)
        waiting = (job for job in jobs.values() if job.state is JobState.PENDING)
        firsts = first_places(connection, {(job.model, job.lane) for job in waiting})
        rows: list[Row] = []
        moved: list[Job | None] = []
        for job_id in job_ids:
            job = jobs.get(job_id)
            if job is None or job.state is not JobState.PENDING:
                moved.append(None)
                continue
            queue = (job.model, job.lane)
            first, running = firsts[queue]
            seq = first
            if first is None or first != job.seq:
                # A running job keeps its place and may return to it, and no two jobs may share one.
                taken = [each for each in (first, running) if each is not None]
                seq = min(taken) - 1 if taken else self._counters.next_place(queue)
            if seq != job.seq or not job.moved:
                rows.append((seq, job_id))
                if job.seq is None:
                    self._counters.entered(account(job))
                self._unsettled.append(Move(job_id, account(job), queue, seq))
                firsts[queue] = seq, running
                job = jobs[job_id] = replace(job, seq=seq, moved=True, version=job.version + 1)
            moved.append(job)
        connection.executemany(queries.PUT_FIRST, rows)
        return moved

    # ------------------------------------------------------------ another request

    def replace_request(
        self, connection: Connection, replacements: Sequence[Replacement]
    ) -> list[Job | None]:
        """Replace the requests of jobs that never started; end the delays of those released."""
        self._counters.know(connection)
        jobs = jobs_by_id(connection, [each.job_id for each in replacements])
        with_files = {each.job_id for each in replacements if each.files}
        inputs = counts_of_inputs(connection, with_files)
        rows: list[Row] = []
        files: list[Row] = []
        replaced: list[Job | None] = []
        for job_id, request, added, given, release, version in replacements:
            job = jobs.get(job_id)
            if job is None or job.state is not JobState.PENDING or job.attempt:
                replaced.append(None)
                continue
            if version is not None and job.version != version:
                replaced.append(None)
                continue
            reply_to = job.reply_to if given is None else given
            not_before = 0.0 if release else job.not_before
            rows.append((request.model_dump_json(exclude_none=True), reply_to, not_before, job_id))
            if added:
                files += file_rows(job_id, added, after=inputs[job_id])
                inputs[job_id] += len(added)
            if job.seq is not None:  # a move to its own place, so that the queue is read again
                self._unsettled.append(Move(job_id, account(job), (job.model, job.lane), job.seq))
            changed = replace(job, request=request, reply_to=reply_to)
            jobs[job_id] = replace(changed, not_before=not_before, version=job.version + 1)
            replaced.append(jobs[job_id])
        connection.executemany(queries.REPLACE_REQUEST, rows)
        connection.insert_files(queries.INSERT_INPUT, files)
        return replaced

    # ------------------------------------------------------------ changing

    def change(
        self, connection: Connection, changes: Sequence[Change]
    ) -> list[JobChanged | Exception]:
        """Apply events to jobs. A job that is not in the state its caller knows gets `StaleJob`."""
        self._counters.know(connection)
        written = _write_changes(connection, changes)
        outputs: list[Row] = []
        given_back: list[Job] = []
        freed: list[Job] = []
        used: list[tuple[str, float, float]] = []
        for change, is_written in zip(changes, written, strict=True):
            if not is_written:
                continue
            if self._count(change.before, change.after):
                freed.append(change.after)
            if change.gives_back:
                given_back.append(change.after)
            if change.gpu_s and change.after.finished_at is not None:
                used.append((change.after.owner, change.after.finished_at, change.gpu_s))
            if change.output is not None:
                outputs += output_rows(change.after.id, change.output)
        entered = self._let_in(connection, freed) if freed else {}
        _write_outputs(connection, outputs)
        self._counters.settle(connection, given_back, used)
        return [
            make_change(job=change.after, event=change.event, entered=entered.get(change.after.id))
            if is_written
            else StaleJob(f"job {change.before.id} has changed since it was read")
            for change, is_written in zip(changes, written, strict=True)
        ]

    def _count(self, before: Job, after: Job) -> bool:
        """Count a change. Returns whether it lets a job of its owner's overflow move up."""
        waits = after.state is JobState.PENDING
        if waits or before.state is JobState.PENDING:
            queue = (after.model, after.lane) if waits else None
            self._unsettled.append(Move(after.id, account(after), queue, after.seq))
        return self._counters.count(before, after)

    def _let_in(self, connection: Connection, freed: Sequence[Job]) -> Mapping[int, str]:
        """Give the places of ended jobs to their owners' overflow jobs.

        Returns, by the ended job's id, the model whose queue another job entered.
        """
        by_owner: dict[tuple[str, bool, bool], list[int]] = {}
        for job in freed:
            if self._counters.let_in(account(job)):
                key = job.owner, is_bulk(job.request), job.lane == LATER
                by_owner.setdefault(key, []).append(job.id)
        wanted = [(owner, int(b), int(later), len(i)) for (owner, b, later), i in by_owner.items()]
        found = connection.selectmany(queries.FIRST_IN_OVERFLOW, wanted)
        entered: dict[int, str] = {}
        rows: list[Row] = []
        for ((owner, bulk, is_later), ended), jobs in zip(by_owner.items(), found, strict=True):
            whose = account_of(owner, bulk=bulk, later=is_later)
            for left, (job_id, model, lane) in zip(ended, jobs, strict=True):
                seq = self._counters.next_place((model, lane))
                rows.append((seq, job_id))
                self._unsettled.append(Move(job_id, whose, (model, lane), seq))
                entered[left] = model
        connection.executemany(queries.ENTER_QUEUE, rows)
        return entered


_altered = {event: attrgetter(*columns) for event, columns in queries.ALTERED.items()}


def _write_changes(connection: Connection, changes: Sequence[Change]) -> Sequence[bool]:
    """Write each change whose job is in the state its caller knows. Returns which were written.

    Changes with the same event share a statement. If one job is changed twice, each change gets its
    own statement, because their order matters.
    """
    if len(changes) == 1 or len({change.before.id for change in changes}) < len(changes):
        groups = [_changes(each.event, [each]) for each in changes]
        return [written for (written,) in connection.changemany(groups)]
    if len({change.event for change in changes}) == 1:
        return connection.changemany([_changes(changes[0].event, changes)])[0]
    by_event: dict[JobEvent, list[int]] = {}
    for number, change in enumerate(changes):
        by_event.setdefault(change.event, []).append(number)
    found = connection.changemany(
        [
            _changes(event, [changes[number] for number in numbers])
            for event, numbers in by_event.items()
        ]
    )
    written = [False] * len(changes)
    for numbers, outcomes in zip(by_event.values(), found, strict=True):
        for number, outcome in zip(numbers, outcomes, strict=True):
            written[number] = outcome
    return written


def _write_outputs(connection: Connection, rows: Sequence[Row]) -> None:
    """Write texts many per statement, and files one by one because they are large."""
    texts = [row for row in rows if len(row[-1]) <= _TEXT_BYTES]
    insert_rows(connection, queries.INSERT_OUTPUT, queries.INSERT_OUTPUTS, texts)
    if len(texts) < len(rows):
        files = [row for row in rows if len(row[-1]) > _TEXT_BYTES]
        connection.insert_files(queries.INSERT_OUTPUT, files)


def _changes(event: JobEvent, changes: Sequence[Change]) -> Changes:
    rows = [_values(change) for change in changes]
    return Changes(queries.CHANGE[event], queries.CHANGE_KINDS[event], rows)


def _values(change: Change) -> Row:
    before = change.before
    altered = _altered[change.event](change.after)
    return (*altered, change.runner, before.id, before.version)


PLACES_AT_ONCE = 20_000


def known_by_key(connection: Connection, keys: Sequence[str]) -> dict[str, Job]:
    """Return the jobs that these idempotency keys created, by key, many keys per statement."""
    most = queries.KEYS_AT_ONCE[-1]
    portions: dict[int, list[tuple[str, ...]]] = {}
    for at in range(0, len(keys), most):
        some = tuple(keys[at : at + most])
        count = next(count for count in queries.KEYS_AT_ONCE if count >= len(some))
        portions.setdefault(count, []).append(some + some[-1:] * (count - len(some)))
    return {
        row[-1]: job_from(row)
        for count, filled in portions.items()
        for rows in connection.selectmany(queries.JOBS_BY_KEYS[count], filled)
        for row in rows
    }


def jobs_by_id(connection: Connection, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return the jobs with these ids that exist."""
    wanted = [(job_id,) for job_id in dict.fromkeys(job_ids)]
    found = chain.from_iterable(connection.selectmany(queries.JOB, wanted))
    return {row[0]: job_from(row) for row in found}


def first_places(
    connection: Connection, queues: Collection[QueueKey]
) -> dict[QueueKey, tuple[int | None, int | None]]:
    """Return the first place among each queue's waiting jobs, and among its running ones."""
    waiting = connection.selectmany(queries.FIRST_WAITING, queues)
    running = connection.selectmany(queries.FIRST_PROCESSING, queues)
    return {
        queue: (first, earliest)
        for queue, ((first,),), ((earliest,),) in zip(queues, waiting, running, strict=True)
    }


def counts_of_inputs(connection: Connection, job_ids: Collection[int]) -> dict[int, int]:
    """Return the number of inputs of each job."""
    counts = connection.selectmany(queries.COUNT_INPUTS, [(job_id,) for job_id in job_ids])
    return {job_id: count for job_id, ((count,),) in zip(job_ids, counts, strict=True)}


def load_places(connection: Connection) -> PositionIndex:
    """Read the places of all waiting jobs.

    Thousands arrive as one row. With a row for each, the thread would have to wait for the
    interpreter lock as often.
    """
    places = PositionIndex()
    queues = connection.execute(queries.QUEUES).fetchall()
    last: dict[QueueKey, int] = dict.fromkeys(queues, queries.BEFORE_ALL)
    while last:
        asked = [(*queue, seq, PLACES_AT_ONCE) for queue, seq in last.items()]
        found = connection.selectmany(connection.statements.places, asked)
        for queue, (row,) in zip(list(last), found, strict=True):
            job_ids, seqs = map(json.loads, row)
            if seqs:
                places.enter(queue, job_ids, seqs)
            if len(seqs) == PLACES_AT_ONCE:
                last[queue] = seqs[-1]
            else:
                del last[queue]
    for job_id, model, lane, owner, bulk in connection.execute(connection.statements.overflow):
        account = account_of(owner, bulk=bool(bulk), later=lane == LATER)
        places.move(Move(job_id, account, (model, lane), None))
    return places
