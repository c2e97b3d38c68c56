"""Stores the bot's knowledge of its messages, in the same database as the jobs.

It records which message belongs to which job, which parts of a result were sent, which chats are
unreachable, what a reply is meant for, and which messages must still be corrected. Every write is
durable when it returns. All methods raise `StoreError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, repeat

from pydantic import TypeAdapter

from bot.core.answers import Task
from bot.core.content import Body
from bot.core.platform import MessageRef
from bot.delivery import sql
from queueing.store.sql.batcher import ChangeKind
from queueing.store.sql.database import Connection, Database

_BODY: TypeAdapter[Body] = TypeAdapter(Body)


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingUpdate:
    """A message that must still be updated: with a task's outcome, or because its job was deleted.

    `ref` is None while no message is known. `request` is the message it replies to. `runs` counts
    how often the task was started.
    """

    id: int
    platform: str
    chat: str
    ref: MessageRef | None
    request: MessageRef | None
    language: str
    task: Task | None
    outcome: Body | None
    runs: int
    since: float


class PendingUpdates:
    """The messages that must still be updated. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        platform: str,
        chat: str,
        request: MessageRef | None,
        task: Task,
        now: float,
    ) -> PendingUpdate:
        """Record a task that is about to start."""
        asked = request.message if request is not None else None
        values = (platform, chat, None, asked, task.language, task.model_dump_json(), now)
        return await self._write(sql.ADD_UPDATE, values)

    async def deleted(self, ref: MessageRef, language: str, now: float) -> PendingUpdate:
        """Record that a message's job was deleted. A trigger does this for jobs in the database."""
        values = (ref.platform, ref.chat, ref.message, None, language, None, now)
        return await self._write(sql.ADD_UPDATE, values)

    async def shown(self, update: PendingUpdate, ref: MessageRef) -> PendingUpdate:
        """Record the message that shows the task as running."""
        return await self._write(sql.UPDATE_SHOWN, (ref.chat, ref.message, update.id))

    async def begun(self, update: PendingUpdate) -> PendingUpdate:
        """Count one more start of the task."""
        return await self._write(sql.UPDATE_BEGUN, (update.id,))

    async def done(self, update: PendingUpdate, outcome: Body) -> PendingUpdate:
        """Record the task's outcome."""
        written = _BODY.dump_json(outcome).decode()
        return await self._write(sql.UPDATE_DONE, (written, update.id))

    async def moved(self, update: PendingUpdate, chat: str) -> PendingUpdate:
        """Move a pending update to its chat's new id.

        Its messages have other ids there, so they are forgotten.
        """
        return await self._write(sql.UPDATE_MOVED, (chat, update.id))

    async def _write(self, statement: str, values: Sequence[str | float | None]) -> PendingUpdate:
        def change(connection: Connection) -> PendingUpdate:
            return _update(connection.execute(statement, values).fetchone())

        return await self._database.write(change)

    async def settle(self, update: PendingUpdate) -> None:
        """Delete the record of an update that was carried out or given up."""
        await self._database.execute(sql.SETTLE_UPDATE, (update.id,))

    async def all(self) -> Sequence[PendingUpdate]:
        """Return all pending updates, oldest first."""
        return [_update(row) for row in await self._database.rows(sql.UPDATES)]


