"""The answers a command can return; the presenter sends them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.core.asker import Asker
from bot.core.content import Content, Form
from bot.core.origin import Origin
from bot.core.platform import MessageRef
from queueing.core.jobs import Job
from queueing.core.requests import Record


class Task(Record):
    """The part of a command that outlives its call. It may run twice, so it must be idempotent."""

    command: str
    language: str
    model: str | None = None
    host: str | None = None
    asker: Asker | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedJob:
    """An accepted job: its status message is the answer."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultReply:
    """A finished job shown again in a new message. `origin` is the origin of the call.

    `direct` shows it in the caller's direct messages.
    """

    job: Job
    origin: Origin
    direct: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A plain answer. `private` shows it to the caller alone if the platform can."""

    content: Content
    private: bool = True


TaskHandler = Callable[[Task], Awaitable[Content]]
"""Runs a task and returns the content that replaces the first answer.

It reports failures as content. After a crash it may be called again.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskReply:
    """An immediate answer that is replaced when the task is done."""

    content: Content
    task: Task


@dataclass(frozen=True, kw_only=True, slots=True)
class FormReply:
    """A form to fill in. On a platform without forms, `content` asks for a reply instead."""

    form: Form
    content: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """Messages of the bot to delete. A message that cannot be deleted shows `instead`.

    `said` confirms the deletion to a caller who typed the command. A pressed button needs no
    confirmation. `failed` is said in both cases if a message stays.
    """

    refs: Sequence[MessageRef]
    instead: Content
    said: Content
    failed: Content


Answer = AcceptedJob | ResultReply | Reply | TaskReply | FormReply | Deletion | None
"""None if the call was a button whose effect shows elsewhere."""
