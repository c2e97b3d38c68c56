"""The SQL statements of the history, in the dialect that SQLite and PostgreSQL share."""

from dataclasses import fields

from bot.monitoring.buckets import HostBucket, ModelBucket

# ruff: noqa: S608 - every name put into these texts is a constant; values are always parameters

MODEL_FIELDS = tuple(each.name for each in fields(ModelBucket))
HOST_FIELDS = tuple(each.name for each in fields(HostBucket))


def _marks(count: int) -> str:
    return ", ".join("?" * count)


# ---------------------------------------------------------------- buckets

MODEL_BUCKET = (
    f"SELECT {', '.join(MODEL_FIELDS)} FROM history_models WHERE grain = ? AND at = ? AND model = ?"
)
PUT_MODEL_BUCKET = (
    f"INSERT INTO history_models (grain, at, model, {', '.join(MODEL_FIELDS)})"
    f" VALUES ({_marks(3 + len(MODEL_FIELDS))}) ON CONFLICT (grain, at, model) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in MODEL_FIELDS)
)
MODEL_BUCKETS = (
    f"SELECT at, model, {', '.join(MODEL_FIELDS)} FROM history_models"
    " WHERE grain = ? AND at >= ? AND at < ? ORDER BY at, model"
)
ADD_HOST_BUCKET = (
    f"INSERT INTO history_hosts (grain, at, host, {', '.join(HOST_FIELDS)})"
    f" VALUES ({_marks(3 + len(HOST_FIELDS))}) ON CONFLICT (grain, at, host) DO UPDATE SET "
    + ", ".join(f"{name} = history_hosts.{name} + excluded.{name}" for name in HOST_FIELDS)
)
HOST_BUCKETS = (
    f"SELECT at, host, {', '.join(HOST_FIELDS)} FROM history_hosts"
    " WHERE grain = ? AND at >= ? AND at < ? ORDER BY at, host"
)
EXPIRE_MODEL_BUCKETS = "DELETE FROM history_models WHERE grain = ? AND at < ?"
EXPIRE_HOST_BUCKETS = "DELETE FROM history_hosts WHERE grain = ? AND at < ?"

# ---------------------------------------------------------------- timelines

PUT_SEGMENT = (
    "INSERT INTO history_segments (host, begins, ends, kind, models) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (host, begins) DO UPDATE SET ends = excluded.ends, kind = excluded.kind,"
    " models = excluded.models"
)
SEGMENTS = (
    "SELECT host, begins, ends, kind, models FROM history_segments"
    " WHERE ends > ? AND begins < ? ORDER BY host, begins"
)
EXPIRE_SEGMENTS = "DELETE FROM history_segments WHERE ends < ?"

# ---------------------------------------------------------------- which jobs are counted

COUNT_JOB = (  # inserts nothing if the job is already counted or was deleted
    "INSERT INTO history_counted (job_id) SELECT id FROM jobs WHERE id = ?"
    " ON CONFLICT (job_id) DO NOTHING RETURNING job_id"
)
JOB_IS_KEPT = "SELECT id FROM jobs WHERE id = ?"
_ENDED = (
    "SELECT jobs.id, jobs.model, jobs.state, jobs.queued_at, jobs.started_at, jobs.finished_at,"
    " jobs.error, history_promises.given_at, history_promises.earliest, history_promises.latest"
    " FROM jobs LEFT JOIN history_promises ON history_promises.job_id = jobs.id"
    " WHERE jobs.finished_at IS NOT NULL"
)
_UNCOUNTED = "NOT EXISTS (SELECT 1 FROM history_counted WHERE history_counted.job_id = jobs.id)"
UNCOUNTED = (
    f"{_ENDED} AND jobs.acknowledged = 1 AND jobs.finished_at >= ? AND {_UNCOUNTED}"
    " ORDER BY jobs.finished_at LIMIT ?"
)
UNCOUNTED_UNDELIVERED = (
    f"{_ENDED} AND jobs.acknowledged = 0 AND {_UNCOUNTED} ORDER BY jobs.id LIMIT ?"
)

# ---------------------------------------------------------------- promises

PROMISES = "SELECT job_id, given_at, earliest, latest FROM history_promises"
NOTE_PROMISE = (
    "INSERT INTO history_promises (job_id, given_at, earliest, latest)"
    " SELECT id, CAST(? AS double precision), CAST(? AS double precision),"
    " CAST(? AS double precision) FROM jobs"
    # Not "IS NULL": PostgreSQL might then read all open jobs by their index.
    " WHERE id = ? AND coalesce(finished_at, 0) = 0 ON CONFLICT (job_id) DO NOTHING"
)
DROP_PROMISE = "DELETE FROM history_promises WHERE job_id = ?"

# ---------------------------------------------------------------- people

OPEN_BY_OWNER = (
    "SELECT owner, state, count(*) FROM jobs WHERE finished_at IS NULL GROUP BY owner, state"
)
ENDED_BY_OWNER = (
    "SELECT owner, count(*) FROM jobs"
    " WHERE finished_at IS NOT NULL AND acknowledged = 1 AND finished_at >= ? GROUP BY owner"
)
UNDELIVERED_BY_OWNER = ENDED_BY_OWNER.replace("acknowledged = 1", "acknowledged = 0")

# ---------------------------------------------------------------- names

NEWEST_ORIGIN = (
    "SELECT reply_to FROM jobs WHERE owner = ? AND bulk = 0 AND parent IS NULL"
    " ORDER BY id DESC LIMIT 1"
)
WEB_NAMES = "SELECT id, name FROM web_people"
KEY_NAMES = 'SELECT "user", user_name FROM api_keys'
