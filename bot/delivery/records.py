"""What the bot remembers of messages beside the jobs, in the jobs' database.

Which message belongs to which job, which parts of a result were sent, which chats cannot be
reached, what a reply is meant for, what a message must still come to show. Every write is durable
when it returns; all raise `StoreError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from bot.core.answers import Task
from bot.core.content import Body
from bot.core.platform import MessageRef
from bot.delivery import sql
from queueing.store.sql.batcher import ChangeKind
from queueing.store.sql.database import Connection, Database

_BODY: TypeAdapter[Body] = TypeAdapter(Body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Debt:
    """A message, and what it must come to show: a task's outcome, or that its job was deleted.

    `ref` is None while none is known, `request` the message it replies to. `runs` counts how often
    the task was begun.
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


class Debts:
    """The messages that are not true yet. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        platform: str,
        chat: str,
        request: MessageRef | None,
        task: Task,
        now: float,
    ) -> Debt:
        """Note a task that is about to begin."""
        asked = request.message if request is not None else None
        values = (platform, chat, None, asked, task.language, task.model_dump_json(), now)
        return await self._insert(values)

    async def deleted(self, ref: MessageRef, language: str, now: float) -> Debt:
        """Note that the job of a message was deleted; for rows, a trigger does it."""
        values = (ref.platform, ref.chat, ref.message, None, language, None, now)
        return await self._insert(values)

    async def _insert(self, values: Sequence[str | float | None]) -> Debt:
        def change(connection: Connection) -> Debt:
            return _debt(connection.execute(sql.ADD_DEBT, values).fetchone())

        return await self._database.write(change)

    async def shown(self, debt: Debt, ref: MessageRef) -> Debt:
        """Note the message that shows that the task is under way."""
        return await self._update(debt, sql.DEBT_SHOWN, (ref.chat, ref.message))

    async def begun(self, debt: Debt) -> Debt:
        """Count that the task is begun."""
        return await self._update(debt, sql.DEBT_BEGUN, ())

    async def done(self, debt: Debt, outcome: Body) -> Debt:
        """Note the task's outcome."""
        return await self._update(debt, sql.DEBT_DONE, (_BODY.dump_json(outcome).decode(),))

    async def moved(self, debt: Debt, chat: str) -> Debt:
        """Follow a chat to its new notation, where its messages have other ids."""
        return await self._update(debt, sql.DEBT_MOVED, (chat,))

    async def _update(self, debt: Debt, statement: str, values: Sequence[str]) -> Debt:
        def change(connection: Connection) -> Debt:
            return _debt(connection.execute(statement, (*values, debt.id)).fetchone())

        return await self._database.write(change)

    async def settle(self, debt: Debt) -> None:
        """Forget a debt: its message is true, or was given up."""

        def change(connection: Connection) -> None:
            connection.execute(sql.SETTLE_DEBT, (debt.id,))

        await self._database.write(change)

    async def all(self) -> Sequence[Debt]:
        """Return all debts, the oldest first."""

        def query(connection: Connection) -> Sequence[Debt]:
            return [_debt(row) for row in connection.execute(sql.DEBTS)]

        return await self._database.read(query)


