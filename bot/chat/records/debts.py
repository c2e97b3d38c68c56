"""Debts of messages that do not show yet what they must, so that no restart loses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.chat.api.answers import Task
from bot.chat.api.base import MessageRef
from bot.chat.api.content import Body


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


class Debts(Protocol):
    """The messages that are not true yet. Every write is durable when it returns."""

    async def begin(
        self,
        platform: str,
        chat: str,
        request: MessageRef | None,
        task: Task,
        now: float,
    ) -> Debt:
        """Note a task that is about to begin."""

    async def deleted(self, ref: MessageRef, language: str, now: float) -> Debt:
        """Note that a message's job was deleted; the database itself does so for deleted rows."""

    async def shown(self, debt: Debt, ref: MessageRef) -> Debt:
        """Note the message that shows that the task is under way."""

    async def begun(self, debt: Debt) -> Debt:
        """Count that the task is begun."""

    async def done(self, debt: Debt, outcome: Body) -> Debt:
        """Note the task's outcome."""

    async def moved(self, debt: Debt, chat: str) -> Debt:
        """Follow a chat to its new notation, where its messages have other ids."""

    async def settle(self, debt: Debt) -> None:
        """Forget a debt: its message is true, or was given up."""

    async def all(self) -> Sequence[Debt]:
        """Return all debts, the oldest first."""
