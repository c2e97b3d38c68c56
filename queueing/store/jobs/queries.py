"""The SQL of the store. Columns of jobs are always in the order of `JOB_COLUMNS`."""

# ruff: noqa: S608 - only constants are formatted into these texts; values are always parameters

from collections.abc import Mapping

from queueing.core.jobs import HELD_UNTIL, LATER, TRANSITIONS, JobEvent

JOB_COLUMNS = (
    "id, model, request, owner, lane, parent, reply_to, state, seq, attempt, version, not_before,"
    " queued_at, started_at, finished_at, backend, suspect, error, acknowledged, sendings,"
    " remembered_by, gpu_s, due_at, expires_at, moved"
)

_IS_LATER = f"CASE WHEN lane = '{LATER}' THEN 1 ELSE 0 END"

# ---------------------------------------------------------------- accepting

JOB_BY_KEY = f"SELECT {JOB_COLUMNS} FROM jobs WHERE key = ?"
KEYS_AT_ONCE = (1, 10, 50)  # single lookups would cost as much as the inserts
JOBS_BY_KEYS = {
    count: f"SELECT {JOB_COLUMNS}, key FROM jobs WHERE key IN (?{', ?' * (count - 1)})"
    for count in KEYS_AT_ONCE
}
_ROW = "(?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_JOB = (
    "INSERT INTO jobs (id, model, lane, seq, state, not_before, queued_at, owner, key, parent,"
    f" reply_to, request, remembered_by, bulk, gpu_s, due_at, expires_at) VALUES {_ROW}"
)
ROWS_AT_ONCE = 20  # a third cheaper than one by one; more rows gain little
INSERT_JOBS = INSERT_JOB + f", {_ROW}" * (ROWS_AT_ONCE - 1)
INSERT_INPUT = "INSERT INTO inputs (job_id, number, name, mime, data) VALUES (?, ?, ?, ?, ?)"

# ---------------------------------------------------------------- hourly quotas

CHARGE = "INSERT INTO charges (job_id, owner, at) VALUES (?, ?, ?)"
CHARGE_SEVERAL = CHARGE + ", (?, ?, ?)" * (ROWS_AT_ONCE - 1)
CHARGES = "SELECT job_id, owner, at FROM charges WHERE at > ?"
GIVE_BACK = "DELETE FROM charges WHERE job_id = ? RETURNING at"
PRUNE_CHARGES = "DELETE FROM charges WHERE at <= ?"

# ---------------------------------------------------------------- time on the GPUs

USE_GPU = (
    "INSERT INTO gpu_use (owner, at, seconds) VALUES (?, ?, ?) ON CONFLICT (owner, at)"
    " DO UPDATE SET seconds = gpu_use.seconds + excluded.seconds"
)
GPU_USED = "SELECT coalesce(sum(seconds), 0.0) FROM gpu_use WHERE owner = ? AND at >= ?"
GPU_USERS = "SELECT owner, sum(seconds) FROM gpu_use WHERE at >= ? GROUP BY owner"
GPU_QUARTERS = "SELECT owner, at, seconds FROM gpu_use WHERE at >= ? ORDER BY at, owner"
GPU_HELD = "SELECT coalesce(sum(gpu_s), 0.0) FROM jobs WHERE finished_at IS NULL AND owner = ?"
PRUNE_GPU_USE = "DELETE FROM gpu_use WHERE at <= ?"

# ---------------------------------------------------------------- changing


# Only what an event can change: naming a column rewrites every index that depends on it.
_START = ("attempt", "started_at", "backend", "sendings")
_RETURN = ("attempt", "started_at", "not_before", "suspect", "error")
_END = ("finished_at", "error")
ALTERED: Mapping[JobEvent, tuple[str, ...]] = {
    JobEvent.START: _START,
    JobEvent.RETRY: _RETURN,
    JobEvent.RELEASE: _RETURN,
    JobEvent.COMPLETE: _END,
    JobEvent.FAIL: _END,
    JobEvent.CANCEL: _END,
}


