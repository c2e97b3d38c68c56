"""The history in the bot's database: written in batches, read by spans.

The transaction that adds a job also marks it as counted. So no job counts twice, however often a
batch is written, and after a crash the uncounted ones can be found.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bot.monitoring import sql
from bot.monitoring.buckets import (
    GRAINS,
    MINUTE_S,
    BucketKey,
    CountsByName,
    EndedJob,
    Histogram,
    HostBucket,
    ModelBucket,
    beginning,
    tallied,
)
from bot.monitoring.records import Segment
from queueing.core.events import CopyLeft, LoadEnded
from queueing.core.jobs import JobState
from queueing.core.status import Promised
from queueing.store.sql.database import Connection, Database, Value


@dataclass(kw_only=True, slots=True)
class HistoryBatch:
    """Collects changes. Jobs are counted only when written, so that none counts twice."""

    ended: dict[int, EndedJob] = field(default_factory=dict)
    models: dict[BucketKey, ModelBucket] = field(default_factory=dict)
    hosts: dict[BucketKey, HostBucket] = field(default_factory=dict)
    segments: dict[tuple[str, float], Segment] = field(default_factory=dict)
    promises: dict[int, Promised] = field(default_factory=dict)
    kept_promises: set[int] = field(default_factory=set)  # stored promises of jobs that have ended

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return any((self.ended, self.models, self.hosts, self.segments, self.promises))

    def end(self, job: EndedJob) -> None:
        """Add an ended job. Adding it again changes nothing."""
        self.ended.setdefault(job.id, job)

    def turn(self, event: LoadEnded | CopyLeft, now: float) -> None:
        """Add a load or an eviction."""
        minute, of_model, of_host = beginning(now, MINUTE_S), ModelBucket(), HostBucket()
        if isinstance(event, CopyLeft):
            of_model, of_host = replace(of_model, evictions=1), replace(of_host, evictions=1)
        elif event.failed:
            of_model, of_host = replace(of_model, failed_loads=1), replace(of_host, failed_loads=1)
        else:
            of_model = replace(of_model, loads=1, load_s=event.seconds)
            of_host = replace(of_host, loads=1, load_s=event.seconds)
        self._add_model(BucketKey(minute, event.model), of_model)
        for host in event.hosts:
            self._add_host(BucketKey(minute, host), of_host)

    def follow(
        self, host: str, segments: Sequence[Segment], minutes: Mapping[int, HostBucket]
    ) -> None:
        """Add part of a host's timeline."""
        for segment in segments:
            self.segments[host, segment.begins] = segment
        for minute, bucket in minutes.items():
            self._add_host(BucketKey(minute, host), bucket)

    def before(self, earlier: "HistoryBatch") -> None:
        """Merge an earlier batch that could not be written."""
        self.ended = earlier.ended | self.ended
        self.segments = earlier.segments | self.segments
        self.promises = earlier.promises | self.promises
        self.kept_promises |= earlier.kept_promises
        for key, model in earlier.models.items():
            self._add_model(key, model)
        for key, host in earlier.hosts.items():
            self._add_host(key, host)

    def _add_model(self, key: BucketKey, bucket: ModelBucket) -> None:
        self.models[key] = self.models.get(key, ModelBucket()).plus(bucket)

    def _add_host(self, key: BucketKey, bucket: HostBucket) -> None:
        self.hosts[key] = self.hosts.get(key, HostBucket()).plus(bucket)


SEGMENTS_KEPT_S = 25 * 3600.0
MINUTES_KEPT_S = 26 * 3600.0


Bucket = TypeVar("Bucket", ModelBucket, HostBucket)


