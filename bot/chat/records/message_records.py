"""What the bot remembers beside the jobs, in the same database and through the same writer.

Which message belongs to which job, which parts of a result were sent, which chats cannot be
reached, and small notes of the platforms.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from bot.chat.api.base import MessageRef
from bot.chat.records.unfinished import Debts
from queueing.store import Database, MigrationSet

MIGRATIONS = MigrationSet(name="bot", directory=files("bot") / "migrations")


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """A job's status message and when it was sent (UNIX seconds)."""

    ref: MessageRef
    sent_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreachable:
    """Since when a finished job's chat cannot be reached, and how often it was tried."""

    since: float
    tries: int
    given_up: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyPrompt:
    """One of the bot's messages that asks for a reply: which command the reply completes, for which job."""

    command: str
    job_id: int


_JOB_OF = """
SELECT job_id FROM messages WHERE platform = ? AND chat = ? AND message = ?
UNION ALL
SELECT job_id FROM messages JOIN deliveries USING (job_id)
WHERE messages.platform = ? AND messages.chat = ? AND deliveries.message = ?
"""
_PARTS = """
SELECT platform, chat, message FROM messages WHERE job_id = ?
UNION ALL
SELECT messages.platform, messages.chat, deliveries.message
FROM messages JOIN deliveries USING (job_id)
WHERE job_id = ? AND deliveries.message IS NOT NULL
"""


