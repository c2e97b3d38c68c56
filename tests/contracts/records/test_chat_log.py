"""What every log of the web chat promises, in memory and in the database."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bot.app.setup import MIGRATIONS
from bot.platforms.web.chat_log import ChatLog, Entry, ShownMessage, TextPart
from bot.platforms.web.renderer import shown_file
from queueing.core.requests import File
from queueing.store.engines import open_database
from tests.bot.platforms.web.web_client import image
from tests.fakes.memory_log import MemoryLog

KEEP = 5


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[ChatLog]:
    if request.param == "memory":
        yield MemoryLog(keep=KEEP)
        return
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite://"
    database = await open_database(url, migrations=(MIGRATIONS,), inline=True)
    try:
        yield ChatLog(database, keep=KEEP)
    finally:
        await database.aclose()


def shown(text: str, message: str = "", *files: File) -> ShownMessage:
    described = tuple(shown_file("ada", message, file) for file in files)
    return ShownMessage(author="usher", body=(TextPart(text=text),), files=described)


async def put(log: ChatLog, message: str, text: str = "", *files: File, chat: str = "ada") -> Entry:
    return await log.put(chat, message, 1000.0, shown(text or message, message, *files), files)


def names(entries: Sequence[Entry]) -> list[str]:
    return [entry.message for entry in entries]


def ids(entry: Entry) -> list[str]:
    assert entry.shown is not None
    return [file.id for file in entry.shown.files]


async def test_a_repeated_put_or_edit_is_no_change(log: ChatLog) -> None:
    """A send repeated after a crash would show twice, or each repeated edit wake every page."""
    first = await put(log, "m", "one")
    assert await put(log, "m", "two") == first
    assert await log.edit("ada", "m", shown("one", "m"), ()) == first
    assert await log.since("ada", first.number, 10) == []


async def test_changes_come_in_their_order_and_each_once(log: ChatLog) -> None:
    """A page that asks for what it missed would lose a change or get old ones again."""
    a = await put(log, "a")
    b = await put(log, "b")
    edited = await log.edit("ada", "a", shown("changed"), ())
    assert edited is not None
    assert (edited.place, edited.at) == (a.place, a.at), "it would jump to the end of the chat"
    assert a.number < b.number < edited.number
    assert await log.get("ada", "a") == edited
    await put(log, "c")
    await put(log, "d", chat="ben")
    assert names(await log.since("ada", b.number, 10)) == ["a", "c"]
    assert names(await log.since("ada", b.number, 1)) == ["a"]
    newest = (await log.since("ada", b.number, 10))[-1].number
    assert await log.since("ada", newest, 10) == []


async def test_a_deleted_message_is_gone_and_pages_that_saw_it_learn_of_it(log: ChatLog) -> None:
    """It would stay on open pages, come back with an edit, or show up on fresh ones."""
    entry = await put(log, "a", "", image())
    seen = await put(log, "b")
    for message in ("a", "a", "none"):
        await log.delete("ada", message)
    assert await log.get("ada", "a") is None
    assert await log.file("ada", ids(entry)[0]) is None
    for chat, message in (("ada", "a"), ("ada", "none"), ("ben", "b")):
        assert await log.edit(chat, message, shown("x"), ()) is None, (chat, message)
    told = await log.since("ada", seen.number, 10)
    assert [(entry.message, entry.shown) for entry in told] == [("a", None)]
    assert names(await log.since("ada", 0, 10)) == ["b"]
    assert names(await log.before("ada", seen.place, 10)) == []


async def test_a_fresh_page_gets_the_newest_messages(log: ChatLog) -> None:
    """A page opened in a long conversation would show its beginning."""
    for at in range(KEEP):
        await put(log, f"m{at}")
    fresh = await log.since("ada", 0, 2)
    assert names(fresh) == ["m3", "m4"]
    first = min(entry.place for entry in fresh)
    assert names(await log.before("ada", first, 2)) == ["m1", "m2"]
    assert names(await log.before("ada", first, 30)) == ["m0", "m1", "m2"]


async def test_files_live_and_go_with_their_message(log: ChatLog) -> None:
    """Images would be gone too early, be a stranger's, or previews fill the disk."""
    first, second = image("one.png"), image("two.png", shade=3)
    files = ids(await put(log, "m", "x", first, second))
    assert [await log.file("ada", each) for each in files] == [first, second]
    assert await log.file("ben", files[0]) is None
    await log.edit("ada", "m", shown("y", "m", second), (second,))
    assert [await log.file("ada", each) for each in files] == [None, second]
    await log.delete("ada", "m")
    assert await log.file("ada", files[1]) is None


async def test_only_the_newest_messages_of_a_chat_are_kept(log: ChatLog) -> None:
    """The log would grow for ever, or one person's flood push out another's messages."""
    await put(log, "other", chat="ben")
    oldest = await put(log, "oldest", "x", image())
    for at in range(KEEP):
        await put(log, f"m{at}")
    assert await log.get("ada", "oldest") is None
    assert await log.file("ada", ids(oldest)[0]) is None
    assert names(await log.since("ada", 0, 100)) == [f"m{at}" for at in range(KEEP)]
    assert await log.get("ben", "other") is not None


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


async def test_a_cleared_chat_is_empty_and_pages_learn_of_it(log: ChatLog) -> None:
    """A forgotten person's words would stay on the page, or in the database behind it."""
    entry = await put(log, "a", "one", image())
    seen = await put(log, "b", "two")
    await put(log, "a", "his", chat="ben")
    await log.clear("ada")
    assert await log.since("ada", 0, 10) == []
    changed = await log.since("ada", seen.number, 10)
    assert [(entry.message, entry.shown) for entry in changed] == [("a", None), ("b", None)]
    assert await log.file("ada", ids(entry)[0]) is None
    assert await log.get("ben", "a") is not None
    await log.clear("ada")
    assert len(await log.since("ada", seen.number, 10)) == 2


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_database_keeps_the_conversation_over_a_restart(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """After an update of the bot the page would be empty."""
    url = f"sqlite:///{tmp_path}/chat.sqlite"
    if engine == "postgres":
        url = request.getfixturevalue("postgres_url")
    logs = []
    for _ in range(2):
        database = await open_database(url, migrations=(MIGRATIONS,))
        log = ChatLog(database)
        logs.append(log.id)
        await put(log, "a", "one")
        assert len(await log.since("ada", 0, 10)) == 1
        await database.aclose()
    assert logs[0] == logs[1]
