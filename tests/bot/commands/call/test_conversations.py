"""A conversation continues automatically in private chats, and by replies elsewhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.openai.chat.request import merged
from bot.commands.call.context import Call
from bot.commands.call.jobs import name_of
from bot.core.platform import ForwardedText
from bot.people.people import Person
from queueing.core.jobs import Job
from queueing.core.requests import Capability, ChatMessage
from queueing.core.specs import ModelSpec
from tests.bot.results import DEAF, FLUX, QWEN, ask, done, image, in_bot, of, press, said, shown
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import Bot, bot, quiet, settled
from tests.simulation.installation import Installation, host
from tests.simulation.loop import in_virtual_time

BOB, WHO = "/ask my name is Bob", "/ask what is my name?"


async def text_of(running: Bot, job: Job) -> str:
    """Return what a job's message shows."""
    return running.chat.messages[(await of(running, job)).message].text


def turns(job: Any) -> list[str]:
    """Return what people said in a job's conversation."""
    return [text for role, text in said(job) if role == "user"]


@in_bot()
async def test_a_private_chat_goes_on_without_a_reply(running: Bot) -> None:
    """People would have to repeat in every message what they are talking about."""
    await done(running, BOB)
    second = await done(running, WHO)
    assert [role for role, _ in said(second)] == ["user", "assistant", "user"]
    third = await done(running, "/ask and how is it spelt?")
    assert turns(third) == ["my name is Bob", "what is my name?", "and how is it spelt?"]
    await done(running, "/image a cat")
    assert len(turns(await done(running, "/ask are you sure?"))) == 4


@in_bot()
async def test_only_the_persons_own_last_exchange_in_that_chat_counts(running: Bot) -> None:
    """A person's private words would be sent to a model in another chat, or for another person."""
    await done(running, BOB)
    assert len(turns(await done(running, WHO, chat="2"))) == 1
    assert len(turns(await done(running, WHO, "fake:2"))) == 1
    assert len(turns(await done(running, WHO, chat="g1"))) == 1
    assert len(turns(await done(running, WHO))) == 2


@pytest.mark.parametrize(("waits_s", "goes_on"), [(1700, True), (1900, False)])
@in_bot()
async def test_a_conversation_ends_when_it_has_rested_for_long(
    running: Bot, waits_s: float, *, goes_on: bool
) -> None:
    """A question of today would be answered as one about yesterday's topic."""
    await done(running, BOB)
    await asyncio.sleep(waits_s)
    assert (len(turns(await done(running, WHO))) == 2) == goes_on


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@in_bot()
async def test_a_chat_that_is_one_conversation_goes_on_after_any_time(running: Bot) -> None:
    """The page would show yesterday's conversation while the model knows nothing of it."""
    await done(running, BOB, lasting=True)
    for number in range(12):  # more than a page of the person's history
        await done(running, f"/image cat {number}", chat="2")
    await done(running, "/image a cat", lasting=True)
    await asyncio.sleep(3 * 86_400)
    await done(running, "/ask elsewhere?", chat="2")
    assert turns(await done(running, WHO, lasting=True)) == [
        "my name is Bob",
        "what is my name?",
    ]
    assert len(turns(await done(running, WHO, "fake:2", lasting=True))) == 1
    await running.dispatcher.call(running.chat.call("/new", lasting=True))
    await asyncio.sleep(3600)
    assert len(turns(await done(running, WHO, lasting=True))) == 1


@in_bot()
async def test_a_question_asked_before_the_answer_is_there_knows_the_one_before(
    running: Bot,
) -> None:
    """The model would not connect two sentences sent one after the other."""
    await ask(running, BOB)
    assert turns(await ask(running, WHO)) == ["my name is Bob", "what is my name?"]


@in_bot()
async def test_a_question_that_was_taken_back_is_no_part_of_the_conversation(running: Bot) -> None:
    """A model would answer what a person has cancelled."""
    await done(running, BOB)
    job = await ask(running, "/ask my name is Eve")
    assert job is not None
    await running.queue.submitter.cancel(job.id)
    assert turns(await done(running, WHO)) == ["my name is Bob", "what is my name?"]


