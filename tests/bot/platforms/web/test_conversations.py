"""A person's conversations: separate from each other, and visible only to that person."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from bot.app.setup import MIGRATIONS
from bot.core.content import Button, Content
from bot.delivery.records import MessageRecords
from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.chat.chat_log import ChatLog
from bot.platforms.web.chat.protocol import conversation_row
from bot.platforms.web.platform import Web
from queueing.core.jobs import JobEvent, NewJob, SubmitLimits
from queueing.core.requests import TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.bot.platforms.web.web_client import Tab, image, running, tab, text_of
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat

CATS, DOGS = "0" * 16, "d" * 16
CANCEL = Button(command="cancel", job_id=7, label="Cancel", danger=True)


async def listed(page: Tab, **wanted: object) -> dict[str, Any]:
    """Return the next list whose rows have these values by key."""
    while True:
        news = await page.next("conversations")
        if {row["key"]: row["title"] for row in news["rows"]} == wanted:
            return news


async def test_a_conversation_has_its_own_messages_and_chat() -> None:
    """A question would continue another conversation, or its answer appear there."""
    handler = ScriptedHandler()
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.say("first words")
        assert (await handler.taken()).chat == "local"
        await page.say("about cats", conversation=CATS)
        call = await handler.taken()
        assert (call.chat, call.places) == (f"local/{CATS}", (f"local/{CATS}", "local"))
        assert call.request is not None
        await call.respond(Content(body=("cats are soft",)), False)
        await listed(page, **{CATS: "about cats", "first": "first words"})
        await page.send(type="hello", conversation=CATS)
        assert (await page.next("welcome"))["conversation"] == CATS
        while (shown := await page.next("messages"))["conversation"] != CATS:
            pass
        assert [text_of(each) for each in shown["entries"]] == ["about cats", "cats are soft"]
        await page.say("more", conversation=CATS, reply_to=call.request.message)
        assert (await handler.taken()).quoted == "about cats"
        await page.say("what?", reply_to=call.request.message)  # in the first: not there
        assert (await handler.taken()).quoted == ""


async def test_a_result_elsewhere_is_marked_until_it_is_seen_on_any_page() -> None:
    """A person would have to open each conversation to find what is ready."""
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        tab(web) as page,
        tab(web) as other,
    ):
        ref = await web.send(f"local/{CATS}", Content(body=("3 %",), buttons=((CANCEL,),)))
        assert not (await listed(page, **{CATS: "3 %"}))["rows"][0]["unread"]
        await web.edit(ref, Content(body=("a cat",)))
        assert (await listed(page, **{CATS: "a cat"}))["rows"][0]["unread"]
        assert (await listed(other, **{CATS: "a cat"}))["rows"][0]["unread"]
        await other.send(type="hello", conversation=CATS)
        await other.send(type="seen")
        assert not (await listed(page, **{CATS: "a cat"}))["rows"][0]["unread"]


async def test_conversations_are_named_found_and_deleted() -> None:
    """The buttons of the side bar would have no effect."""
    async with running(web_chat(port=0), ScriptedHandler()) as web, tab(web) as page:
        for key, words in ((CATS, "Tell me of cats"), (DOGS, "and of dogs")):
            await page.say(words, conversation=key)
        await listed(page, **{CATS: "Tell me of cats", DOGS: "and of dogs"})
        await page.send(type="rename", key="k" * 16, conversation=CATS, name=" My\n pets ")
        await listed(page, **{CATS: "My pets", DOGS: "and of dogs"})
        for text, key in {"TELL": CATS, "pets": CATS, "dogs": DOGS}.items():
            await page.send(type="find", id=1, text=text)
            assert [row["key"] for row in (await page.next("found"))["rows"]] == [key]
        await page.send(type="list", most=1)
        assert len((await page.next("conversations"))["rows"]) == 1
        await page.send(type="list", most=40)
        await page.send(type="remove", key="r" * 16, conversation=CATS)
        await listed(page, **{DOGS: "and of dogs"})


async def test_no_one_reaches_another_persons_conversation() -> None:
    """With a key that they have seen, a person could read, press, name or delete another's."""
    handler, log = ScriptedHandler(), MemoryLog()
    people = FixedPeople(
        {"a" * 20: WebPerson(id="ada", name="A"), "b" * 20: WebPerson(id="ben", name="B")}
    )
    async with (
        running(Web(port=0, people=people, log=log), handler) as web,
        tab(web, cookie="a" * 20) as ada,
        tab(web, cookie="b" * 20) as ben,
    ):
        ref = await web.send(
            f"ada/{CATS}", Content(body=("secret",), files=(image(),), buttons=((CANCEL,),))
        )
        await listed(ada, **{CATS: "secret"})
        await ben.send(type="hello", conversation=CATS)
        frames: list[Mapping[str, Any]] = [
            {"type": "press", "message": ref.message, "command": "cancel", "job": 7},
            {"type": "rename", "name": "mine"},
            {"type": "remove"},
        ]
        for number, frame in enumerate(frames):
            await ben.send(**frame, key=f"{number:016}", conversation=CATS)
        assert (await ben.next("refused"))["reason"] == "button-gone"
        await ben.next("taken")
        await ben.next("taken")
        await ben.send(type="find", id=1, text="secret")
        assert (await ben.next("found"))["rows"] == []
        await ben.send(type="seen")
        for key in (f"../ada/{CATS}", f"ada/{CATS}", "", f"{CATS}\n"):
            await ben.send(type="hello", conversation=key)
            assert (await ben.next("refused"))["reason"] == "invalid"
        await ben.say("mine", conversation=CATS)
        assert (await handler.taken()).chat == f"ben/{CATS}"
        entry = await log.get(ref.chat, ref.message)
        assert entry is not None
        assert entry.shown is not None
        file = f"{web.url}files/{entry.shown.files[0].id}"
        async with aiohttp.ClientSession() as session:
            for token, status in {"a" * 20: 200, "b" * 20: 404}.items():
                async with session.get(file, headers={"Cookie": f"usher={token}"}) as answer:
                    assert answer.status == status
        (head,) = await log.conversations.newest("ada", 9)
        assert (head.name, head.unread) == ("", 0)