def _update(row: Sequence[object]) -> PendingUpdate:
    number, platform, chat, message, request, language, task, outcome, runs, since = row

    def ref(name: object) -> MessageRef | None:
        if name is None:
            return None
        return MessageRef(platform=str(platform), chat=str(chat), message=str(name))

    return PendingUpdate(
        id=int(str(number)),
        platform=str(platform),
        chat=str(chat),
        ref=ref(message),
        request=ref(request),
        language=str(language),
        task=None if task is None else Task.model_validate_json(str(task)),
        outcome=None if outcome is None else _BODY.validate_json(str(outcome)),
        runs=int(str(runs)),
        since=float(str(since)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """A job's status message and when it was sent (UNIX seconds)."""

    ref: MessageRef
    sent_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreachable:
    """An ended job that cannot be delivered: since when, and after how many tries."""

    since: float
    tries: int
    given_up: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyPrompt:
    """A bot message that asks for a reply: which command the reply completes, and for which job.

    The command may be followed by options.
    """

    command: str
    job_id: int


_Message = tuple[int, str, str, str, float]
"""The parameters of `PUT_MESSAGE`."""


def _note(connection: Connection, messages: Sequence[_Message]) -> Sequence[None]:
    connection.executemany(sql.PUT_MESSAGE, messages)
    return [None] * len(messages)


_NOTING: ChangeKind[_Message, None] = ChangeKind(run=_note)  # batched, because every job has one


class MessageRecords:
    """Stores which message shows which job and other message facts; implements `Notes`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.updates = PendingUpdates(database)

    async def note_message(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Store a job's status message, replacing an earlier one."""
        row = (job_id, ref.platform, ref.chat, ref.message, now)
        await self._database.submit(_NOTING, row)

    async def note_again(
        self, job_id: int, ref: MessageRef, now: float, number: int | None = None
    ) -> None:
        """Store a further message that shows a job, so that replies to it are understood.

        It may be in any chat. If the job has no status message, this message becomes it. `number`
        is that of the first image among the result's; those sent with it show the next ones.
        """
        sent = await self.message(job_id)
        if sent is None:
            await self.note_message(job_id, ref, now)
            await self.note_others(job_id, ref, now, number)
            return
        here = (sent.ref.platform, sent.ref.chat) == (ref.platform, ref.chat)
        place = (None, None) if here else (ref.platform, ref.chat)
        await self._note_parts(job_id, place, (ref.message, *ref.others), now, number)

    async def note_others(
        self, job_id: int, ref: MessageRef, now: float, number: int | None = None
    ) -> None:
        """Store the messages that were sent with one of a job's in the same chat. Idempotent.

        `number` is that of the image which this one shows.
        """
        if ref.others:
            following = None if number is None else number + 1
            await self._note_parts(job_id, (None, None), ref.others, now, following)

    async def _note_parts(
        self,
        job_id: int,
        place: tuple[str | None, str | None],
        messages: Sequence[str],
        now: float,
        first: int | None,
    ) -> None:
        where = " ".join(filter(None, ("again", *place)))
        numbers = repeat(None) if first is None else count(first)
        rows = [
            (job_id, f"{where} {message}", *place, message, number, now)
            for message, number in zip(messages, numbers, strict=False)
        ]
        await self._database.executemany(sql.NOTE_PART, rows)

    async def message(self, job_id: int) -> SentMessage | None:
        """Return a job's status message, or None if none was sent."""
        row = await self._database.row(sql.MESSAGE, (job_id,))
        if row is None:
            return None
        ref = MessageRef(platform=row[0], chat=row[1], message=row[2])
        return SentMessage(ref=ref, sent_at=row[3])

    async def job_of(self, ref: MessageRef) -> int | None:
        """Return the job that a message shows, or None."""
        row = await self._shown_by(ref)
        return None if row is None else row[0]

    async def image_of(self, ref: MessageRef) -> int:
        """Return the number of the image that a job's message shows; 1 if it shows several."""
        row = await self._shown_by(ref)
        return 1 if row is None else row[1]

    async def _shown_by(self, ref: MessageRef) -> tuple[int, int] | None:
        row = await self._database.row(sql.JOB_OF, (ref.platform, ref.chat, ref.message) * 2)
        return None if row is None else (int(row[0]), int(row[1]))

    async def jobs_in(self, platform: str, chat: str, limit: int) -> tuple[int, ...]:
        """Return the newest jobs whose status messages are in a chat, newest first."""
        rows = await self._database.rows(sql.JOBS_IN, (platform, chat, limit))
        return tuple(job_id for (job_id,) in rows)

    async def parts(self, job_id: int, platform: str, chat: str) -> tuple[MessageRef, ...]:
        """Return the known messages of a job in the chat of its status message and in this one."""
        rows = await self._database.rows(sql.PARTS, (job_id, job_id, platform, chat))
        return tuple(MessageRef(platform=row[0], chat=row[1], message=row[2]) for row in rows)

    async def note_prompt(self, ref: MessageRef, prompt: ReplyPrompt) -> None:
        """Store the command that a reply to one of the bot's messages completes. Idempotent."""
        row = (ref.platform, ref.chat, ref.message, prompt.command, prompt.job_id)
        await self._database.execute(sql.PUT_PROMPT, row)

    async def prompt(self, ref: MessageRef) -> ReplyPrompt | None:
        """Return the command that a reply to that message completes, or None."""
        row = await self._database.row(sql.PROMPT, (ref.platform, ref.chat, ref.message))
        return None if row is None else ReplyPrompt(command=row[0], job_id=row[1])

    async def move_chat(self, platform: str, old: str, new: str) -> None:
        """Move all records of a chat to its new id. Idempotent."""

        def change(connection: Connection) -> None:
            for statement in sql.MOVE_CHAT:
                connection.execute(statement, (new, platform, old))

        await self._database.write(change)

    async def begin_part(self, job_id: int, part: str, now: float) -> bool:
        """Mark a part as being sent. Returns False if an earlier try may have sent it already."""

        def change(connection: Connection) -> bool:
            return connection.execute(sql.BEGIN_PART, (job_id, part, now)).rowcount == 1

        return await self._database.write(change)

    async def end_part(
        self,
        job_id: int,
        part: str,
        now: float,
        *,
        message: str | None,
        number: int | None = None,
        unclear: bool = False,
    ) -> None:
        """Record that a part was sent, or with `unclear` that it may or may not have been.

        `number` is that of the image it shows.
        """
        state = "unclear" if unclear else "sent"
        await self._database.execute(sql.END_PART, (state, message, number, now, job_id, part))

    async def drop_part(self, job_id: int, part: str) -> None:
        """Forget a part that was certainly not sent, so that it may be tried again."""
        await self._database.execute(sql.DROP_PART, (job_id, part))

    async def unclear_parts(self, job_id: int) -> frozenset[str]:
        """Return the parts that may or may not have been sent.

        This includes parts that are being sent, so call it only while none are.
        """
        rows = await self._database.rows(sql.UNCLEAR_PARTS, (job_id,))
        return frozenset(part for (part,) in rows)

    async def unreachable(self) -> Mapping[int, Unreachable]:
        """Return the undeliverable jobs that are still retried, by job id."""
        return {
            job_id: Unreachable(since=since, tries=tries, given_up=bool(given_up))
            for job_id, since, tries, given_up in await self._database.rows(sql.UNREACHABLE)
        }

    async def note_unreachable(
        self, job_id: int, now: float, *, given_up: bool, tries: int = 1
    ) -> Unreachable:
        """Count one more failed delivery of an ended job, and return the total.

        The total is at least `tries`, because the chat may have failed before the job ended.
        """

        def change(connection: Connection) -> Unreachable:
            row = connection.execute(
                sql.COUNT_UNREACHABLE, (job_id, now, tries, int(given_up))
            ).fetchone()
            return Unreachable(since=row[0], tries=row[1], given_up=bool(row[2]))

        return await self._database.write(change)

    async def begin_afresh(
        self, platform: str, chat: str, user: str, now: float, *, idle_s: float
    ) -> None:
        """Start a person's new conversation in a chat, and delete starts older than `idle_s`."""

        def change(connection: Connection) -> None:
            connection.execute(sql.EXPIRE_STARTS, (now - idle_s,))
            connection.execute(sql.PUT_START, (platform, chat, user, now))

        await self._database.write(change)

    async def afresh_since(self, platform: str, chat: str, user: str) -> float:
        """Return when a person last started a new conversation in a chat, in UNIX seconds.

        Returns 0.0 if they never did.
        """
        row = await self._database.row(sql.START_OF, (platform, chat, user))
        return 0.0 if row is None else float(row[0])

    async def forget(self, user: str) -> None:
        """Delete all data stored about a person."""
        await self._database.execute(sql.DELETE_STARTS_OF, (user,))

    async def note(self, name: str, value: str) -> None:
        """Store a small value across restarts."""
        await self._database.execute(sql.PUT_NOTE, (name, value))

    async def note_first(self, name: str, value: str) -> str:
        """Store a small value unless the name is taken. Returns the stored value."""

        def change(connection: Connection) -> str:
            connection.execute(sql.ADD_NOTE, (name, value))
            return str(connection.execute(sql.NOTE, (name,)).fetchone()[0])

        return await self._database.write(change)

    async def noted(self, name: str) -> str | None:
        """Return a stored value, or None."""
        row = await self._database.row(sql.NOTE, (name,))
        return None if row is None else str(row[0])
