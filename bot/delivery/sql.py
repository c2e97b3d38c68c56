"""The SQL statements for message records, in the dialect that SQLite and PostgreSQL share."""

# ruff: noqa: S608 - every name put into these texts is a constant; values are always parameters

# ---------------------------------------------------------------- which message shows which job

PUT_MESSAGE = (
    "INSERT INTO messages (job_id, platform, chat, message, sent_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (job_id) DO UPDATE SET platform = excluded.platform, chat = excluded.chat,"
    " message = excluded.message, sent_at = excluded.sent_at"
)
MESSAGE = "SELECT platform, chat, message, sent_at FROM messages WHERE job_id = ?"
JOBS_IN = "SELECT job_id FROM messages WHERE platform = ? AND chat = ? ORDER BY job_id DESC LIMIT ?"
JOB_OF = """
SELECT job_id, 1 FROM messages WHERE platform = ? AND chat = ? AND message = ?
UNION ALL
SELECT job_id, coalesce(number, 1) FROM messages JOIN deliveries USING (job_id)
WHERE coalesce(deliveries.platform, messages.platform) = ?
    AND coalesce(deliveries.chat, messages.chat) = ? AND deliveries.message = ?
"""
PARTS = """
SELECT platform, chat, message FROM messages WHERE job_id = ?
UNION ALL
SELECT coalesce(deliveries.platform, messages.platform),
    coalesce(deliveries.chat, messages.chat), deliveries.message
FROM messages JOIN deliveries USING (job_id)
WHERE job_id = ? AND deliveries.message IS NOT NULL
    AND (deliveries.chat IS NULL OR deliveries.platform = ? AND deliveries.chat = ?)
"""
MOVE_CHAT = tuple(
    f"UPDATE {table} SET chat = ? WHERE platform = ? AND chat = ?"
    for table in ("messages", "deliveries", "prompts", "owed")
)

# ---------------------------------------------------------------- what a reply is meant for

PUT_PROMPT = (
    "INSERT INTO prompts (platform, chat, message, command, job_id) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (platform, chat, message)"
    " DO UPDATE SET command = excluded.command, job_id = excluded.job_id"
)
PROMPT = "SELECT command, job_id FROM prompts WHERE platform = ? AND chat = ? AND message = ?"

# ---------------------------------------------------------------- further parts of a result

BEGIN_PART = (
    "INSERT INTO deliveries (job_id, part, state, message, changed_at)"
    " VALUES (?, ?, 'attempting', NULL, ?) ON CONFLICT (job_id, part) DO NOTHING"
)
END_PART = (
    "UPDATE deliveries SET state = ?, message = ?, number = ?, changed_at = ?"
    " WHERE job_id = ? AND part = ?"
)
NOTE_PART = (
    "INSERT INTO deliveries (job_id, part, state, platform, chat, message, number, changed_at)"
    " VALUES (?, ?, 'sent', ?, ?, ?, ?, ?) ON CONFLICT (job_id, part) DO NOTHING"
)
DROP_PART = "DELETE FROM deliveries WHERE job_id = ? AND part = ?"
UNCLEAR_PARTS = "SELECT part FROM deliveries WHERE job_id = ? AND state <> 'sent'"

# ---------------------------------------------------------------- chats that cannot be reached

UNREACHABLE = "SELECT job_id, since, tries, given_up FROM unreachable WHERE given_up = 0"
COUNT_UNREACHABLE = (
    "INSERT INTO unreachable (job_id, since, tries, given_up) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (job_id) DO UPDATE SET given_up = excluded.given_up,"
    " tries = CASE WHEN unreachable.tries < excluded.tries THEN excluded.tries"
    " ELSE unreachable.tries + 1 END"
    " RETURNING since, tries, given_up"
)

# ---------------------------------------------------------------- conversations

EXPIRE_STARTS = "DELETE FROM fresh_starts WHERE since < ?"
PUT_START = (
    'INSERT INTO fresh_starts (platform, chat, "user", since) VALUES (?, ?, ?, ?)'
    ' ON CONFLICT (platform, chat, "user") DO UPDATE SET since = excluded.since'
)
START_OF = 'SELECT since FROM fresh_starts WHERE platform = ? AND chat = ? AND "user" = ?'
DELETE_STARTS_OF = 'DELETE FROM fresh_starts WHERE "user" = ?'

# ---------------------------------------------------------------- notes of platforms

PUT_NOTE = (
    "INSERT INTO notes (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
ADD_NOTE = "INSERT INTO notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
NOTE = "SELECT value FROM notes WHERE name = ?"

# ---------------------------------------------------------------- unfinished messages

_UPDATE = "id, platform, chat, message, request, language, task, outcome, runs, since"
ADD_UPDATE = (
    "INSERT INTO owed (platform, chat, message, request, language, task, since)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_UPDATE}"
)
UPDATES = f"SELECT {_UPDATE} FROM owed ORDER BY id"
UPDATE_SHOWN = f"UPDATE owed SET chat = ?, message = ? WHERE id = ? RETURNING {_UPDATE}"
UPDATE_BEGUN = f"UPDATE owed SET runs = runs + 1 WHERE id = ? RETURNING {_UPDATE}"
UPDATE_DONE = f"UPDATE owed SET outcome = ? WHERE id = ? RETURNING {_UPDATE}"
UPDATE_MOVED = (
    f"UPDATE owed SET chat = ?, message = NULL, request = NULL WHERE id = ? RETURNING {_UPDATE}"
)
SETTLE_UPDATE = "DELETE FROM owed WHERE id = ?"