async def test_a_conversation_with_a_job_in_work_is_not_deleted() -> None:
    """The result of a waiting job would arrive in a conversation that is gone."""
    database = await open_database("sqlite://", migrations=(MIGRATIONS,), inline=True)
    log, store, records = ChatLog(database), JobStore(database), MessageRecords(database)
    web = Web(port=0, log=log)
    try:
        async with running(web, ScriptedHandler()), tab(web) as page:
            await page.say("/image cat", conversation=CATS)
            ref = await web.send(f"local/{CATS}", Content(body=("waiting",)))
            new = NewJob(
                model="flux", request=TextToImage(prompt="cat"), owner="web:local", key="k"
            )
            job = await store.add(new, 1.0, limits=SubmitLimits())
            await records.note_message(job.id, ref, 1.0)
            await page.send(type="remove", key="0" * 16, conversation=CATS)
            assert (await page.next("refused"))["reason"] == "in-work"
            job = (await store.apply(job, JobEvent.CANCEL, 2.0)).job
            await store.acknowledge(job)
            await page.send(type="remove", key="1" * 16, conversation=CATS)
            await listed(page)
    finally:
        await database.aclose()


async def test_a_deletion_is_told_to_the_persons_own_pages() -> None:
    """The gallery would keep what was deleted in another conversation, or a stranger learn of it."""
    people = FixedPeople(
        {"a" * 20: WebPerson(id="ada", name="Ada"), "b" * 20: WebPerson(id="bob", name="Bob")}
    )
    async with (
        running(web_chat(port=0, people=people), ScriptedHandler()) as web,
        tab(web, cookie="a" * 20) as ada,
        tab(web, cookie="b" * 20) as bob,
    ):
        ref = await web.send(f"ada/{CATS}", Content(body=("a cat",)))
        await web.delete(ref)
        await ada.next("gone")
        await web.send("bob", Content(body=("the end",)))
        await bob.entry("the end")
        assert [news for news in bob.unread if news["type"] == "gone"] == []


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("what is a queue?", "what is a queue?"),
        ("sdxl what is a queue?", "what is a queue?"),
        ("/image a cat", "a cat"),
        ("/image flux a cat --size 512x512 --steps=2", "a cat"),
        ("/image=flux=a cat", "a cat"),
        ("/image flux", "flux"),
        ("/image --model flux --size portrait -- flux is a cat", "flux is a cat"),
        ("/models", "/models"),
        ("two\n lines", "two lines"),
        ("x" * 100, "x" * 59 + "…"),
    ],
)
async def test_a_title_is_the_first_words_or_the_command(line: str, title: str) -> None:
    """The side bar would show a model's name, options, or nothing."""
    log = MemoryLog()
    async with running(Web(port=0, log=log), ScriptedHandler()) as web, tab(web) as page:
        await page.say(line)
        await page.next("taken")
    (head,) = await log.conversations.newest("local", 1)
    assert conversation_row(head, ScriptedHandler().words_of).title == title