class History:
    """Writes and reads the history."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ------------------------------------------------------------ writing

    async def add(self, batch: HistoryBatch) -> None:
        """Write a batch, leaving out jobs that are already counted.

        Raises `StoreError`, in which case nothing was written.
        """
        await self._database.write(lambda connection: _add(connection, batch))

    async def expire(self, now: float, keep_s: float) -> None:
        """Delete hours older than `keep_s`, and minutes and segments too old for any chart."""

        def change(connection: Connection) -> None:
            minutes_s = min(keep_s, MINUTES_KEPT_S)
            for grain, kept_s in zip(GRAINS, (minutes_s, keep_s), strict=True):
                connection.execute(sql.EXPIRE_MODEL_BUCKETS, (grain, int(now - kept_s)))
                connection.execute(sql.EXPIRE_HOST_BUCKETS, (grain, int(now - kept_s)))
            connection.execute(sql.EXPIRE_SEGMENTS, (now - min(keep_s, SEGMENTS_KEPT_S),))

        await self._database.write(change)

    # ------------------------------------------------------------ taking up after a restart

    async def uncounted(self, since: float, limit: int) -> tuple[list[EndedJob], float]:
        """Return some uncounted jobs, and the time from which to look for more.

        Delivered jobs are included only if they ended at or after `since`.
        """

        def query(connection: Connection) -> tuple[list[EndedJob], float]:
            rows = connection.execute(sql.UNCOUNTED, (since, limit)).fetchall()
            delivered = [_ended(row) for row in rows]
            rows = connection.execute(sql.UNCOUNTED_UNDELIVERED, (limit,)).fetchall()
            goes_on = delivered[-1].finished_at if delivered else since
            return delivered + [_ended(row) for row in rows], goes_on

        return await self._database.read(query)

    async def promises(self) -> Mapping[int, Promised]:
        """Return the promised end times of open jobs, by job id."""
        return {
            job_id: Promised(given_at=given, earliest=earliest, latest=latest)
            for job_id, given, earliest, latest in await self._database.rows(sql.PROMISES)
        }

    # ------------------------------------------------------------ reading

    async def models(
        self, grain_s: int, begins: float, ends: float
    ) -> Sequence[tuple[BucketKey, ModelBucket]]:
        """Return the buckets of models in a time range, in order."""

        def query(connection: Connection) -> list[tuple[BucketKey, ModelBucket]]:
            rows = connection.execute(sql.MODEL_BUCKETS, (grain_s, int(begins), int(ends)))
            return [(BucketKey(row[0], row[1]), _model_bucket(row[2:])) for row in rows]

        return await self._database.read(query)

    async def hosts(
        self, grain_s: int, begins: float, ends: float
    ) -> Sequence[tuple[BucketKey, HostBucket]]:
        """Return the buckets of hosts in a time range, in order."""

        def query(connection: Connection) -> list[tuple[BucketKey, HostBucket]]:
            rows = connection.execute(sql.HOST_BUCKETS, (grain_s, int(begins), int(ends)))
            return [
                (BucketKey(row[0], row[1]), HostBucket(**_host_values(row[2:]))) for row in rows
            ]

        return await self._database.read(query)

    async def segments(self, begins: float, ends: float) -> Mapping[str, Sequence[Segment]]:
        """Return the segments that overlap a time range by host, uncut."""

        def query(connection: Connection) -> Mapping[str, Sequence[Segment]]:
            found: dict[str, list[Segment]] = {}
            for host, first, last, kind, models in connection.execute(sql.SEGMENTS, (begins, ends)):
                names = tuple(models.split("\n")) if models else ()
                segment = Segment(begins=first, ends=last, kind=kind, models=names)
                found.setdefault(host, []).append(segment)
            return found

        return await self._database.read(query)


# ---------------------------------------------------------------- one batch


def _add(connection: Connection, batch: HistoryBatch) -> None:
    sums = dict(batch.models)
    for key, bucket in tallied(_newly_counted(connection, list(batch.ended.values()))).items():
        sums[key] = sums[key].plus(bucket) if key in sums else bucket
    _add_models(connection, sums)
    hosts = [
        (grain, *key, *(getattr(host, name) for name in sql.HOST_FIELDS))
        for grain in GRAINS
        for key, host in _by_grain(batch.hosts, grain).items()
    ]
    connection.executemany(sql.ADD_HOST_BUCKET, hosts)
    segments = [
        (host, each.begins, each.ends, each.kind, "\n".join(each.models))
        for (host, _), each in batch.segments.items()
    ]
    connection.executemany(sql.PUT_SEGMENT, segments)
    notes = [
        (each.given_at, each.earliest, each.latest, job_id)
        for job_id, each in batch.promises.items()
    ]
    connection.executemany(sql.NOTE_PROMISE, notes)
    connection.executemany(sql.DROP_PROMISE, [(job_id,) for job_id in batch.kept_promises])


def _newly_counted(connection: Connection, ended: Sequence[EndedJob]) -> list[EndedJob]:
    """Mark jobs as counted.

    Returns those not marked before, including jobs deleted since they ended.
    """
    noted = connection.selectmany(sql.COUNT_JOB, [(job.id,) for job in ended])
    counted = [job for job, rows in zip(ended, noted, strict=True) if rows]
    others = [job for job, rows in zip(ended, noted, strict=True) if not rows]
    kept = connection.selectmany(sql.JOB_IS_KEPT, [(job.id,) for job in others])
    return counted + [job for job, rows in zip(others, kept, strict=True) if not rows]


def _by_grain(minutes: Mapping[BucketKey, Bucket], grain: int) -> Mapping[BucketKey, Bucket]:
    sums: dict[BucketKey, Bucket] = {}
    for (at, name), bucket in minutes.items():
        key = BucketKey(beginning(at, grain), name)
        sums[key] = sums[key].plus(bucket) if key in sums else bucket
    return sums


def _add_models(connection: Connection, minutes: Mapping[BucketKey, ModelBucket]) -> None:
    sums = {
        (grain, *key): bucket
        for grain in GRAINS
        for key, bucket in _by_grain(minutes, grain).items()
    }
    stored = connection.selectmany(sql.MODEL_BUCKET, list(sums))
    rows: list[Sequence[Value]] = []
    for (key, bucket), found in zip(sums.items(), stored, strict=True):
        total = _model_bucket(found[0]).plus(bucket) if found else bucket
        rows.append((*key, *(_written(getattr(total, name)) for name in sql.MODEL_FIELDS)))
    connection.executemany(sql.PUT_MODEL_BUCKET, rows)


def _written(value: Any) -> Value:
    return value.written() if isinstance(value, Histogram | CountsByName) else value


def _model_bucket(row: Sequence[Any]) -> ModelBucket:
    values = dict(zip(sql.MODEL_FIELDS, row, strict=True))
    for name in ("waits", "services"):
        values[name] = Histogram.read(values[name])
    return ModelBucket(**values | {"errors": CountsByName.read(values["errors"])})


def _host_values(row: Sequence[Any]) -> Mapping[str, Any]:
    return dict(zip(sql.HOST_FIELDS, row, strict=True))


def _ended(row: Sequence[Any]) -> EndedJob:
    job_id, model, state, queued_at, started_at, finished_at, error, *promise = row
    return EndedJob(
        id=job_id,
        model=model,
        state=JobState(state),
        queued_at=queued_at,
        started_at=started_at,
        finished_at=finished_at,
        error=error,
        promised=None
        if promise[0] is None
        else Promised(given_at=promise[0], earliest=promise[1], latest=promise[2]),
    )


@dataclass(kw_only=True, slots=True)
class Usage:
    """Numbers of jobs by user: ended since a moment, waiting, and running."""

    jobs: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)

    @property
    def users(self) -> set[str]:
        """All users with any job."""
        return {*self.jobs, *self.waiting, *self.running}


class StoredUsage:
    """Reads usage from the jobs' tables, without writing to them.

    `name_in(reply_to)` returns a job owner's display name from the job's origin, or "".
    """

    def __init__(self, database: Database, name_in: Callable[[str], str]) -> None:
        self._database = database
        self._name_in = name_in

    async def since(self, moment: float) -> Usage:
        """Return the numbers of jobs that ended since a moment or are open. Raises `StoreError`."""
        return await self._database.read(lambda connection: _usage(connection, moment))

    async def names(self, users: Collection[str]) -> Mapping[str, str]:
        """Return the known display names of these people. Raises `StoreError`.

        A chat user's name is that of their newest stored job, because the chat may have renamed
        them.
        """

        def query(connection: Connection) -> Mapping[str, str]:
            names = {user: self._name_from_jobs(connection, user) for user in users}
            names |= {user: name for user, name in connection.execute(sql.KEY_NAMES) if name}
            names |= {f"web:{id_}": name for id_, name in connection.execute(sql.WEB_NAMES)}
            return {user: names[user] for user in users if names[user]}

        return await self._database.read(query)

    def _name_from_jobs(self, connection: Connection, user: str) -> str:
        rows = connection.execute(sql.NEWEST_ORIGIN, (user,)).fetchall()
        return self._name_in(rows[0][0]) if rows else ""


def _usage(connection: Connection, since: float) -> Usage:
    usage = Usage()
    for statement in (sql.ENDED_BY_OWNER, sql.UNDELIVERED_BY_OWNER):
        for owner, jobs in connection.execute(statement, (since,)):
            usage.jobs[owner] += jobs
    for owner, state, count in connection.execute(sql.OPEN_BY_OWNER):
        counts = usage.running if state == JobState.PROCESSING else usage.waiting
        counts[owner] += count
    return usage