def _change(event: JobEvent) -> str:
    sources, target = TRANSITIONS[event]
    among = ", ".join(f"'{state}'" for state in sorted(sources))
    altered = ", ".join(f"{column} = ?" for column in ALTERED[event])
    # The expression hides the state from PostgreSQL's planner. With few jobs in a state, it would
    # otherwise scan the index of that state instead of looking up the id.
    return (
        f"UPDATE jobs SET state = '{target}', version = version + 1, {altered},"
        f" runner = coalesce(?, runner) WHERE id = ? AND version = ? AND state || '' IN ({among})"
    )


_KINDS = {
    "attempt": "bigint",
    "started_at": "double precision",
    "backend": "text",
    "sendings": "bigint",
    "not_before": "double precision",
    "suspect": "bigint",
    "error": "text",
    "finished_at": "double precision",
}
CHANGE: Mapping[JobEvent, str] = {event: _change(event) for event in JobEvent}
CHANGE_KINDS: Mapping[JobEvent, tuple[str, ...]] = {
    event: (*(_KINDS[column] for column in ALTERED[event]), "text", "bigint", "bigint")
    for event in JobEvent
}
INSERT_OUTPUT = "INSERT INTO outputs (job_id, number, name, mime, data) VALUES (?, ?, ?, ?, ?)"
INSERT_OUTPUTS = INSERT_OUTPUT + ", (?, ?, ?, ?, ?)" * (ROWS_AT_ONCE - 1)
FIRST_IN_OVERFLOW = (
    "SELECT id, model, lane FROM jobs WHERE owner = ? AND finished_at IS NULL AND seq IS NULL"
    f" AND bulk = ? AND {_IS_LATER} = ? ORDER BY id LIMIT ?"
)
REPLACE_REQUEST = (
    "UPDATE jobs SET request = ?, reply_to = ?, not_before = ?, version = version + 1 WHERE id = ?"
)
COUNT_INPUTS = "SELECT count(*) FROM inputs WHERE job_id = ?"
ENTER_QUEUE = "UPDATE jobs SET seq = ?, version = version + 1 WHERE id = ?"
PUT_FIRST = "UPDATE jobs SET seq = ?, moved = 1, version = version + 1 WHERE id = ?"
FIRST_WAITING = "SELECT min(seq) FROM jobs WHERE state = 'pending' AND model = ? AND lane = ?"
FIRST_PROCESSING = "SELECT min(seq) FROM jobs WHERE state = 'processing' AND model = ? AND lane = ?"
ACKNOWLEDGE = "UPDATE jobs SET acknowledged = 1 WHERE id = ? AND acknowledged = 0"

# ---------------------------------------------------------------- rebuilding the counters

LAST_WAITING = (
    "SELECT model, lane, max(seq), count(*) FROM jobs WHERE state = 'pending' GROUP BY model, lane"
)
LAST_PROCESSING = (
    "SELECT model, lane, max(seq) FROM jobs WHERE state = 'processing' GROUP BY model, lane"
)
OWNERS = (
    f"SELECT owner, bulk, {_IS_LATER} AS later, count(*), count(seq) FROM jobs"
    " WHERE finished_at IS NULL GROUP BY owner, bulk, later"
)


def _least(column: str, *conditions: str) -> str:
    among = " AND ".join(("state = 'pending'", *conditions))
    return f"SELECT min({column}) FROM jobs WHERE {among}"


QUEUES = (  # one seek per queue, where DISTINCT would visit every waiting job
    f"WITH RECURSIVE models (model) AS ({_least('model')} UNION ALL"
    f" SELECT ({_least('model', 'model > models.model')}) FROM models WHERE model IS NOT NULL),"
    f" queues (model, lane) AS (SELECT model, ({_least('lane', 'model = models.model')})"
    " FROM models WHERE model IS NOT NULL UNION ALL"
    f" SELECT model, ({_least('lane', 'model = queues.model', 'lane > queues.lane')})"
    " FROM queues WHERE lane IS NOT NULL)"
    " SELECT model, lane FROM queues WHERE lane IS NOT NULL ORDER BY model, lane"
)

# ---------------------------------------------------------------- reading

