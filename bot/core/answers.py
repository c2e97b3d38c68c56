"""What a command may answer; the presenter sends it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.core.content import Content, Form
from bot.core.origin import Origin
from bot.core.platform import MessageRef
from queueing.core.jobs import Job
from queueing.core.requests import Record


class Task(Record):
    """The part of a command that outlasts its call; safe to be done twice."""

    command: str
    language: str
    model: str | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedJob:
    """A job was accepted: its status message is the answer."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultReply:
    """A job that has ended, shown again in a fresh message; `origin` is the call's."""

    job: Job
    origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A plain answer. `private` shows it to the caller alone if the platform can."""

    content: Content
    private: bool = True


TaskHandler = Callable[[Task], Awaitable[Content]]
"""Does what outlasts a call and returns what the first answer becomes.

Failures become content. After a crash it may be called again.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskReply:
    """An answer now, replaced by another when the task is done."""

    content: Content
    task: Task


@dataclass(frozen=True, kw_only=True, slots=True)
class FormReply:
    """A form to fill in; if the platform has no forms, `content` asks for a reply instead."""

    form: Form
    content: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """The bot's messages to delete; one that cannot be deleted shows `instead`.

    `said` confirms it to a caller who typed the command; under a pressed button no confirmation is
    needed.
    """

    refs: Sequence[MessageRef]
    instead: Content
    said: Content


Answer = AcceptedJob | ResultReply | Reply | TaskReply | FormReply | Deletion | None
"""None: the call was a button whose effect shows elsewhere."""
