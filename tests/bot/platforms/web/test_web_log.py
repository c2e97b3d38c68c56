"""What every log of the web chat must do, the one in memory and the one in the database alike."""

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from bot.chat.records.chat_log import ChatLog, Entry, MemoryLog, ShownMessage, TextPart
from bot.chat.records.stored_log import StoredLog
from bot.chat.records.stored_records import MIGRATIONS
from bot.platforms.web.content import shown_file
from queueing.core.requests import File
from queueing.store import open_database
from tests.bot.platforms.web.web_client import picture

KEEP = 50


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[ChatLog]:
    if request.param == "memory":
        yield MemoryLog(keep=KEEP)
        return
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite://"
    database = await open_database(url, migrations=(MIGRATIONS,), inline=True)
    try:
        yield StoredLog(database, keep=KEEP)
    finally:
        await database.aclose()


def shown(text: str, message: str = "", *files: File) -> ShownMessage:
    described = tuple(shown_file("ada", message, file) for file in files)
    return ShownMessage(author="usher", body=(TextPart(text=text),), files=described)


async def put(log: ChatLog, message: str, text: str = "", *files: File, chat: str = "ada") -> Entry:
    return await log.put(chat, message, 1000.0, shown(text or message, message, *files), files)


def names(entries: Sequence[Entry]) -> list[str]:
    return [entry.message for entry in entries]


async def test_a_message_put_again_is_unchanged(log: ChatLog) -> None:
    """A send repeated after a crash would show twice, or undo a later edit."""
    first = await put(log, "m", "one")
    assert await put(log, "m", "two") == first
    assert await log.since("ada", first.number, 10) == []


async def test_changes_come_in_their_order_and_each_once(log: ChatLog) -> None:
    """A page that asks for what it missed would lose a change or get old ones again."""
    await put(log, "a")
    b = await put(log, "b")
    await log.edit("ada", "a", shown("changed"), ())
    await put(log, "c")
    await put(log, "d", chat="ben")
    assert names(await log.since("ada", b.number, 10)) == ["a", "c"]
    assert names(await log.since("ada", b.number, 1)) == ["a"]
    newest = (await log.since("ada", b.number, 10))[-1].number
    assert await log.since("ada", newest, 10) == []


async def test_an_edit_keeps_the_place(log: ChatLog) -> None:
    """A status message would jump to the end of the chat with every edit."""
    first = await put(log, "a")
    await put(log, "b")
    edited = await log.edit("ada", "a", shown("new"), ())
    assert edited is not None
    assert (edited.place, edited.at) == (first.place, first.at)
    assert edited.number > first.number
    assert await log.get("ada", "a") == edited


async def test_an_edit_that_changes_nothing_is_no_change(log: ChatLog) -> None:
    """Repeated edits would wake every page for nothing."""
    first = await put(log, "a", "same")
    assert await log.edit("ada", "a", shown("same", "a"), ()) == first


async def test_what_is_not_there_cannot_be_edited(log: ChatLog) -> None:
    """A lost message would be taken for shown."""
    await put(log, "a")
    await log.delete("ada", "a")
    assert await log.edit("ada", "a", shown("x"), ()) is None
    assert await log.edit("ada", "none", shown("x"), ()) is None
    assert await log.edit("ben", "a", shown("x"), ()) is None
    assert await log.get("ada", "a") is None


async def test_a_deletion_is_told_to_pages_that_saw_the_message(log: ChatLog) -> None:
    """A deleted message would stay on open pages, or show up on fresh ones."""
    await put(log, "a")
    seen = await put(log, "b")
    await log.delete("ada", "a")
    await log.delete("ada", "a")
    await log.delete("ada", "none")
    told = await log.since("ada", seen.number, 10)
    assert [(entry.message, entry.shown) for entry in told] == [("a", None)]
    assert names(await log.since("ada", 0, 10)) == ["b"]
    assert names(await log.before("ada", seen.place, 10)) == []


async def test_a_fresh_page_gets_the_newest_messages(log: ChatLog) -> None:
    """A page opened in a long conversation would show its beginning."""
    for at in range(9):
        await put(log, f"m{at}")
    fresh = await log.since("ada", 0, 4)
    assert names(fresh) == ["m5", "m6", "m7", "m8"]
    first = min(entry.place for entry in fresh)
    assert names(await log.before("ada", first, 3)) == ["m2", "m3", "m4"]
    assert names(await log.before("ada", first, 30)) == [f"m{at}" for at in range(5)]


async def test_files_live_and_go_with_their_message(log: ChatLog) -> None:
    """Pictures would be gone too early, or previews fill the disk."""
    first, second = picture("one.png"), picture("two.png", shade=3)
    entry = await put(log, "m", "x", first, second)
    assert entry.shown is not None
    ids = [file.id for file in entry.shown.files]
    assert [await log.file("ada", id_) for id_ in ids] == [first, second]
    assert await log.file("ben", ids[0]) is None
    await log.edit("ada", "m", shown("y", "m", second), (second,))
    assert [await log.file("ada", id_) for id_ in ids] == [None, second]
    await log.delete("ada", "m")
    assert await log.file("ada", ids[1]) is None


async def test_only_the_newest_messages_are_kept(log: ChatLog) -> None:
    """The log would grow without end."""
    entry = await put(log, "oldest", "x", picture())
    assert entry.shown is not None
    file = entry.shown.files[0].id
    for at in range(KEEP):
        await put(log, f"m{at}")
    await put(log, "other", chat="ben")
    assert await log.get("ada", "oldest") is None
    assert await log.file("ada", file) is None
    assert len(await log.since("ada", 0, KEEP * 2)) == KEEP


async def test_numbers_are_never_given_twice(log: ChatLog) -> None:
    """A page could believe to have seen a change that is new."""
    await put(log, "old")
    for at in range(KEEP - 1):
        await put(log, f"m{at}")
    edited = await log.edit("ada", "old", shown("changed"), ())
    assert edited is not None
    after = await put(log, "new")  # pushes the message with the highest number out
    assert after.number > edited.number
    assert (await put(log, "newer")).number > after.number