JOB = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?"
QUEUE = (
    "SELECT id, version, not_before, queued_at, sendings, seq FROM jobs"
    " WHERE state = 'pending' AND model = ? AND lane = ? AND seq > ? ORDER BY seq LIMIT ?"
)
OPEN_JOBS = f"SELECT {JOB_COLUMNS} FROM jobs WHERE finished_at IS NULL ORDER BY id"
OPEN_JOBS_OF = f"SELECT {JOB_COLUMNS} FROM jobs WHERE finished_at IS NULL AND owner = ? ORDER BY id"
HELD = (
    f"SELECT {JOB_COLUMNS} FROM jobs"
    f" WHERE state = 'pending' AND not_before >= {HELD_UNTIL!r} ORDER BY id"
)
PROCESSING = f"SELECT {JOB_COLUMNS} FROM jobs WHERE state = 'processing' ORDER BY started_at, id"

OVERTAKING = (
    "WITH waits (m, l, first, since) AS (SELECT model, lane, min(seq), min(queued_at) FROM jobs"
    " WHERE state = 'pending' AND seq IS NOT NULL GROUP BY model, lane)"
    f" SELECT {JOB_COLUMNS} FROM jobs JOIN waits ON model = m AND lane = l"
    " WHERE finished_at >= since AND started_at >= since AND seq > first ORDER BY id"
)


def waiting_among(ids: str) -> str:
    """Return a query for the waiting jobs among the ids that a subquery returns."""
    return f"SELECT {JOB_COLUMNS} FROM jobs WHERE state = 'pending' AND id IN ({ids}) ORDER BY id"


UNDELIVERED = (
    f"SELECT {JOB_COLUMNS} FROM jobs WHERE finished_at IS NOT NULL AND acknowledged = 0 ORDER BY id"
)
_NOT_BEGUN = "state = 'pending' AND sendings = 0"
EXPIRED = (
    f"SELECT {JOB_COLUMNS} FROM jobs WHERE {_NOT_BEGUN} AND expires_at <= ? ORDER BY expires_at, id"
)
NEXT_EXPIRY = f"SELECT min(expires_at) FROM jobs WHERE {_NOT_BEGUN} AND expires_at IS NOT NULL"
DATED = (
    f"SELECT {JOB_COLUMNS} FROM jobs WHERE state = 'pending' AND due_at IS NOT NULL"
    " ORDER BY due_at, id"
)
ABANDONED = (
    f"SELECT {JOB_COLUMNS} FROM jobs WHERE finished_at IS NOT NULL AND acknowledged = 0"
    " AND state = 'cancelled' AND backend IS NOT NULL ORDER BY id"
)
AFTER_ALL = 2**63 - 1  # greater than any id or place
BEFORE_ALL = -(1 << 62)  # less than any place: a job moved to the front gets one below all others
_USUAL = f"SELECT {JOB_COLUMNS} FROM jobs WHERE owner = ? AND id < ? AND bulk = 0"
_BULK = _USUAL.replace("bulk = 0", "bulk = 1")
NEWEST_MOMENT = (
    "SELECT max(coalesce(finished_at, started_at, queued_at)) FROM"
    " (SELECT finished_at, started_at, queued_at FROM jobs ORDER BY id DESC LIMIT 100) AS latest"
)
_NEWEST_FIRST = " ORDER BY id DESC LIMIT ?"
WHOLE_HISTORY = f"{_USUAL} UNION ALL {_BULK}{_NEWEST_FIRST}"  # two seeks, no sorting
HISTORY = f"{_USUAL} AND parent IS NULL{_NEWEST_FIRST}"


def history_in(states: int) -> str:
    """Return the query for an owner's jobs in one of `states` states."""
    return f"{_USUAL} AND parent IS NULL AND state IN ({', '.join('?' * states)}){_NEWEST_FIRST}"


