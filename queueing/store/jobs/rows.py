"""Converts jobs to rows and back, and applies events to jobs."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from queueing.core.constructors import altering
from queueing.core.jobs import (
    FINAL,
    HELD_UNTIL,
    TRANSITIONS,
    Job,
    JobEvent,
    JobState,
    NewJob,
    is_bulk,
    make_job,
)
from queueing.core.requests import REQUESTS, File, Output
from queueing.store.jobs import queries
from queueing.store.sql.database import Connection

Row = Sequence[Any]
_altered = altering(Job)
_STATES = {str(state): state for state in JobState}
_TEXT_MIME = "text/plain; charset=utf-8"
_ANSWER_MIME = "application/json"
_TEXT, _ANSWER = 0, -1  # numbers of the output rows that are not files


def job_from(row: Row) -> Job:
    """Return the job of a row with the columns of `JOB_COLUMNS`."""
    return make_job(
        id=row[0],
        model=row[1],
        request=REQUESTS.validate_json(row[2]),
        owner=row[3],
        lane=row[4],
        parent=row[5],
        reply_to=row[6],
        state=_STATES[row[7]],
        seq=row[8],
        attempt=row[9],
        version=row[10],
        not_before=row[11],
        queued_at=row[12],
        started_at=row[13],
        finished_at=row[14],
        backend=row[15],
        suspect=bool(row[16]),
        error=row[17],
        acknowledged=bool(row[18]),
        sendings=row[19],
        remembered_by=row[20],
        gpu_s=row[21],
        due_at=row[22],
        expires_at=row[23],
        moved=bool(row[24]),
    )


def _not_before(new: NewJob, now: float) -> float:
    if new.held:
        return HELD_UNTIL
    return now + new.delay_s if new.delay_s else 0.0


def accepted(new: NewJob, job_id: int, seq: int | None, now: float) -> Job:
    """Return the new job for an accepted request."""
    return make_job(
        id=job_id,
        model=new.model,
        request=new.request,
        owner=new.owner,
        lane=new.lane,
        parent=new.parent,
        reply_to=new.reply_to,
        state=JobState.PENDING,
        seq=seq,
        version=1,
        not_before=_not_before(new, now),
        queued_at=now,
        remembered_by=new.remembered_by,
        gpu_s=new.gpu_s,
        due_at=new.due_at,
        expires_at=None if new.wait_s is None else now + new.wait_s,
    )


def job_row(job: Job, key: str, request: str) -> Row:
    """Return the values of a new job in the order of `INSERT_JOB`. `request` is JSON."""
    return (
        job.id,
        job.model,
        job.lane,
        job.seq,
        job.not_before,
        job.queued_at,
        job.owner,
        key,
        job.parent,
        job.reply_to,
        request,
        job.remembered_by,
        int(is_bulk(job.request)),
        job.gpu_s,
        job.due_at,
        job.expires_at,
    )


def changed(
    job: Job,
    event: JobEvent,
    now: float,
    *,
    backend: str | None,
    not_before: float,
    error: str | None,
    suspect: bool,
) -> Job:
    """Return a job after an event, without checking whether the event is legal."""
    state = TRANSITIONS[event][1]
    started_at = job.started_at
    if event is JobEvent.START:
        started_at = now
    elif state is JobState.PENDING:
        started_at = None
    returning = event in {JobEvent.RETRY, JobEvent.RELEASE}
    return _altered(
        job,
        state=state,
        attempt=job.attempt + _ATTEMPTS.get(event, 0),
        version=job.version + 1,
        not_before=not_before if returning else job.not_before,
        started_at=started_at,
        finished_at=now if state in FINAL else None,
        backend=backend or job.backend if event is JobEvent.START else job.backend,
        suspect=suspect if returning else job.suspect,
        error=error if error is not None else job.error,
        sendings=job.sendings + (event is JobEvent.START),
    )


_ATTEMPTS = {JobEvent.START: 1, JobEvent.RELEASE: -1}


def file_rows(job_id: int, files: Sequence[File], *, after: int = 0) -> list[Row]:
    """Return a row for each file, numbered from `after` + 1."""
    return [(job_id, n, file.name, file.mime, file.data) for n, file in enumerate(files, after + 1)]


def output_rows(job_id: int, output: Output) -> list[Row]:
    """Return the rows of an output: the text is row 0, the files follow.

    The reason for missing files is stored as the name of row 0. The server's structured answer, if
    any, is row -1.
    """
    rows: list[Row] = [(job_id, _TEXT, output.missing, _TEXT_MIME, output.text.encode())]
    if output.answer:
        rows.append((job_id, _ANSWER, "", _ANSWER_MIME, output.answer.encode()))
    return rows + file_rows(job_id, output.files)


def files_from(rows: Sequence[Row]) -> tuple[File, ...]:
    """Return the files of (name, mime, data) rows."""
    return tuple(File(name=name, mime=mime, data=data) for name, mime, data in rows)


def output_from(rows: Sequence[Row]) -> Output | None:
    """Return the output of (number, name, mime, data) rows, or None if there are none."""
    if not rows:
        return None
    files = files_from([row[1:] for row in rows if row[0] > _TEXT])
    texts = {number: (name, data) for number, name, _, data in rows if number <= _TEXT}
    missing, text = texts.get(_TEXT, ("", b""))
    answer = texts.get(_ANSWER, ("", b""))[1]
    return Output(text=text.decode(), files=files, missing=missing, answer=answer.decode())


def jobs_of(connection: Connection, query: str, parameters: Row = ()) -> list[Job]:
    """Return the jobs of a query that selects `JOB_COLUMNS`."""
    return [job_from(row) for row in connection.execute(query, parameters)]


def insert_rows(connection: Connection, one: str, several: str, rows: Sequence[Row]) -> None:
    """Insert rows, using the statement for `ROWS_AT_ONCE` rows as far as possible."""
    rest = len(rows) - len(rows) % queries.ROWS_AT_ONCE
    for at in range(0, rest, queries.ROWS_AT_ONCE):
        together = rows[at : at + queries.ROWS_AT_ONCE]
        connection.execute(several, tuple(chain.from_iterable(together)))
    connection.executemany(one, rows[rest:])