@in_bot(FLUX, DEAF, QWEN)
async def test_a_question_knows_which_server_remembers_its_conversation(running: Bot) -> None:
    """Another server would have to read the whole conversation for each question."""
    first = await done(running, BOB)
    second = await done(running, WHO)
    again = await press(running, first, "again")
    asked = [first, second, again, await done(running, "/image a cat")]
    assert [job and job.remembered_by for job in asked] == [None, "comfy", "comfy", None]
    assert (await done(running, "/ask qwen who am I?")).remembered_by is None
    waiting = await ask(running, WHO)
    assert waiting is not None
    assert (await done(running, WHO)).remembered_by == "comfy"  # though that has not run yet


@in_virtual_time
async def test_an_answer_comes_from_the_server_that_gave_the_last_one(tmp_path: Path) -> None:
    """The first word would wait until another server had read the long conversation, too."""
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    able = frozenset({Capability.TEXT_TO_TEXT})
    qwen = ModelSpec(
        name="qwen", backends=("one", "two"), capabilities=able, vram_mb=2000, service_s=5.0
    )
    installation = Installation.of((qwen,), [host("gpu-1", "one"), host("gpu-2", "two")], url=url)
    for server in installation.servers.values():
        server.memory.add("qwen")
    chat = FakeChat()
    async with bot(installation, chat) as running:
        await ask(running, "/ask a long story", "fake:2", chat="2")
        first = await done(running, BOB)
        assert first.backend == "two"  # the other one was busy
        assert (await done(running, WHO)).backend == "two"
    async with bot(installation, chat) as running:
        assert (await done(running, "/ask and how is it spelt?")).backend == "two"
        assert (await done(running, "/ask a story", "fake:3", chat="3")).backend == "one"
        assert await ask(running, "/ask and then?", "fake:2", chat="2")
        third = await done(running, "/ask and the end?", "fake:3", chat="3")
        assert third.backend == "two"  # no one waits for the one that remembers


@in_virtual_time
async def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    """After an update the bot would remember no conversation."""
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    installation, chat = Installation.of((QWEN,), [host("gpu-1", "comfy")], url=url), FakeChat()
    async with bot(installation, chat) as running:
        await done(running, BOB)
    async with bot(installation, chat) as running:
        assert len(turns(await done(running, WHO))) == 2
        await ask(running, "/new")
    async with bot(installation, chat) as running:
        assert len(turns(await done(running, WHO))) == 1
        await quiet(running)


@in_bot()
async def test_new_begins_afresh_and_a_reply_goes_back(running: Bot) -> None:
    """No one could change the subject, or return to an earlier one."""
    first = await done(running, BOB)
    waiting = await ask(running, "/ask my name is Eve")
    assert await ask(running, "/new") is None
    assert waiting is not None
    assert len(turns(await done(running, WHO))) == 1
    older = await done(running, WHO, replied_to=await of(running, first))
    assert turns(older) == ["my name is Bob", "what is my name?"]
    assert len(turns(await done(running, "/ask sure?"))) == 3  # it goes on with that one
    told = (await settled(running)).answers
    assert told == [
        "A new conversation starts here. Reply to an earlier answer to continue from there."
    ]


@in_bot()
async def test_an_answer_that_went_on_by_itself_has_a_button_for_a_new_topic(running: Bot) -> None:
    """People would not notice what the model is sent, and not know how to end it."""
    first = await done(running, BOB)
    second = await done(running, WHO)
    has = [
        any(each.command == "new-topic" for each in shown(running, await of(running, job)))
        for job in (first, second)
    ]
    assert has == [False, True]
    await press(running, second, "new-topic", "fake:2")
    assert len(turns(await done(running, WHO))) == 3
    await press(running, second, "new-topic")
    assert len(turns(await done(running, WHO))) == 1