REMOVED = "removed"
"""The type of a file whose data retention has removed."""
_PARTS = "number, name, mime, length(data), CASE WHEN length(data) <= ? THEN data END"
"""Columns of a file, with its data only if it is not large."""
INPUTS = f"SELECT {_PARTS} FROM inputs WHERE job_id = ? ORDER BY number"
OUTPUTS = f"SELECT {_PARTS} FROM outputs WHERE job_id = ? ORDER BY number"
RESULT_HEAD = (  # number 0 is the text
    "SELECT jobs.owner, outputs.name, outputs.mime, length(outputs.data) FROM outputs"
    " JOIN jobs ON jobs.id = outputs.job_id"
    " WHERE outputs.job_id = ? AND outputs.number = ? AND outputs.number > 0"
)
RESULT_HEADS = (
    "SELECT jobs.owner, outputs.name, outputs.mime, length(outputs.data) FROM outputs"
    " JOIN jobs ON jobs.id = outputs.job_id"
    " WHERE outputs.job_id = ? AND outputs.number > 0 ORDER BY outputs.number"
)
RESULT_TEXTS = "SELECT number, name, mime, data FROM outputs WHERE job_id = ? AND number <= 0"

# ---------------------------------------------------------------- models, times, sizes, pauses

PAUSES = "SELECT kind, name FROM pauses"
FORGET_PAUSES = "DELETE FROM pauses"
NOTE_PAUSE = "INSERT INTO pauses (kind, name) VALUES (?, ?)"
AWAKE = "SELECT host, until FROM awake"
FORGET_AWAKE = "DELETE FROM awake"
NOTE_AWAKE = "INSERT INTO awake (host, until) VALUES (?, ?)"

RESIDENCY = "SELECT model, backend, pinned FROM residency ORDER BY model, backend"
FORGET_RESIDENCY = "DELETE FROM residency"
NOTE_RESIDENCY = (
    "INSERT INTO residency (host, backend, model, state, pinned) VALUES (?, ?, ?, ?, ?)"
)
LEARNED = "SELECT kind, model, host, size, samples, median_s, spread_s FROM estimates"
LEARN = (
    "INSERT INTO estimates (kind, model, host, size, samples, median_s, spread_s)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, model, host, size) DO UPDATE SET"
    " samples = excluded.samples, median_s = excluded.median_s, spread_s = excluded.spread_s"
)
SCORES = "SELECT category, slot, number, value FROM scores"
NOTE_SCORE = (
    "INSERT INTO scores (category, slot, number, value) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (category, slot) DO UPDATE SET number = excluded.number, value = excluded.value"
)

SIZES = "SELECT model, vram_mb FROM sizes"
NOTE_SIZE = (
    "INSERT INTO sizes (model, vram_mb) VALUES (?, ?)"
    " ON CONFLICT (model) DO UPDATE SET vram_mb = excluded.vram_mb"
)

# ---------------------------------------------------------------- retention

PURGE = (
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE finished_at IS NOT NULL"
    " AND acknowledged = 1 AND finished_at < ? ORDER BY finished_at LIMIT ?)"
)
ERASE = "DELETE FROM jobs WHERE id = ? AND finished_at IS NOT NULL"
DELETED_AT_ONCE = 20  # pages are overwritten, so deleting a job with images writes megabytes
ERASE_MADE_FOR = (
    f"DELETE FROM jobs WHERE parent IN (?{', ?' * (DELETED_AT_ONCE - 1)})"
    " AND finished_at IS NOT NULL"
)
BYTES_NEWEST_FIRST = (
    "SELECT job_id, sum(size) FROM (SELECT job_id, length(data) AS size FROM outputs"
    " UNION ALL SELECT job_id, length(data) FROM inputs) AS files GROUP BY job_id"
    " HAVING sum(size) > 0 ORDER BY job_id DESC"
)
DROPPABLE = (  # the sum hides the column from PostgreSQL's planner, as in `CHANGE`
    "SELECT 1 FROM jobs WHERE id = ? AND finished_at IS NOT NULL AND acknowledged + 0 = 1"
)
# The empty rows show that there were files: without files the request would mean something else.
DROP_INPUTS = f"UPDATE inputs SET name = '', mime = '{REMOVED}', data = ? WHERE job_id = ?"
DROP_OUTPUTS = "DELETE FROM outputs WHERE job_id = ?"
