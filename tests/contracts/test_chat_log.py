"""What every log of the web chat promises, in memory and in the database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.chat.records.chat_log import ChatLog, MemoryLog, ShownFile, ShownMessage, TextPart, file_id
from bot.chat.records.stored_log import StoredLog
from bot.chat.records.stored_records import MIGRATIONS
from queueing.core.requests import File
from queueing.store import open_database

PICTURE = File(name="cat.png", mime="image/png", data=b"\x89PNG not decoded here")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChatLog]:
    if request.param == "memory":
        yield MemoryLog(keep=5)
        return
    database = await open_database(_url(request, tmp_path), migrations=(MIGRATIONS,))
    yield StoredLog(database, keep=5)
    await database.aclose()


def _url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{folder}/chat.sqlite"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _url(request, tmp_path)


def words(text: str) -> ShownMessage:
    return ShownMessage(author="usher", body=(TextPart(text=text),))


def with_picture(text: str, chat: str, message: str) -> ShownMessage:
    file = ShownFile(
        id=file_id(chat, message, PICTURE), name=PICTURE.name, mime=PICTURE.mime, size=3
    )
    return words(text).model_copy(update={"files": (file,)})


async def test_a_page_that_has_seen_a_number_gets_only_what_changed(log: ChatLog) -> None:
    """A reconnecting page would miss an edit, or show messages twice."""
    first = await log.put("anna", "a", 1.0, words("one"), ())
    second = await log.put("anna", "b", 2.0, words("two"), ())
    edited = await log.edit("anna", "a", words("one!"), ())
    assert edited is not None
    assert first.number < second.number < edited.number
    assert edited.place == first.place
    changed = await log.since("anna", second.number, 10)
    assert [(entry.message, entry.shown) for entry in changed] == [("a", words("one!"))]
    fresh = await log.since("anna", 0, 10)
    assert {entry.message for entry in fresh} == {"a", "b"}


async def test_a_message_put_twice_is_one(log: ChatLog) -> None:
    """A resend after a lost connection would show twice."""
    first = await log.put("anna", "a", 1.0, words("one"), ())
    again = await log.put("anna", "a", 9.0, words("other"), ())
    assert again == first


async def test_an_edit_that_changes_nothing_gets_no_number(log: ChatLog) -> None:
    """Pages would be sent the same message again and again."""
    first = await log.put("anna", "a", 1.0, words("one"), ())
    assert await log.edit("anna", "a", words("one"), ()) == first


async def test_a_deleted_message_is_gone_and_pages_learn_of_it(log: ChatLog) -> None:
    """A deleted message would stay on an open page."""
    put = await log.put("anna", "a", 1.0, with_picture("one", "anna", "a"), (PICTURE,))
    await log.delete("anna", "a")
    await log.delete("anna", "a")
    assert await log.get("anna", "a") is None
    assert await log.edit("anna", "a", words("back"), ()) is None
    assert [entry.shown for entry in await log.since("anna", put.number, 10)] == [None]
    assert await log.since("anna", 0, 10) == []
    assert await log.file("anna", file_id("anna", "a", PICTURE)) is None


async def test_files_belong_to_their_chat_and_go_with_an_edit(log: ChatLog) -> None:
    """A stranger could fetch a picture, or old previews would pile up."""
    name = file_id("anna", "a", PICTURE)
    await log.put("anna", "a", 1.0, with_picture("one", "anna", "a"), (PICTURE,))
    assert await log.file("anna", name) == PICTURE
    assert await log.file("bert", name) is None
    await log.edit("anna", "a", words("done"), ())
    assert await log.file("anna", name) is None


async def test_only_the_newest_messages_of_a_chat_are_kept(log: ChatLog) -> None:
    """The log would grow for ever, or one person's flood push out another's messages."""
    await log.put("bert", "first", 0.0, words("mine"), ())
    for number in range(8):
        await log.put("anna", str(number), 1.0, words(str(number)), ())
    kept = await log.before("anna", 10**9, 100)
    assert [entry.message for entry in kept] == ["3", "4", "5", "6", "7"]
    assert await log.get("bert", "first") is not None


async def test_a_database_keeps_the_conversation_over_a_restart(url: str) -> None:
    """After an update of the bot the page would be empty."""
    names = []
    for _ in range(2):
        database = await open_database(url, migrations=(MIGRATIONS,))
        log = StoredLog(database)
        names.append(log.id)
        await log.put("anna", "a", 1.0, words("one"), ())
        assert len(await log.since("anna", 0, 10)) == 1
        await database.aclose()
    assert names[0] == names[1]


async def test_a_cleared_chat_is_empty_and_pages_learn_of_it(log: ChatLog) -> None:
    """A forgotten person's words would stay on the page, or in the database behind it."""
    await log.put("anna", "a", 1.0, with_picture("one", "anna", "a"), [PICTURE])
    seen = await log.put("anna", "b", 2.0, words("two"), ())
    await log.put("bert", "a", 3.0, words("his"), ())
    await log.clear("anna")
    assert await log.since("anna", 0, 10) == []
    changed = await log.since("anna", seen.number, 10)
    assert [(entry.message, entry.shown) for entry in changed] == [("a", None), ("b", None)]
    assert await log.file("anna", file_id("anna", "a", PICTURE)) is None
    assert await log.get("bert", "a") is not None
    await log.clear("anna")
    assert len(await log.since("anna", seen.number, 10)) == 2
