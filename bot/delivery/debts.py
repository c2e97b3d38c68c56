"""Debts of messages that do not show yet what they must, so that no restart loses them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from bot.core.answers import Task
from bot.core.content import Body
from bot.core.platform import MessageRef
from bot.delivery import sql
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