def _debt(row: Sequence[object]) -> Debt:
    number, platform, chat, message, request, language, task, outcome, runs, since = row

    def ref(name: object) -> MessageRef | None:
        if name is None:
            return None
        return MessageRef(platform=str(platform), chat=str(chat), message=str(name))

    return Debt(
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
    """Since when a finished job's chat cannot be reached, and how often it was tried."""

    since: float
    tries: int
    given_up: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyPrompt:
    """One of the bot's messages that asks for a reply: which command the reply completes, for which job."""

    command: str
    job_id: int


_Message = tuple[int, str, str, str, float]
"""The values of `PUT_MESSAGE`."""


def _note(connection: Connection, messages: Sequence[_Message]) -> Sequence[None]:
    connection.executemany(sql.PUT_MESSAGE, messages)
    return [None] * len(messages)


_NOTING: ChangeKind[_Message, None] = ChangeKind(run=_note)  # there is one for each job


class MessageRecords:
    """Which message shows which job, and what else is remembered of messages; also the `Notes`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.debts = Debts(database)

    async def note_message(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a job's status message, replacing an earlier one."""
        row = (job_id, ref.platform, ref.chat, ref.message, now)
        await self._database.submit(_NOTING, row)

    async def note_again(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a further message that shows a job, so that replies to it are understood.

        Only messages in the job's own chat qualify: message ids mean nothing elsewhere. For a job
        without a status message, it becomes that.
        """
        sent = await self.message(job_id)
        if sent is None:
            await self.note_message(job_id, ref, now)
        elif (sent.ref.platform, sent.ref.chat) == (ref.platform, ref.chat):
            part = f"again {ref.message}"
            if await self.begin_part(job_id, part, now):
                await self.end_part(job_id, part, now, message=ref.message)

    async def message(self, job_id: int) -> SentMessage | None:
        """Return a job's status message, or None if none was sent."""

        def query(connection: Connection) -> SentMessage | None:
            row = connection.execute(sql.MESSAGE, (job_id,)).fetchone()
            if row is None:
                return None
            ref = MessageRef(platform=row[0], chat=row[1], message=row[2])
            return SentMessage(ref=ref, sent_at=row[3])

        return await self._database.read(query)

    async def job_of(self, ref: MessageRef) -> int | None:
        """Return the job whose status message or further part this is, or None."""

        def query(connection: Connection) -> int | None:
            row = connection.execute(
                sql.JOB_OF, (ref.platform, ref.chat, ref.message) * 2
            ).fetchone()
            return None if row is None else int(row[0])

        return await self._database.read(query)

    async def parts(self, job_id: int) -> tuple[MessageRef, ...]:
        """Return all known messages of a job: its status message and further parts."""

        def query(connection: Connection) -> tuple[MessageRef, ...]:
            rows = connection.execute(sql.PARTS, (job_id, job_id))
            return tuple(MessageRef(platform=row[0], chat=row[1], message=row[2]) for row in rows)

        return await self._database.read(query)

    async def note_prompt(self, ref: MessageRef, prompt: ReplyPrompt) -> None:
        """Remember what a reply to one of the bot's messages is meant for. Idempotent."""

        def change(connection: Connection) -> None:
            connection.execute(
                sql.PUT_PROMPT,
                (ref.platform, ref.chat, ref.message, prompt.command, prompt.job_id),
            )

        await self._database.write(change)

    async def prompt(self, ref: MessageRef) -> ReplyPrompt | None:
        """Return what a reply to that message is meant for, or None."""

        def query(connection: Connection) -> ReplyPrompt | None:
            row = connection.execute(sql.PROMPT, (ref.platform, ref.chat, ref.message)).fetchone()
            return None if row is None else ReplyPrompt(command=row[0], job_id=row[1])

        return await self._database.read(query)

    async def move_chat(self, platform: str, old: str, new: str) -> None:
        """Follow a chat to its new notation. Idempotent."""

        def change(connection: Connection) -> None:
            for statement in sql.MOVE_CHAT:
                connection.execute(statement, (new, platform, old))

        await self._database.write(change)

    async def begin_part(self, job_id: int, part: str, now: float) -> bool:
        """Mark a part as being sent; False when an earlier try may have sent it already."""

        def change(connection: Connection) -> bool:
            return connection.execute(sql.BEGIN_PART, (job_id, part, now)).rowcount == 1

        return await self._database.write(change)

    async def end_part(
        self, job_id: int, part: str, now: float, *, message: str | None, unclear: bool = False
    ) -> None:
        """Note that a part was sent (or that it is unknown whether it was)."""

        def change(connection: Connection) -> None:
            connection.execute(
                sql.END_PART,
                ("unclear" if unclear else "sent", message, now, job_id, part),
            )

        await self._database.write(change)

    async def drop_part(self, job_id: int, part: str) -> None:
        """Forget a part that certainly was not sent, so that it may be tried again."""

        def change(connection: Connection) -> None:
            connection.execute(sql.DROP_PART, (job_id, part))

        await self._database.write(change)

    async def unclear_parts(self, job_id: int) -> frozenset[str]:
        """Return the parts of which it is unknown whether they were sent.

        Those that a crash interrupted are among them, so call it only when nothing is being sent.
        """

        def query(connection: Connection) -> frozenset[str]:
            rows = connection.execute(sql.UNCLEAR_PARTS, (job_id,))
            return frozenset(row[0] for row in rows)

        return await self._database.read(query)

    async def unreachable(self) -> Mapping[int, Unreachable]:
        """Return the ended jobs whose chats could not be reached and are still tried, by job id."""

        def query(connection: Connection) -> Mapping[int, Unreachable]:
            rows = connection.execute(sql.UNREACHABLE)
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

        def change(connection: Connection) -> Unreachable:
            row = connection.execute(
                sql.COUNT_UNREACHABLE, (job_id, now, tries, int(given_up))
            ).fetchone()
            return Unreachable(since=row[0], tries=row[1], given_up=bool(row[2]))

        return await self._database.write(change)

    async def begin_afresh(
        self, platform: str, chat: str, user: str, now: float, *, idle_s: float
    ) -> None:
        """Begin a person's new conversation in a chat; beginnings older than `idle_s` are dropped."""

        def change(connection: Connection) -> None:
            connection.execute(sql.EXPIRE_STARTS, (now - idle_s,))
            connection.execute(sql.PUT_START, (platform, chat, user, now))

        await self._database.write(change)

    async def afresh_since(self, platform: str, chat: str, user: str) -> float:
        """Return since when a person's conversation in a chat is a new one, in UNIX seconds.

        0.0 if no new one was begun.
        """

        def query(connection: Connection) -> float:
            row = connection.execute(sql.START_OF, (platform, chat, user)).fetchone()
            return 0.0 if row is None else float(row[0])

        return await self._database.read(query)

    async def forget(self, user: str) -> None:
        """Delete what is stored about a person."""
        await self._database.write(
            lambda connection: connection.execute(sql.DELETE_STARTS_OF, (user,))
        )

    async def note(self, name: str, value: str) -> None:
        """Store a small fact across restarts."""

        def change(connection: Connection) -> None:
            connection.execute(sql.PUT_NOTE, (name, value))

        await self._database.write(change)

    async def note_first(self, name: str, value: str) -> str:
        """Store a small fact unless there is one of that name; return what is stored."""

        def change(connection: Connection) -> str:
            connection.execute(sql.ADD_NOTE, (name, value))
            return str(connection.execute(sql.NOTE, (name,)).fetchone()[0])

        return await self._database.write(change)

    async def noted(self, name: str) -> str | None:
        """Return a stored fact, or None."""

        def query(connection: Connection) -> str | None:
            row = connection.execute(sql.NOTE, (name,)).fetchone()
            return None if row is None else str(row[0])

        return await self._database.read(query)
