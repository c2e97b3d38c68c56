"""What the bot remembers of messages beside the jobs: ports in parts that fit their users.

Which message belongs to which job, which parts of a result were sent, which chats cannot be
reached, what a reply is meant for. Every write is durable when it returns; all raise `StoreError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.chat.api.base import MessageRef
from bot.chat.api.notes import Notes
from bot.chat.records.debts import Debts


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


class MessageRecords(Protocol):
    """Which message shows which job."""

    async def note_message(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a job's status message, replacing an earlier one."""

    async def message(self, job_id: int) -> SentMessage | None:
        """Return a job's status message, or None if none was sent."""

    async def job_of(self, ref: MessageRef) -> int | None:
        """Return the job whose status message or further part this is, or None."""

    async def parts(self, job_id: int) -> tuple[MessageRef, ...]:
        """Return all known messages of a job: its status message and further parts."""

    async def move_chat(self, platform: str, old: str, new: str) -> None:
        """Follow a chat to its new notation. Idempotent."""


class SentParts(Protocol):
    """Further messages of a job, none of which may be sent twice."""

    async def begin_part(self, job_id: int, part: str, now: float) -> bool:
        """Mark a part as being sent; False when an earlier try may have sent it already."""

    async def end_part(
        self, job_id: int, part: str, now: float, *, message: str | None, unclear: bool = False
    ) -> None:
        """Note that a part was sent (or that it is unknown whether it was)."""

    async def drop_part(self, job_id: int, part: str) -> None:
        """Forget a part that certainly was not sent, so that it may be tried again."""

    async def unclear_parts(self, job_id: int) -> frozenset[str]:
        """Return the parts of which it is unknown whether they were sent.

        Those that a crash interrupted are among them, so call it only when nothing is being sent.
        """

    async def note_again(self, job_id: int, ref: MessageRef, now: float) -> None:
        """Remember a further message that shows a job, so that replies to it are understood.

        Only messages in the job's own chat qualify: message ids mean nothing elsewhere. For a job
        without a status message, it becomes that.
        """


class UnreachableChats(Protocol):
    """Which ended jobs have a chat that cannot be reached."""

    async def unreachable(self) -> Mapping[int, Unreachable]:
        """Return the ended jobs whose chats could not be reached and are still tried, by job id."""

    async def note_unreachable(
        self, job_id: int, now: float, *, given_up: bool, tries: int = 1
    ) -> Unreachable:
        """Count one more failed try to deliver a finished job and return the count so far.

        The count is at least `tries`: the chat may have failed before the job had ended.
        """


class ReplyPrompts(Protocol):
    """What replies to the bot's messages are meant for."""

    async def note_prompt(self, ref: MessageRef, prompt: ReplyPrompt) -> None:
        """Remember what a reply to one of the bot's messages is meant for. Idempotent."""

    async def prompt(self, ref: MessageRef) -> ReplyPrompt | None:
        """Return what a reply to that message is meant for, or None."""


class FreshStarts(Protocol):
    """Since when conversations are new ones."""

    async def begin_afresh(
        self, platform: str, chat: str, user: str, now: float, *, idle_s: float
    ) -> None:
        """Begin a person's new conversation in a chat; beginnings older than `idle_s` are dropped."""

    async def afresh_since(self, platform: str, chat: str, user: str) -> float:
        """Return since when a person's conversation in a chat is a new one, in UNIX seconds.

        0.0 if no new one was begun.
        """

    async def forget(self, user: str) -> None:
        """Delete what is stored about a person."""


class Records(
    MessageRecords, SentParts, UnreachableChats, ReplyPrompts, FreshStarts, Notes, Protocol
):
    """All of it, for code that passes the parts on."""

    @property
    def debts(self) -> Debts:
        """The messages that are not true yet."""
