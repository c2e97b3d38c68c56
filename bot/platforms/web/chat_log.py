"""The messages of the web chat as its log keeps them and as the page receives them."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from queueing.core.requests import File, Record

# ------------------------------------------------------------ what a message shows


class TextPart(Record):
    """Plain text, shown literally."""

    kind: Literal["text"] = "text"
    text: str


class MomentPart(Record):
    """A point in time in UNIX seconds; the page counts it down, unless `clock` is set.

    `before` is the word before a time of day.
    """

    kind: Literal["moment"] = "moment"
    at: float
    clock: bool = False
    before: str = ""


class PeriodPart(Record):
    """The time between two moments in UNIX seconds, shown as two times of day."""

    kind: Literal["period"] = "period"
    begins: float
    ends: float


class MarkdownPart(Record):
    """A model's answer in Markdown; the page builds safe elements from it."""

    kind: Literal["markdown"] = "markdown"
    text: str


class StrongPart(Record):
    """Emphasised words; `job` and `pictured` as in `Strong`."""

    kind: Literal["strong"] = "strong"
    text: str
    job: int | None = None
    pictured: bool = False


class TypedPart(Record):
    """Text a person can type; a click inserts it."""

    kind: Literal["typed"] = "typed"
    text: str


class BarPart(Record):
    """How much of something is done, from 0 to 1."""

    kind: Literal["bar"] = "bar"
    share: float


ShownPart = Annotated[
    TextPart | MomentPart | PeriodPart | MarkdownPart | StrongPart | TypedPart | BarPart,
    Field(discriminator="kind"),
]


class ShownFile(Record):
    """A file of a message without its bytes; `width` and `height` are pixels of a picture."""

    id: str
    name: str
    mime: str
    size: int
    width: int | None = None
    height: int | None = None


class ShownButton(Record):
    """A button and all it needs to act after any restart."""

    command: str
    job: int
    label: str
    danger: bool
    number: int | None = None
    hint: str = ""


class ShownMessage(Record):
    """What a message shows, as the page receives it and as a database may store it (JSON).

    `quiet` marks an answer other platforms would show to the caller alone; `reply_to` is the
    message it answers; `spoiler` hides the pictures until the reader asks for them.
    """

    author: Literal["person", "usher"]
    body: tuple[ShownPart, ...] = ()
    files: tuple[ShownFile, ...] = ()
    buttons: tuple[tuple[ShownButton, ...], ...] = ()
    quiet: bool = False
    reply_to: str | None = None
    spoiler: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FileHead:
    """The properties of a file, without reading its bytes."""

    name: str
    mime: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One message as of its newest change.

    `number` grows with every change of any message in the log; `place` is the number the message
    was put with and orders a chat. `at` is when it was put, in UNIX seconds. `shown` is None once
    the message was deleted: pages that still show it must learn of that too.
    """

    chat: str
    message: str
    number: int
    place: int
    at: float
    shown: ShownMessage | None


def file_id(chat: str, message: str, file: File) -> str:
    """Return the id a file of that message is fetched by.

    Derived from the content, so that an edit that repeats a file keeps its address and pages do not
    fetch it again; only a holder of the file could guess it.
    """
    head = f"{chat}\0{message}\0{file.name}\0{file.mime}\0"
    found = hashlib.sha256(head.encode("utf-8", "replace"))
    found.update(file.data)
    return found.hexdigest()[:40]
