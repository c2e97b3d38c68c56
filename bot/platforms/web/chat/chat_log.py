"""The web chat's messages, as the page receives them and as the database stores them.

Discord and Telegram store their messages themselves; the web chat has only this log. It does not
know who is connected and never pushes: a page asks for changes after the last number it has seen.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from bot.platforms.web.chat import sql
from bot.platforms.web.chat.conversations import Conversations, person_of, searched
from queueing.core.requests import File, Record
from queueing.store.sql.database import Connection, Database

# ------------------------------------------------------------ what a message shows


class TextPart(Record):
    """Plain text, shown literally."""

    kind: Literal["text"] = "text"
    text: str


class MomentPart(Record):
    """A point in time in UNIX seconds. The page counts down to it unless `clock` is set.

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
    """A model's answer in Markdown. The page builds safe elements from its blocks.

    `blocks` are stored only for a part of an answer; those of a whole one are read from `text`.
    """

    kind: Literal["markdown"] = "markdown"
    text: str
    blocks: tuple[JsonValue, ...] = ()


class StrongPart(Record):
    """Emphasised words; `job` and `has_image` as in `Strong`."""

    kind: Literal["strong"] = "strong"
    text: str
    job: int | None = None
    has_image: bool = False


class TypedPart(Record):
    """Text a person can type. A click inserts it."""

    kind: Literal["typed"] = "typed"
    text: str


class BarPart(Record):
    """A progress bar, from 0 to 1."""

    kind: Literal["bar"] = "bar"
    share: float


ShownPart = Annotated[
    TextPart | MomentPart | PeriodPart | MarkdownPart | StrongPart | TypedPart | BarPart,
    Field(discriminator="kind"),
]


class ShownFile(Record):
    """A message's file without its bytes. `width` and `height` are an image's size in pixels."""

    id: str
    name: str
    mime: str
    size: int
    width: int | None = None
    height: int | None = None


class ShownButton(Record):
    """A button with everything it needs to work after a restart."""

    command: str
    job: int
    label: str
    danger: bool
    number: int | None = None
    hint: str = ""


class ShownMessage(Record):
    """The content of a message, as sent to the page and stored in the database (as JSON).

    `quiet` marks an answer that other platforms would show only to the caller. `reply_to` is the
    message it answers. `spoiler` hides the images until the reader reveals them. `about` are the
    files of the message it answers. `waits` marks the status of an open job. `sizes` are the widths
    and heights in pixels of what it shows or will show, if the files do not state them.
    """

    author: Literal["person", "usher"]
    body: tuple[ShownPart, ...] = ()
    files: tuple[ShownFile, ...] = ()
    buttons: tuple[tuple[ShownButton, ...], ...] = ()
    quiet: bool = False
    reply_to: str | None = None
    spoiler: bool = False
    about: tuple[ShownFile, ...] = ()
    waits: bool = False
    sizes: tuple[tuple[int, int], ...] = ()


def text_of(shown: ShownMessage) -> str:
    """Return the words of a message, without its times and progress."""
    return "".join(
        part.text for part in shown.body if not isinstance(part, MomentPart | PeriodPart | BarPart)
    )