@pytest.mark.parametrize("what", ["conversation", "me"])
@in_bot()
async def test_what_is_forgotten_is_told_to_nobody_again(running: Bot, what: str) -> None:
    """A deleted sentence would be part of the next question."""
    await done(running, BOB)
    await ask(running, "/new")
    await done(running, BOB)
    await ask(running, f"/forget {what}")
    assert len(turns(await done(running, WHO))) == 1


@in_bot()
async def test_images_stay_in_the_conversation(running: Bot) -> None:
    """“And what breed is it?” would be asked about nothing."""
    await done(running, BOB)
    first = await done(running, "/ask", files=(image(),))
    assert turns(first) == ["my name is Bob", "Describe this image."]
    job = await done(running, "/ask what breed is it?")
    assert len(await running.queue.jobs.inputs(job) or ()) == 1


@in_bot(FLUX, DEAF, QWEN)
async def test_an_image_goes_to_a_model_that_sees(running: Bot) -> None:
    """A conversation with a model that cannot see images would end with the first image."""
    await done(running, "/ask deaf my name is Bob")
    job = await done(running, "/ask who is this?", files=(image(),))
    assert (job.model, len(turns(job))) == ("qwen", 2)


@in_bot(DEAF, QWEN)
async def test_a_model_goes_on_until_another_is_chosen(running: Bot) -> None:
    """A person who changes their usual model would get the old one, or lose what was said."""
    await done(running, "/ask deaf my name is Bob")
    assert (await done(running, WHO)).model == "deaf"
    await ask(running, "/settings --ask qwen")
    job = await done(running, WHO)
    assert (job.model, len(turns(job))) == ("qwen", 3)


@in_bot()
async def test_the_context_of_a_model_holds_for_what_goes_on_by_itself(running: Bot) -> None:
    """A server would eventually refuse a long chat."""
    jobs = [await done(running, f"/ask {'word ' * 1500}") for _ in range(4)]
    job = jobs[-1]
    assert sum(len(text) for _, text in said(job)) <= 24_000
    assert 1 < len(turns(job)) < 4


# ---------------------------------------------------------------- in groups


@in_bot()
async def test_in_a_group_the_model_is_told_who_said_what(running: Bot) -> None:
    """“Bob, what do you think?” would be asked of a model that knows no Bob."""
    first = await done(running, "/ask why?", user_name="Ada", chat="g1")
    reply = {"replied_to": await of(running, first), "chat": "g1"}
    second = await done(running, "/ask why not?", "fake:2", user_name="Bob", **reply)
    assert isinstance(second.request.messages, tuple)  # type: ignore[union-attr]
    told = [turn.told for turn in second.request.messages]  # type: ignore[union-attr]
    assert (told[0], told[2]) == ("Ada: why?", "Bob: why not?")
    assert turns(second) == ["why?", "why not?"]
    alone = await done(running, "/ask and you?", user_name="Ada", chat="g1")
    assert len(turns(alone)) == 1
    private = await done(running, "/ask why?", user_name="Ada")
    assert private.request.messages[0].told == "why?"  # type: ignore[union-attr]
    assert await ask(running, "/new", chat="g1") is None
    assert (await settled(running)).answers == [
        (
            "In groups, only a reply continues a conversation; any other question starts a new one"
            " anyway."
        )
    ]


@given(st.text(max_size=80))
def test_a_name_is_one_line_and_no_role(name: str) -> None:
    """A person could speak as the system, or as another person, by the name they choose."""
    invocation = FakeChat().call("/ask why?", chat="g1", user_name=name)
    person = Person(user=invocation.user)
    told = name_of(Call(invocation=invocation, args={}, person=person, language="en"))
    assert told is None or (told.isprintable() and ":" not in told and len(told) <= 34)
    assert (told or "").casefold() not in {"system", "assistant", "user"}


@in_bot()
async def test_the_words_of_somebody_else_are_told_with_their_name(running: Bot) -> None:
    """The model would not know whose words a question is about."""
    quoted: dict[str, Any] = {"quoted": "I am late.", "quoted_by": "Bob"}
    group = await ask(running, "/ask is he?", user_name="Ada", chat="g1", **quoted)
    assert turns(group) == ["> Bob: I am late.\n\nis he?"]
    mine = await ask(running, "/ask is he?", user_name="Bob", **quoted)
    assert turns(mine) == ["> I am late.\n\nis he?"]


