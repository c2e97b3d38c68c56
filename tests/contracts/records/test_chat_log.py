"""What every log of the web chat promises, in memory and in the database."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bot.app.setup import MIGRATIONS
from bot.platforms.web.chat.chat_log import ChatLog, Entry, ShownButton, ShownMessage, TextPart
from bot.platforms.web.chat.conversations import MOST
from bot.platforms.web.chat.renderer import shown_file
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
    """A send repeated after a crash would appear twice, or each repeated edit wake every page."""
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
    """It would stay on open pages, come back with an edit, or appear on new pages."""
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
    """Images would be deleted too early, be shown to strangers, or previews fill the disk."""
    first, second = image("one.png"), image("two.png", shade=3)
    files = ids(await put(log, "m", "x", first, second))
    assert [await log.file("ada", each) for each in files] == [first, second]
    assert await log.file("ben", files[0]) is None
    await log.edit("ada", "m", shown("y", "m", second), (second,))
    assert [await log.file("ada", each) for each in files] == [None, second]
    await log.delete("ada", "m")
    assert await log.file("ada", files[1]) is None


async def test_only_the_newest_messages_of_a_chat_are_kept(log: ChatLog) -> None:
    """The log would grow forever, or one person's flood delete another's messages."""
    await put(log, "other", chat="ben")
    oldest = await put(log, "oldest", "x", image())
    for at in range(KEEP):
        await put(log, f"m{at}")
    assert await log.get("ada", "oldest") is None
    assert await log.file("ada", ids(oldest)[0]) is None
    assert names(await log.since("ada", 0, 100)) == [f"m{at}" for at in range(KEEP)]
    assert await log.get("ben", "other") is not None


async def test_numbers_are_never_given_twice(log: ChatLog) -> None:
    """A page could mistake a new change for one that it has seen."""
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


async def chats(log: ChatLog, person: str = "ada") -> list[str]:
    return [head.chat for head in await log.conversations.newest(person, 10)]


async def found(log: ChatLog, text: str) -> list[str]:
    return [head.chat for head in await log.conversations.found("ada", text)]


async def test_a_persons_conversations_are_listed_newest_first(log: ChatLog) -> None:
    """The side bar would lack a conversation, or show another person's."""
    assert await chats(log) == []
    for at, chat in enumerate(["ada", "ada/1", "adam", "ada/2", "ada"]):
        await log.put(chat, f"m{at}", float(at), shown(f"in {chat}"), ())
    assert await chats(log) == ["ada", "ada/2", "ada/1"]
    assert len(await log.conversations.newest("ada", 2)) == 2
    await log.delete("ada/2", "m3")  # the last message of a conversation is its end
    assert await chats(log) == ["ada", "ada/1"]
    assert await log.conversations.has_room("ada/new")


async def test_a_conversation_is_unread_once_the_bot_has_finished_something(log: ChatLog) -> None:
    """A result in another conversation would be missed, or every progress bar announce one."""

    async def unread() -> list[bool]:
        return [head.unread > 0 for head in await log.conversations.newest("ada", 10)]

    cancel = ShownButton(command="cancel", job=7, label="Cancel", danger=True)
    running = shown("3 %").model_copy(update={"buttons": ((cancel,),)})
    line = shown("/image cat").model_copy(update={"author": "person"})
    await log.put("ada", "line", 1.0, line, ())
    await log.put("ada", "m", 1.0, running, ())
    assert await unread() == [False]
    before = log.conversations.revision
    await log.edit("ada", "m", shown("done"), ())
    assert log.conversations.revision > before
    assert await unread() == [True]
    await log.conversations.see("ada")
    assert await unread() == [False]
    await log.put("ada", "next", 2.0, line, ())
    assert await unread() == [False]


async def test_conversations_are_found_by_name_and_by_words(log: ChatLog) -> None:
    """Words in another case would not be found, or other people's and deleted ones would be."""
    await put(log, "a", "Ein Ärmel aus 50% Wolle", chat="ada/1")
    await put(log, "b", "one", chat="ada/2")
    await put(log, "c", "Ärmel", chat="ben")
    await log.conversations.rename("ada/2", "Übung")
    for text, chat in {"ÄRMEL": "ada/1", "0% w": "ada/1", "übung": "ada/2", "ONE": "ada/2"}.items():
        assert await found(log, text) == [chat], text
    assert await found(log, "_") == await found(log, "kind") == []
    await log.edit("ada/1", "a", shown("silk"), ())
    assert (await found(log, "wolle"), await found(log, "silk")) == ([], ["ada/1"])
    await log.forget("ada/1", ["a"])
    assert await found(log, "silk") == []


async def test_a_deleted_conversation_is_gone_with_its_name_and_the_others_stay(
    log: ChatLog,
) -> None:
    """Forgotten words would stay in the side bar, or another conversation be deleted as well."""
    kept = await put(log, "a", "one", image("a.png"), chat="ada/1")
    gone = await put(log, "b", "two", image("b.png"), chat="ada/2")
    await log.conversations.rename("ada/2", "plans")
    await log.remove("ada/2")
    assert await chats(log) == ["ada/1"]
    assert await found(log, "plans") == []
    assert [entry.shown for entry in await log.since("ada/2", gone.number, 9)] == [None]
    assert await log.file_head("ada", ids(gone)[0]) is None
    head = await log.file_head("ada", ids(kept)[0])
    assert head is not None
    assert head.chat == "ada/1"
    assert await log.file_head("ben", ids(kept)[0]) is None
    await put(log, "c", chat="ada/2")
    assert [head.name for head in await log.conversations.newest("ada", 9)] == ["", ""]
    await log.clear("ada/2")  # all of the person's, whichever is named
    assert await chats(log) == []


async def test_a_person_begins_only_so_many_conversations(log: ChatLog) -> None:
    """One person would fill the database with conversations of one word."""
    for number in range(MOST):
        await put(log, "m", chat=f"ada/{number}")
    assert not await log.conversations.has_room("ada/new")
    assert await log.conversations.has_room("ada/7")
    assert await log.conversations.has_room("ben/new")


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
