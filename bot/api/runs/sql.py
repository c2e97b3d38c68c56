"""SQL statements of the API, in the dialect that SQLite and PostgreSQL share."""

ATTENDING = "API calls"
"""Lock for changes of job attendance, which depend on the states read first."""
ATTENDANCE = "SELECT run, state FROM attendance WHERE job_id = ?"
NOTE_ATTENDANCE = (
    "INSERT INTO attendance (job_id, run, state) SELECT id, CAST(? AS TEXT), CAST(? AS TEXT)"
    " FROM jobs WHERE id = ?"
    " ON CONFLICT (job_id, run) DO UPDATE SET state = excluded.state"
)
CHANGE_ATTENDANCE = "UPDATE attendance SET state = ? WHERE job_id = ? AND run = ? AND state = ?"
