"""The messages of the web chat: their records, the log that stores them, and one in memory.

Discord and Telegram store their messages themselves; the page has only this log. It never knows who
is connected and never pushes: a page asks for what is newer than the number it has seen.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol
from uuid import uuid4

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


# ---------------------------------------------------------------- the log


class ChatLog(Protocol):
    """Stores every chat's messages and their files.

    When a method returns, its change is as durable as the log is. Changes get their numbers in the
    order in which they become visible to `since`: a reader that has seen a number has seen all
    smaller ones.
    """

    id: str
    """Names this log. A page that knows the numbers of another log starts over."""

    async def put(
        self, chat: str, message: str, at: float, shown: ShownMessage, files: Sequence[File]
    ) -> Entry:
        """Add a message; one of that id that is already there is returned unchanged.

        `files` are the bytes of `shown.files`, in their order.
        """

    async def edit(
        self, chat: str, message: str, shown: ShownMessage, files: Sequence[File]
    ) -> Entry | None:
        """Make a message show this and drop files no longer in it; None if it is not there.

        Idempotent: an edit that changes nothing gets no new number.
        """

    async def delete(self, chat: str, message: str) -> None:
        """Delete a message and its files; a missing message is no error. Idempotent."""

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Delete these messages and their files for good; pages learn of it. Idempotent."""

    async def clear(self, chat: str) -> None:
        """Delete all of a chat's messages and files for good; pages learn of it. Idempotent."""

    async def get(self, chat: str, message: str) -> Entry | None:
        """Return a message, None if it was deleted or never there."""

    async def since(self, chat: str, number: int, limit: int) -> Sequence[Entry]:
        """Return what changed after `number`, oldest change first, at most `limit` entries.

        Number 0 asks for a fresh page: the newest `limit` messages, none of them deleted.
        """

    async def before(self, chat: str, place: int, limit: int) -> Sequence[Entry]:
        """Return the last `limit` messages before `place`, in their order."""

    async def file(self, chat: str, file: str) -> File | None:
        """Return a file of that chat by its id, None if there is none."""

    async def file_head(self, chat: str, file: str) -> FileHead | None:
        """Return a file's properties, None if there is none; costs the same for any size."""

    async def file_piece(self, chat: str, file: str, start: int, length: int) -> bytes | None:
        """Return some bytes of a file, fewer at its end; None if there is none."""


@dataclass(slots=True)
class _Chat:
    entries: dict[str, Entry] = field(default_factory=dict)  # by message, in the order of `place`
    files: dict[str, File] = field(default_factory=dict)


class MemoryLog:
    """A `ChatLog` that lasts as long as the process and keeps the newest `keep` messages a chat."""

    def __init__(self, *, keep: int = 1000) -> None:
        self.id = uuid4().hex
        self._keep = keep
        self._number = 0
        self._chats: dict[str, _Chat] = {}

    async def put(
        self, chat: str, message: str, at: float, shown: ShownMessage, files: Sequence[File]
    ) -> Entry:
        """Add a message unless it is there."""
        kept = self._chats.setdefault(chat, _Chat())
        if message in kept.entries:
            return kept.entries[message]
        number = self._next()
        entry = Entry(chat=chat, message=message, number=number, place=number, at=at, shown=shown)
        kept.entries[message] = entry
        _replace_files(kept, None, entry, files)
        self._forget_oldest(kept)
        return entry

    async def edit(
        self, chat: str, message: str, shown: ShownMessage, files: Sequence[File]
    ) -> Entry | None:
        """Make a message show this."""
        old = await self.get(chat, message)
        if old is None or old.shown == shown:
            return old
        kept = self._chats[chat]
        kept.entries[message] = entry = replace(old, number=self._next(), shown=shown)
        _replace_files(kept, old, entry, files)
        return entry

    async def delete(self, chat: str, message: str) -> None:
        """Leave a mark where the message was, so that pages learn of it."""
        old = await self.get(chat, message)
        if old is not None:
            kept = self._chats[chat]
            kept.entries[message] = entry = replace(old, number=self._next(), shown=None)
            _replace_files(kept, old, entry, ())

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Leave a mark where each message was."""
        for message in messages:
            await self.delete(chat, message)

    async def clear(self, chat: str) -> None:
        """Leave a mark where each message was."""
        await self.forget(chat, list(self._chats.get(chat, _Chat()).entries))

    async def get(self, chat: str, message: str) -> Entry | None:
        """Return a message that is there."""
        entry = self._chats.get(chat, _Chat()).entries.get(message)
        return entry if entry is not None and entry.shown is not None else None

    async def since(self, chat: str, number: int, limit: int) -> Sequence[Entry]:
        """Return what changed, or the newest messages."""
        entries = self._chats.get(chat, _Chat()).entries.values()
        if number == 0:
            there = [entry for entry in entries if entry.shown is not None][-limit:]
            return sorted(there, key=_by_number)
        return sorted((entry for entry in entries if entry.number > number), key=_by_number)[:limit]

    async def before(self, chat: str, place: int, limit: int) -> Sequence[Entry]:
        """Return earlier messages."""
        entries = self._chats.get(chat, _Chat()).entries.values()
        return [entry for entry in entries if entry.place < place and entry.shown][-limit:]

    async def file(self, chat: str, file: str) -> File | None:
        """Return a file."""
        return self._chats.get(chat, _Chat()).files.get(file)

    async def file_head(self, chat: str, file: str) -> FileHead | None:
        """Return a file's properties."""
        kept = await self.file(chat, file)
        if kept is None:
            return None
        return FileHead(name=kept.name, mime=kept.mime, size=len(kept.data))

    async def file_piece(self, chat: str, file: str, start: int, length: int) -> bytes | None:
        """Return some bytes of a file."""
        kept = await self.file(chat, file)
        return None if kept is None else kept.data[start : start + length]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _forget_oldest(self, kept: _Chat) -> None:
        while len(kept.entries) > self._keep:
            oldest = kept.entries.pop(next(iter(kept.entries)))
            _replace_files(kept, oldest, None, ())


def _by_number(entry: Entry) -> int:
    return entry.number


def _replace_files(
    kept: _Chat, old: Entry | None, new: Entry | None, files: Sequence[File]
) -> None:
    if old is not None and old.shown is not None:
        for shown in old.shown.files:
            kept.files.pop(shown.id, None)
    if new is not None and new.shown is not None:
        ids = (shown.id for shown in new.shown.files)
        kept.files.update(zip(ids, files, strict=True))
