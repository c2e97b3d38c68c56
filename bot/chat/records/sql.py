"""The SQL of what the bot remembers of messages, by name, in the dialect that SQLite and PostgreSQL share."""

# ruff: noqa: S608 - every name put into these texts is a constant; values are always parameters

# ---------------------------------------------------------------- which message shows which job

PUT_MESSAGE = (
    "INSERT INTO messages (job_id, platform, chat, message, sent_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (job_id) DO UPDATE SET platform = excluded.platform, chat = excluded.chat,"
    " message = excluded.message, sent_at = excluded.sent_at"
)
MESSAGE = "SELECT platform, chat, message, sent_at FROM messages WHERE job_id = ?"
JOB_OF = """
SELECT job_id FROM messages WHERE platform = ? AND chat = ? AND message = ?
UNION ALL
SELECT job_id FROM messages JOIN deliveries USING (job_id)
WHERE messages.platform = ? AND messages.chat = ? AND deliveries.message = ?
"""
PARTS = """
SELECT platform, chat, message FROM messages WHERE job_id = ?
UNION ALL
SELECT messages.platform, messages.chat, deliveries.message
FROM messages JOIN deliveries USING (job_id)
WHERE job_id = ? AND deliveries.message IS NOT NULL
"""
MOVE_CHAT = tuple(
    f"UPDATE {table} SET chat = ? WHERE platform = ? AND chat = ?"
    for table in ("messages", "prompts", "owed")
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
    "UPDATE deliveries SET state = ?, message = ?, changed_at = ? WHERE job_id = ? AND part = ?"
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

# ---------------------------------------------------------------- ended links

END_LINKS = (
    "INSERT INTO link_ends (job_id, ends) SELECT id, 1 FROM jobs WHERE id = ?"
    " ON CONFLICT (job_id) DO UPDATE SET ends = link_ends.ends + 1"
)
LINK_ENDS = "SELECT ends FROM link_ends WHERE job_id = ?"

# ---------------------------------------------------------------- unfinished messages

_DEBT = "id, platform, chat, message, request, language, task, outcome, runs, since"
ADD_DEBT = (
    "INSERT INTO owed (platform, chat, message, request, language, task, since)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_DEBT}"
)
DEBTS = f"SELECT {_DEBT} FROM owed ORDER BY id"
DEBT_SHOWN = f"UPDATE owed SET chat = ?, message = ? WHERE id = ? RETURNING {_DEBT}"
DEBT_BEGUN = f"UPDATE owed SET runs = runs + 1 WHERE id = ? RETURNING {_DEBT}"
DEBT_DONE = f"UPDATE owed SET outcome = ? WHERE id = ? RETURNING {_DEBT}"
DEBT_MOVED = (
    f"UPDATE owed SET chat = ?, message = NULL, request = NULL WHERE id = ? RETURNING {_DEBT}"
)
SETTLE_DEBT = "DELETE FROM owed WHERE id = ?"

# ---------------------------------------------------------------- the log of the web chat

_ENTRY = "chat, message, number, place, at, shown"
NUMBERING = "web chat"
"""The turn for numbering messages: pages read on from the highest number they have seen."""
NEXT_NUMBER = "SELECT coalesce(max(number), 0) + 1 FROM web_messages"
ADD_ENTRY = f"INSERT INTO web_messages ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?)"
ENTRY = f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND message = ?"
NEWEST_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND shown IS NOT NULL"
    " ORDER BY place DESC LIMIT ?"
)
CHANGED_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND number > ? ORDER BY number LIMIT ?"
)
EARLIER_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND place < ? AND shown IS NOT NULL"
    " ORDER BY place DESC LIMIT ?"
)
CHANGE_ENTRY = (
    f"UPDATE web_messages SET number = ({NEXT_NUMBER}), shown = ?"
    " WHERE chat = ? AND message = ? AND shown IS NOT NULL"
)
SHOWN_IN_CHAT = "SELECT message FROM web_messages WHERE chat = ? AND shown IS NOT NULL"
DROP_OLDEST_ENTRIES = (
    "DELETE FROM web_messages WHERE chat = ? AND place <= (SELECT place FROM web_messages"
    " WHERE chat = ? ORDER BY place DESC LIMIT 1 OFFSET ?)"
)
_OLD = """at < ? AND NOT EXISTS (
    SELECT 1 FROM messages WHERE messages.platform = 'web'
    AND messages.chat = web_messages.chat AND messages.message = web_messages.message
)"""
_LAST = "(SELECT max(number) FROM web_messages)"
OLD_LAST_ENTRY = (
    f"SELECT chat, message FROM web_messages WHERE number = {_LAST} AND shown IS NOT NULL"
    f" AND {_OLD}"
)
DROP_OLD_ENTRIES = (
    "DELETE FROM web_messages WHERE number IN (SELECT number FROM web_messages"
    f" WHERE number < {_LAST} AND {_OLD} LIMIT ?)"
)

PUT_FILE = (
    "INSERT INTO web_files (chat, message, id, name, mime, data) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (chat, id) DO UPDATE SET message = excluded.message, name = excluded.name,"
    " mime = excluded.mime, data = excluded.data"
)
FILE = "SELECT name, mime, data FROM web_files WHERE chat = ? AND id = ?"
FILE_HEAD = "SELECT name, mime, length(data) FROM web_files WHERE chat = ? AND id = ?"
FILES_SIZE = "SELECT coalesce(sum(length(data)), 0) FROM web_files"
# Every change of a message stores its files again, so their order is that of its number.
FILES_NEWEST_FIRST = (
    "SELECT chat, message, length(data) FROM web_files JOIN web_messages USING (chat, message)"
    " ORDER BY number DESC"
)
DROP_FILES = "DELETE FROM web_files WHERE chat = ? AND message = ?"
DROP_FILES_OF_CHAT = "DELETE FROM web_files WHERE chat = ?"