def is_news(shown: ShownMessage) -> bool:
    """Return whether a message is a finished one of the bot: it can no longer be cancelled."""
    return shown.author == "usher" and not any(
        button.command == "cancel" for row in shown.buttons for button in row
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FileHead:
    """A file's properties without its bytes, and the chat it is in."""

    chat: str
    name: str
    mime: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One message as of its newest change.

    `number` grows with every change of any message in the log. `place` is the number of the
    message's creation, which orders a chat. `at` is when it was created, in UNIX seconds. `shown`
    is None once the message is deleted; pages that still show it must learn about that too.
    """

    chat: str
    message: str
    number: int
    place: int
    at: float
    shown: ShownMessage | None


def file_id(chat: str, message: str, file: File) -> str:
    """Return the id used to fetch a file of a message.

    It is a hash of the content. So an edit that keeps a file keeps its URL, pages do not fetch it
    again, and nobody without the file can guess the id.
    """
    head = f"{chat}\0{message}\0{file.name}\0{file.mime}\0"
    found = hashlib.sha256(head.encode("utf-8", "replace"))
    found.update(file.data)
    return found.hexdigest()[:40]


_MB = 1024 * 1024
_AT_ONCE = 20  # overwriting images takes time, during which other writers wait


class ChatLog:
    """Stores the newest `keep` messages of every chat and their files. Calls are durable on return.

    Changes are numbered in the order in which they become visible to `since`: a reader that has
    seen a number has seen all smaller ones. `id` identifies the log: a page that knows the numbers
    of another log starts over.
    """

    def __init__(self, database: Database, *, keep: int = 1000) -> None:
        self.id = database.id.hex
        self.conversations = Conversations(database)
        self._database = database
        self._keep = keep

    async def put(
        self, chat: str, message: str, at: float, shown: ShownMessage, files: Sequence[File]
    ) -> Entry:
        """Add a message. If the id already exists, returns that message unchanged.

        `files` are the bytes of `shown.files`, in the same order.
        """

        def change(connection: Connection) -> Entry:
            _take_turn(connection)
            there = _entry(connection, chat, message)
            if there is not None:
                return there
            number = int(connection.execute(sql.NEXT_NUMBER).fetchone()[0])
            connection.execute(
                sql.ADD_ENTRY,
                (chat, message, number, number, at, shown.model_dump_json(), _words(shown)),
            )
            news = number if is_news(shown) else 0
            connection.execute(sql.NOTE_MESSAGE, (chat, person_of(chat), at, news))
            _put_files(connection, chat, message, shown, files)
            connection.execute(sql.DROP_OLDEST_ENTRIES, (chat, chat, self._keep))
            return Entry(
                chat=chat, message=message, number=number, place=number, at=at, shown=shown
            )

        put = await self._database.write(change)
        self.conversations.revision += 1
        return put

    async def edit(
        self, chat: str, message: str, shown: ShownMessage, files: Sequence[File]
    ) -> Entry | None:
        """Replace a message's content and drop unused files. Returns None if it does not exist.

        Idempotent: an edit that changes nothing gets no new number.
        """

        def change(connection: Connection) -> Entry | None:
            _take_turn(connection)
            old = _entry(connection, chat, message)
            if old is None or old.shown is None:
                return None
            if old.shown == shown:
                return old
            _renumber(connection, chat, message, shown)
            _put_files(connection, chat, message, shown, files)
            entry = _entry(connection, chat, message)
            if entry is not None and is_news(shown):
                connection.execute(sql.NOTE_NEWS, (entry.number, chat))
            return entry

        edited = await self._database.write(change)
        if is_news(shown):
            self.conversations.revision += 1
        return edited

    async def delete(self, chat: str, message: str) -> None:
        """Delete a message and its files. Idempotent."""
        await self._database.write(partial(_remove, chat=chat, messages=(message,)))
        self.conversations.revision += 1

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Delete messages and overwrite their data. Pages learn about it. Idempotent."""
        await self._database.write_and_scrub(partial(_remove, chat=chat, messages=messages))
        self.conversations.revision += 1

    async def clear(self, chat: str) -> None:
        """Delete all conversations of a chat's person and overwrite their data.

        Pages learn about it. Idempotent.
        """

        def change(connection: Connection) -> None:
            for (each,) in connection.execute(sql.CHATS_OF, (person_of(chat),)).fetchall():
                _empty(connection, each)

        await self._database.write_and_scrub(change)
        self.conversations.revision += 1

    async def remove(self, chat: str) -> None:
        """Delete a conversation and overwrite its data. Pages learn about it. Idempotent."""
        await self._database.write_and_scrub(partial(_empty, chat=chat))
        self.conversations.revision += 1

    async def expire(self, before: float) -> int:
        """Delete messages older than `before` and overwrite their data. Returns their number.

        A message that shows a job stays as long as the job, because it may still need edits.
        """
        gone = 0
        while some := await self._database.write(partial(_expire_some, before=before)):
            gone += some
        if gone:
            await self._database.write_and_scrub(
                lambda connection: connection.execute(sql.DROP_EMPTY_CONVERSATIONS)
            )
            self.conversations.revision += 1
        return gone

    async def shrink(self, keep_mb: int) -> int:
        """Delete the files of the oldest messages until the rest fits, and overwrite their data.

        The text stays. Returns the size of the remaining files in MB, rounded up.
        """
        most, dropped = keep_mb * _MB, 0
        while some := await self._database.write(partial(_drop_some_files, most=most)):
            dropped += some
        if dropped:
            await self._database.write_and_scrub(lambda _connection: None)
        (left,) = await self._database.row(sql.FILES_SIZE)
        return -(-int(left) // _MB)

    async def get(self, chat: str, message: str) -> Entry | None:
        """Return a message, or None if it does not exist or was deleted."""

        def query(connection: Connection) -> Entry | None:
            entry = _entry(connection, chat, message)
            return entry if entry is not None and entry.shown is not None else None

        return await self._database.read(query)

    async def since(self, chat: str, number: int, limit: int) -> Sequence[Entry]:
        """Return at most `limit` changes after `number`, oldest first.

        Number 0 is for a new page: it returns the newest `limit` messages, without deleted ones.
        """
        if number == 0:
            newest = await self._select(sql.NEWEST_ENTRIES, (chat, limit))
            return sorted(newest, key=lambda entry: entry.number)
        return await self._select(sql.CHANGED_ENTRIES, (chat, number, limit))

    async def before(self, chat: str, place: int, limit: int) -> Sequence[Entry]:
        """Return the last `limit` messages before `place`, in order."""
        return (await self._select(sql.EARLIER_ENTRIES, (chat, place, limit)))[::-1]

    async def file(self, chat: str, file: str) -> File | None:
        """Return a chat's file by id, or None if there is none."""
        row = await self._database.row(sql.FILE, (chat, file))
        return None if row is None else File(name=row[0], mime=row[1], data=row[2])

    async def file_head(self, person: str, file: str) -> FileHead | None:
        """Return the properties of a file in one of a person's chats, or None if there is none.

        Equally fast for any size.
        """
        row = await self._database.row(sql.FILE_HEAD, (person, file))
        return None if row is None else FileHead(chat=row[0], name=row[1], mime=row[2], size=row[3])

    async def file_piece(self, chat: str, file: str, start: int, length: int) -> bytes | None:
        """Return part of a file, shorter at its end, or None if there is no such file."""
        key = {"chat": chat, "id": file}
        return await self._database.read(
            lambda connection: connection.piece("web_files", key, start, length)
        )

    async def _select(self, statement: str, values: tuple[str | int, ...]) -> list[Entry]:
        return await self._database.read(
            lambda connection: [_read(row) for row in connection.execute(statement, values)]
        )


def _read(row: tuple[str, str, int, int, float, str | None]) -> Entry:
    shown = None if row[5] is None else ShownMessage.model_validate_json(row[5])
    return Entry(chat=row[0], message=row[1], number=row[2], place=row[3], at=row[4], shown=shown)


def _entry(connection: Connection, chat: str, message: str) -> Entry | None:
    row = connection.execute(sql.ENTRY, (chat, message)).fetchone()
    return None if row is None else _read(row)


def _expire_some(connection: Connection, before: float) -> int:
    """Delete some old messages. Returns how many.

    The last change leaves an empty entry, because numbers are never reused.
    """
    _take_turn(connection)
    found = connection.execute(sql.OLD_LAST_ENTRY, (before,)).fetchall()
    for chat, message in found:
        _remove(connection, chat, (message,))
    deleted = connection.execute(sql.DROP_OLD_ENTRIES, (before, _AT_ONCE))
    return len(found) + deleted.rowcount


def _drop_some_files(connection: Connection, most: int) -> int:
    """Delete the files of some of the oldest messages beyond a size.

    Returns the number of messages.
    """
    _take_turn(connection)
    rows = connection.execute(sql.FILES_NEWEST_FIRST)
    sizes = accumulate(rows, lambda sum_, row: (row[0], row[1], sum_[2] + row[2]))
    beyond = dict.fromkeys((chat, message) for chat, message, size in sizes if size > most)
    oldest = list(beyond)[-_AT_ONCE:]
    for chat, message in oldest:
        entry = _entry(connection, chat, message)
        if entry is not None and entry.shown is not None:
            bare = entry.shown.model_copy(update={"files": ()})
            _renumber(connection, chat, message, bare)
        connection.execute(sql.DROP_FILES, (chat, message))
    return len(oldest)


def _take_turn(connection: Connection) -> None:
    """Lock message changes across processes; retention may run in another one than the page."""
    connection.execute(connection.statements.turn, (sql.NUMBERING,))


def _remove(connection: Connection, chat: str, messages: Sequence[str]) -> None:
    _take_turn(connection)
    for message in messages:
        _renumber(connection, chat, message, None)
        connection.execute(sql.DROP_FILES, (chat, message))
    connection.execute(sql.DROP_EMPTY_CONVERSATION, (chat,))


def _empty(connection: Connection, chat: str) -> None:
    _remove(connection, chat, [row[0] for row in connection.execute(sql.SHOWN_IN_CHAT, (chat,))])


def _renumber(connection: Connection, chat: str, message: str, shown: ShownMessage | None) -> None:
    text, words = (None, "") if shown is None else (shown.model_dump_json(), _words(shown))
    connection.execute(sql.CHANGE_ENTRY, (text, words, chat, message))


def _words(shown: ShownMessage) -> str:
    return searched(text_of(shown))


def _put_files(
    connection: Connection,
    chat: str,
    message: str,
    shown: ShownMessage,
    files: Sequence[File],
) -> None:
    connection.execute(sql.DROP_FILES, (chat, message))
    connection.insert_files(
        sql.PUT_FILE,
        [
            (chat, message, named.id, file.name, file.mime, file.data)
            for named, file in zip(shown.files, files, strict=True)
        ],
    )