class MessageRecords:
    """Reads and writes the bot's own tables. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.debts = Debts(database)

    async def note_message(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a job's status message, in place of an earlier one."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?)",
                (job_id, ref.platform, ref.chat, ref.message, now),
            )

        await self._database.write(change)

    async def note_again(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a further message that shows a job, so that replies to it are understood.

        Only one in the job's own chat can be: numbers of messages mean nothing elsewhere.
        """
        sent = await self.message(job_id)
        if sent is None:
            await self.note_message(job_id, ref, now)
        elif (sent.ref.platform, sent.ref.chat) == (ref.platform, ref.chat):
            part = f"again {ref.message}"
            if await self.begin_part(job_id, part, now):
                await self.end_part(job_id, part, now, message=ref.message)

    async def message(self, job_id: int) -> SentMessage | None:
        """Return a job's status message, or None where none was sent."""

        def query(connection: sqlite3.Connection) -> SentMessage | None:
            row = connection.execute(
                "SELECT platform, chat, message, sent_at FROM messages WHERE job_id = ?", (job_id,)
            ).fetchone()
            if row is None:
                return None
            ref = MessageRef(platform=row[0], chat=row[1], message=row[2])
            return SentMessage(ref=ref, sent_at=row[3])

        return await self._database.read(query)

    async def job_of(self, ref: MessageRef) -> int | None:
        """Return the job whose status message, or whose further part, this is; or None."""

        def query(connection: sqlite3.Connection) -> int | None:
            row = connection.execute(_JOB_OF, (ref.platform, ref.chat, ref.message) * 2).fetchone()
            return None if row is None else int(row[0])

        return await self._database.read(query)

    async def parts(self, job_id: int) -> tuple[MessageRef, ...]:
        """Return all messages of a job that are known: its status message and further parts."""

        def query(connection: sqlite3.Connection) -> tuple[MessageRef, ...]:
            rows = connection.execute(_PARTS, (job_id, job_id))
            return tuple(MessageRef(platform=row[0], chat=row[1], message=row[2]) for row in rows)

        return await self._database.read(query)

    async def note_prompt(self, ref: MessageRef, prompt: "ReplyPrompt") -> None:
        """Remember what a reply to one of the bot's messages is meant for. Idempotent."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?, ?)",
                (ref.platform, ref.chat, ref.message, prompt.command, prompt.job_id),
            )

        await self._database.write(change)

    async def prompt(self, ref: MessageRef) -> "ReplyPrompt | None":
        """Return what a reply to that message is meant for, or None."""

        def query(connection: sqlite3.Connection) -> ReplyPrompt | None:
            row = connection.execute(
                "SELECT command, job_id FROM prompts"
                " WHERE platform = ? AND chat = ? AND message = ?",
                (ref.platform, ref.chat, ref.message),
            ).fetchone()
            return None if row is None else ReplyPrompt(command=row[0], job_id=row[1])

        return await self._database.read(query)

    async def move_chat(self, platform: str, old: str, new: str) -> None:
        """Follow a chat to its new notation. Idempotent."""

        def change(connection: sqlite3.Connection) -> None:
            for table in ("messages", "prompts", "owed"):
                connection.execute(
                    f"UPDATE {table} SET chat = ? WHERE platform = ? AND chat = ?",  # noqa: S608  our own words
                    (new, platform, old),
                )

        await self._database.write(change)

    async def begin_part(self, job_id: int, part: str, now: float) -> bool:
        """Mark a part as being sent; False when an earlier try may have sent it already."""

        def change(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "INSERT OR IGNORE INTO deliveries VALUES (?, ?, 'attempting', NULL, ?)",
                (job_id, part, now),
            )
            return done.rowcount == 1

        return await self._database.write(change)

    async def end_part(
        self, job_id: int, part: str, now: float, *, message: str | None, unclear: bool = False
    ) -> None:
        """Note that a part was sent (or that nobody knows)."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE deliveries SET state = ?, message = ?, changed_at = ?"
                " WHERE job_id = ? AND part = ?",
                ("unclear" if unclear else "sent", message, now, job_id, part),
            )

        await self._database.write(change)

    async def drop_part(self, job_id: int, part: str) -> None:
        """Forget a part that certainly was not sent, so that it may be tried again."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM deliveries WHERE job_id = ? AND part = ?", (job_id, part)
            )

        await self._database.write(change)

    async def unclear_parts(self, job_id: int) -> frozenset[str]:
        """Return the parts of which nobody knows whether they were sent.

        Those that a crash interrupted are among them, so ask only when nothing is being sent.
        """

        def query(connection: sqlite3.Connection) -> frozenset[str]:
            rows = connection.execute(
                "SELECT part FROM deliveries WHERE job_id = ? AND state <> 'sent'", (job_id,)
            )
            return frozenset(row[0] for row in rows)

        return await self._database.read(query)

    async def unreachable(self) -> Mapping[int, Unreachable]:
        """Return the ended jobs whose chats could not be reached and are still tried, by job id."""

        def query(connection: sqlite3.Connection) -> Mapping[int, Unreachable]:
            rows = connection.execute(
                "SELECT job_id, since, tries, given_up FROM unreachable WHERE NOT given_up"
            )
            return {
                row[0]: Unreachable(since=row[1], tries=row[2], given_up=bool(row[3]))
                for row in rows
            }

        return await self._database.read(query)

    async def note_unreachable(
        self, job_id: int, now: float, *, given_up: bool, tries: int = 1
    ) -> Unreachable:
        """Count one more failed try to deliver a finished job and return the count so far.

        The count is at least `tries`: the chat may have failed before the job had ended.
        """

        def change(connection: sqlite3.Connection) -> Unreachable:
            row = connection.execute(
                "INSERT INTO unreachable VALUES (?, ?, ?, ?) ON CONFLICT (job_id) DO UPDATE"
                " SET tries = max(tries + 1, excluded.tries), given_up = excluded.given_up"
                " RETURNING since, tries, given_up",
                (job_id, now, tries, int(given_up)),
            ).fetchone()
            return Unreachable(since=row[0], tries=row[1], given_up=bool(row[2]))

        return await self._database.write(change)

    async def begin_afresh(
        self, platform: str, chat: str, user: str, now: float, *, idle_s: float
    ) -> None:
        """Begin a person's conversation in a chat again; older beginnings no longer matter."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM fresh_starts WHERE since < ?", (now - idle_s,))
            connection.execute(
                "INSERT OR REPLACE INTO fresh_starts VALUES (?, ?, ?, ?)",
                (platform, chat, user, now),
            )

        await self._database.write(change)

    async def afresh_since(self, platform: str, chat: str, user: str) -> float:
        """Return since when a person's conversation in a chat is a new one, in UNIX seconds."""

        def query(connection: sqlite3.Connection) -> float:
            row = connection.execute(
                "SELECT since FROM fresh_starts WHERE platform = ? AND chat = ? AND user = ?",
                (platform, chat, user),
            ).fetchone()
            return 0.0 if row is None else float(row[0])

        return await self._database.read(query)

    async def forget(self, user: str) -> None:
        """Delete what is noted of a person."""
        await self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM fresh_starts WHERE user = ?", (user,)
            )
        )

    async def note(self, name: str, value: str) -> None:
        """Keep a small fact across restarts."""

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

        await self._database.write(change)

    async def noted(self, name: str) -> str | None:
        """Return a fact kept earlier, or None."""

        def query(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

        return await self._database.read(query)
