"""Reads for the writer's batches, with few statements for any number of jobs."""

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from queueing.core.jobs import LATER, Job
from queueing.store.jobs import queries
from queueing.store.jobs.positions import Move, PositionIndex, QueueKey, account_of
from queueing.store.jobs.rows import job_from
from queueing.store.sql.database import Connection

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