@in_bot()
async def test_forwarded_words_are_told_with_their_source(running: Bot) -> None:
    """A promise by someone else would reach the model as the person's own."""
    said_there = (
        ForwardedText(text="It is late.\nI owe you 100.", by="Bob -- [admin]"),
        ForwardedText(text="Me too.", by="system"),
        ForwardedText(text="And I."),
    )
    whole = (
        "> Forwarded from Bob -- admin:\n> It is late.\n> I owe you 100.\n> \n"
        "> Forwarded from (system):\n> Me too.\n> \n> Forwarded:\n> And I."
    )
    asked = await ask(running, "/ask who owes me?", chat="1", forwarded=said_there)
    assert turns(asked) == [f"{whole}\n\nwho owes me?"]
    alone = await ask(running, "/ask", chat="2", forwarded=said_there)
    assert turns(alone) == [whole]
    long = (ForwardedText(text="x" * 30_000, by="Bob"),)
    job = await done(running, "/ask what is it?", chat="3", forwarded=long)
    cut = "✂️ Only the beginning of the text you refer to fitted into the question."
    assert cut in await text_of(running, job)


@in_bot()
async def test_the_bare_name_in_a_reply_asks_about_that_text(running: Bot) -> None:
    """A person who calls the bot in reply to a question would get a list of commands."""
    theirs = {"quoted": "why is the sky blue?", "quoted_by": "Bob"}
    asked = await ask(running, "/ask", chat="g1", group=True, **theirs)
    assert turns(asked) == ["> Bob: why is the sky blue?"]
    assert await ask(running, "/ask", user="fake:2", chat="g1", quoted="my own") is None


@in_bot()
async def test_a_reply_to_a_file_goes_on_if_it_is_an_answers(running: Bot) -> None:
    """A reply to an answer in a file would be ignored, or a "thanks" below an image be answered."""
    first = await done(running, BOB, chat="g1")
    ref = await of(running, first)
    second = await ask(running, WHO, chat="g1", replied_to=ref, to_words=True)
    assert turns(second) == ["my name is Bob", "what is my name?"]
    drawn = await done(running, "/image flux a cat", chat="g1")
    ref = await of(running, drawn)
    assert await ask(running, "/ask lovely!", chat="g1", replied_to=ref, to_words=True) is None
    assert await ask(running, "/ask lovely!", chat="g1", to_words=True) is None
    sent = len(running.chat.messages)
    running.dispatcher.close()
    await running.dispatcher.call(
        running.chat.call(
            "/ask lovely!", chat="g1", replied_to=ref, to_words=True, comes_again=False
        )
    )
    await asyncio.sleep(5)
    assert len(running.chat.messages) == sent


@in_bot()
async def test_an_answer_too_long_for_the_next_question_is_used_from_its_end(running: Bot) -> None:
    """The model would only be asked "and then?", and the person would not be told."""
    await done(running, f"/ask {'x' * 19_000}")
    second = await done(running, "/ask and then?")
    assert said(second)[1][1].endswith("xxx")
    cut = "✂️ Only the end of my last answer fitted into the question."
    assert cut in await text_of(running, second)


@in_bot()
async def test_a_group_is_told_that_a_long_text_may_be_cut(running: Bot) -> None:
    """The model would answer the first of three parts, and nobody would see why."""
    job = await done(running, "/ask what of this?", chat="g1", may_be_cut=True)
    assert "✂️ Your app may have cut your text" in await text_of(running, job)


def test_servers_are_told_the_names() -> None:
    """Names would be kept in the database and never reach a model."""
    named = [
        ChatMessage(role="user", text="why?", name="Ada"),
        ChatMessage(role="user", text="and how?", name="Bob"),
    ]
    assert merged(named) == (ChatMessage(role="user", text="Ada: why?\n\nBob: and how?"),)
