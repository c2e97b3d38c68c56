"""What goes wrong on Discord: late answers, limits, lost messages and chats, outages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest

import bot.platforms.discord.client as starts_module
import bot.platforms.discord.interactions as calls_module
import bot.platforms.discord.platform as discord_module
from bot.core.content import Content
from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatRefused,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.core.platform import Invocation, MessageRef
from bot.platforms.discord.platform import Discord
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import (
    COMMANDS,
    NotesInMemory,
    RecordingHandler,
    running,
    says,
)
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import Limits
from tests.patience import runs_out
from tests.processes.installation import until

MESSAGES = "/channels/*/messages"
MESSAGE = "/channels/*/messages/*"
CALLBACK = "/interactions/*/*/callback"


@asynccontextmanager
async def bot_with_message(**how: Any) -> AsyncIterator[tuple[FakeDiscord, Discord, MessageRef]]:
    async with FakeDiscord(**how) as fake, running(fake, RecordingHandler()) as chat:
        yield fake, chat, await chat.send("100", says("⏳"))


# ---------------------------------------------------------------- answers that come late


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm at once what no one has answered yet, instead of after two seconds."""
    monkeypatch.setattr(calls_module, "CONFIRM_AFTER_S", 0.0)


@pytest.mark.usefixtures("hurried")
async def test_a_call_that_is_slow_to_answer_is_confirmed_and_answered_later() -> None:
    """A busy database would make Discord say that the application did not respond."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        sent = await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        await fake.wait_for(lambda: sent.response_type)
        assert sent.response_type == 5
        fake.later(600)
        ref = await call.respond(says("⏳ #3"), False)
        assert ref is not None
        fake.later(600)
        await chat.edit(ref, says("🎨"))
        assert [each.history for each in fake.channel().messages] == [["⏳ #3", "🎨"]]


@pytest.mark.usefixtures("hurried")
async def test_links_of_a_late_answer_are_not_unfolded() -> None:
    """Because of an address in a slow answer, Discord would fetch and show a page."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        sent = await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        await fake.wait_for(lambda: sent.response_type)
        await call.respond(says("see https://example.org/a"), False)
        [message] = fake.channel().messages
        assert message.content == "see https://example.org/a"
        assert message.flags & 4


@pytest.mark.usefixtures("hurried")
async def test_a_late_private_answer_is_not_shown_to_everybody() -> None:
    """A refusal would replace the public "thinking…", and everyone would read it."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        sent = await person.slash("queue")
        call = await handler.called()
        await fake.wait_for(lambda: sent.response_type)
        assert await call.respond(says("You have 3 open jobs."), True) is None
        assert fake.channel().messages == []
        assert [each.shown for each in person.sees()] == ["You have 3 open jobs."]


async def test_an_answer_after_discords_three_seconds_becomes_an_ordinary_message() -> None:
    """An accepted job would have no status message because the first answer came too late."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        fake.later(4)
        ref = await call.respond(says("⏳ #3"), False)
        assert ref is not None
        await chat.edit(ref, says("🎨"))
        assert [each.shown for each in fake.channel().messages] == ["🎨"]


async def test_a_private_answer_that_is_too_late_goes_to_direct_messages() -> None:
    """A private text would be posted into the channel, or lost."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        await person.slash("queue")
        call = await handler.called()
        fake.later(4)
        assert await call.respond(says("You have no open job."), True) is None
        assert fake.channel().messages == []
        assert [each.shown for each in person.direct.messages] == ["You have no open job."]


@pytest.mark.usefixtures("hurried")
async def test_an_answer_after_fifteen_minutes_becomes_an_ordinary_message() -> None:
    """A command that took long (a load) could no longer say that it is done."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        sent = await fake.person(7).slash("preload", model="flux")
        call = await handler.called()
        await fake.wait_for(lambda: sent.response_type)
        fake.later(1000)
        await call.respond(says("flux is loaded."), False)
        assert fake.channel().messages[-1].shown == "flux is loaded."


@pytest.mark.parametrize("how", [{"status": 502}, {"drop": True}])
async def test_a_first_answer_whose_confirmation_was_lost_is_not_shown_twice(
    how: dict[str, Any],
) -> None:
    """A lost connection to Discord would double the status message, or lose its reference."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        fake.fail("POST", CALLBACK, acting=True, **how)
        await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        ref = await call.respond(says("⏳ #3"), False)
        assert ref is not None
        await chat.edit(ref, says("🎨"))
        assert [each.shown for each in fake.channel().messages] == ["🎨"]


async def test_a_broken_handler_does_not_end_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One bug in one command would stop the whole platform."""

    async def broken(_call: Invocation) -> None:
        raise ZeroDivisionError

    handler = RecordingHandler(then=broken)
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.person(7).slash("queue")
        await handler.called()
        handler.then = None
        await fake.person(7).slash("queue")
        call = await handler.called(2)
        await call.respond(says("ok"), True)
    assert "ZeroDivisionError" in caplog.text


# ---------------------------------------------------------------- limits


async def test_a_limit_is_said_at_once_instead_of_slept_through() -> None:
    """An edit would block its chat and then show an outdated text."""
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("PATCH", MESSAGE, status=429, retry_after=17.5)
        with pytest.raises(SlowDown) as failure:
            await chat.edit(ref, says("old"))
        assert failure.value.retry_after_s == 17.5
        assert not failure.value.old_message
        await chat.edit(ref, says("new"))
        assert fake.channel().messages[0].history == ["⏳", "new"]


async def test_edits_of_an_old_message_pause_for_long() -> None:
    """Edits of messages over an hour old would be refused one after another."""
    async with bot_with_message(limits=Limits(old_message=(1, 20.0))) as (fake, chat, ref):
        fake.later(3700)
        await chat.edit(ref, says("#2"))
        with pytest.raises(SlowDown) as failure:
            await chat.edit(ref, says("#1"))
        assert failure.value.retry_after_s >= 300
        assert failure.value.old_message
        assert fake.limits is not None
        assert fake.limits.refused == {"old message": 1}


async def test_the_fakes_limit_on_a_channel_is_met_as_slow_down() -> None:
    """The fake would not refuse a sixth edit in five seconds, or the refusal not be reported."""
    async with bot_with_message(limits=Limits()) as (fake, chat, ref):
        for number in range(5):
            await chat.edit(ref, says(f"#{number}"))
        with pytest.raises(SlowDown) as failure:
            await chat.edit(ref, says("one too many"))
        assert 0 < failure.value.retry_after_s <= 5
        assert fake.rest.answers_429 == 1


async def test_announced_limits_are_kept_without_a_refusal() -> None:
    """The library would not wait for the window that Discord announced, and collect 429s."""
    limits = Limits(per_channel=(1, 0.1))
    async with bot_with_message(limits=limits, announce_limits=True) as (fake, chat, ref):
        for number in range(3):
            await chat.edit(ref, says(f"#{number}"))
        assert fake.channel().messages[0].history == ["⏳", "#0", "#1", "#2"]
        assert fake.rest.answers_429 == 0


async def test_a_limit_on_the_whole_bot_is_waited_out() -> None:
    """A global limit would be reported for one chat only, and the others would run into it."""
    async with bot_with_message(limits=Limits(overall=(1, 0.1))) as (fake, chat, ref):
        await asyncio.gather(chat.edit(ref, says("#2")), chat.send("100", says("x")))
        assert fake.channel().messages[0].shown == "#2"


async def test_cloudflares_page_is_a_limit_too() -> None:
    """A page that announces a ban would look like refused content, and the result be given up."""
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("PATCH", MESSAGE, status=429, page="<html>error 1015</html>")
        with pytest.raises(SlowDown):
            await chat.edit(ref, says("x"))


# ---------------------------------------------------------------- messages and chats that are gone


async def test_each_refusal_of_discords_has_its_reaction() -> None:
    """The bot would repeat what never works, or give up on what would."""
    cases: list[tuple[int, int, type[ChatError]]] = [
        (404, 10008, MessageGone),
        (404, 10003, ChatGone),
        (403, 50001, ChatGone),
        (403, 50013, ChatGone),
        (403, 50007, ChatGone),
        (403, 50005, MessageGone),
        (400, 40005, TooLarge),
        (413, 0, TooLarge),
        (400, 50035, ContentRefused),
        (401, 0, ChatUnavailable),
        (503, 0, ChatUnavailable),
    ]
    async with bot_with_message() as (fake, chat, ref):
        for status, code, error in cases:
            fake.fail("PATCH", MESSAGE, status=status, code=code)
            with pytest.raises(ChatError) as failure:
                await chat.edit(ref, says("x"))
            assert type(failure.value) is error, (status, code)


async def test_a_server_that_removed_the_bot_is_gone() -> None:
    """A removed bot would keep asking until Discord blocks its address."""
    async with bot_with_message() as (fake, chat, ref):
        fake.kick()
        with pytest.raises(ChatGone):
            await chat.edit(ref, says("x"))
        with pytest.raises(ChatGone):
            await chat.send("100", says("x"))


async def test_an_archived_thread_is_opened_for_the_result() -> None:
    """A result would never appear because its thread was archived while it waited."""
    async with FakeDiscord() as fake:
        thread = fake.add_channel(300, thread=True)
        async with running(fake, RecordingHandler()) as chat:
            ref = await chat.send("300", says("⏳"))
            thread.archived = True
            await chat.edit(ref, says("done"))
            assert (thread.archived, thread.messages[0].shown) == (False, "done")


async def test_a_locked_thread_is_gone() -> None:
    """A thread that no one may open would be retried without end."""
    async with FakeDiscord() as fake:
        thread = fake.add_channel(300, thread=True)
        async with running(fake, RecordingHandler()) as chat:
            ref = await chat.send("300", says("⏳"))
            thread.archived = True
            fake.fail("PATCH", "/channels/300", status=403, code=50013)
            with pytest.raises(ChatGone):
                await chat.edit(ref, says("done"))


async def test_without_leave_to_read_history_a_reply_becomes_a_plain_message() -> None:
    """A ping would be lost in channels where the bot may not read the history."""
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("POST", MESSAGES, status=403, code=160002)
        await chat.send("100", says("ready"), reply_to=ref)
        assert fake.channel().messages[-1].shown == "ready"


async def test_a_file_that_is_too_large_is_said() -> None:
    """The layer above would not learn that it must make the image smaller."""
    big = File(name="big.png", mime="image/png", data=b"x" * (10 * 2**20 + 1))
    async with bot_with_message() as (_fake, chat, ref):
        with pytest.raises(TooLarge):
            await chat.edit(ref, Content(body=("x",), files=(big,)))


@pytest.mark.parametrize(("tier", "mebibytes"), [(0, 10), (1, 10), (2, 50), (3, 100)])
async def test_a_boosted_server_takes_larger_files(tier: int, mebibytes: int) -> None:
    """A video would lose quality although the server would accept it unchanged."""
    async with FakeDiscord() as fake:
        fake.rest.tier = tier
        async with running(fake, RecordingHandler()) as chat:
            await until(lambda: chat.limits.in_chat("100").upload == mebibytes * 2**20)
            assert chat.limits.in_chat("@55").upload == 10 * 2**20
            assert chat.limits.in_chat("999").upload == 10 * 2**20
            large = File(name="a.mp4", mime="video/mp4", data=bytes(11 * 2**20))
            sending = chat.send("100", Content(body=("x",), files=(large,)))
            if mebibytes > 10:
                await sending
            else:
                with pytest.raises(TooLarge):
                    await sending


# ---------------------------------------------------------------- outages


async def test_a_send_whose_answer_is_lost_is_unclear() -> None:
    """A message that may have been posted would be posted again blindly."""
    async with bot_with_message() as (fake, chat, _ref):
        fake.fail("POST", MESSAGES, drop=True, acting=True)
        with pytest.raises(ChatUnavailable) as failure:
            await chat.send("100", says("result"), nonce="job-12")
        assert failure.value.unclear
        again = await chat.send("100", says("result"), nonce="job-12")
        assert [str(each.id) for each in fake.channel().messages][-1] == again.message
        assert len(fake.channel().messages) == 2


async def test_a_repeat_inside_the_library_posts_once() -> None:
    """A 502 that came after the message was made would leave two of them."""
    async with bot_with_message() as (fake, chat, _ref):
        fake.fail("POST", MESSAGES, status=502, acting=True)
        await chat.send("100", says("result"))
        assert [each.shown for each in fake.channel().messages] == ["⏳", "result"]


async def test_an_edit_does_not_wait_out_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit would hang in the library's own retries and then send an old text."""
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("PATCH", MESSAGE, status=502, times=100)
        runs_out(monkeypatch, discord_module, "REQUEST_TIMEOUT_S")
        with pytest.raises(ChatUnavailable) as failure:
            await chat.edit(ref, says("x"))
        assert not failure.value.unclear


async def test_an_outage_at_the_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bot started while Discord is down would never connect."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.0)
    async with FakeDiscord() as fake:
        fake.fail("GET", "/users/@me", status=503, times=3)
        async with running(fake, RecordingHandler()) as chat:
            await chat.send("100", says("up"))
        assert len(fake.gateway.identified) == 1


async def test_a_beginning_nobody_understands_does_not_end_the_platform(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One odd event from Discord would disable the bot until a person restarts it."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.gateway.deliver("READY", {})
        await fake.wait_for(lambda: len(fake.gateway.identified) == 2)
        await fake.person(7).slash("queue")
        call = await handler.called()
        await call.respond(says("ok"), True)
    assert "the connection broke" in caplog.text


def test_pauses_between_starts_grow() -> None:
    """A bot in a crash loop would identify 1000 times a day, and Discord reset the token."""
    pauses_s = list(islice(discord_module.restart_pauses_s(), 150))
    assert pauses_s[:9] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert sum(pauses_s) > 86400


async def test_commands_that_discord_refuses_leave_the_bot_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A refused registration would stop the whole platform, or go unnoticed."""
    async with FakeDiscord() as fake:
        fake.fail("PUT", "/applications/*/commands", status=400, code=50035)
        async with running(fake, RecordingHandler()) as chat:
            await chat.send("100", says("up"))
    assert "could not register the commands" in caplog.text


async def test_a_reset_token_ends_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the owner reset the token, the bot would keep trying forever."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.0)
    async with FakeDiscord() as fake:
        chat = Discord(fake.token)
        task = asyncio.create_task(chat.run(RecordingHandler()))
        await fake.connected()
        fake.gateway.token = fake.rest.token = "another"
        await fake.gateway.disconnect(4004)
        with pytest.raises(ChatRefused):
            await task


async def test_a_connection_closed_for_good_says_what_to_do() -> None:
    """The log would repeat a line every ten minutes forever, without saying what to do."""
    async with FakeDiscord() as fake:
        for code in (4012, 4013, 4014):
            task = asyncio.create_task(Discord(fake.token).run(RecordingHandler()))
            await fake.connected()
            await fake.gateway.disconnect(code)
            with pytest.raises(ChatRefused, match=r"Usher|intents"):
                await asyncio.wait_for(task, 60)


async def test_a_bot_that_outgrew_its_connections_gets_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From 2500 servers on, Discord would close the one connection again and again."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        fake.rest.shards = 2
        fake.gateway.too_few = 1
        await fake.gateway.disconnect(4011)
        await fake.wait_for(lambda: len(fake.gateway.identified) == 3)
        await fake.connected()
        await fake.person(7).slash("queue")
        call = await handler.called()
        await call.respond(says("ok"), True)
        assert [each["shard"] for each in fake.gateway.identified] == [[0, 1], [0, 2], [1, 2]]


async def test_too_few_connections_that_stay_too_few_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4011 would be logged every ten minutes forever without a hint."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    async with FakeDiscord() as fake:
        fake.gateway.too_few = 1
        with pytest.raises(ChatRefused, match="too many servers for one connection"):
            await asyncio.wait_for(Discord(fake.token).run(RecordingHandler()), 60)
        assert len(fake.gateway.identified) == 3


async def test_an_event_that_the_library_cannot_read_closes_no_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Calls that wait for their answers would be lost with the connection."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.gateway.deliver("INTERACTION_CREATE", {"id": "1"})
        await fake.person(7).slash("queue")
        assert (await handler.called()).command == "queue"
        assert len(fake.gateway.identified) + fake.gateway.resumed == 1
        assert "cannot read: INTERACTION_CREATE" in caplog.text


# ---------------------------------------------------------------- first answers that are refused


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"status": 429, "retry_after": 0.3}, SlowDown),
        ({"status": 400, "code": 50035}, ContentRefused),
    ],
)
async def test_a_refused_first_answer_is_deferred_in_time_and_given_afterwards(
    how: dict[str, Any], error: type[ChatError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """People would read "The application did not respond", and a second later an answer."""
    refused = asyncio.Event()
    confirm = calls_module.InteractionReply._confirm_in_time

    async def once_refused(self: Any) -> None:
        await refused.wait()
        await confirm(self)

    monkeypatch.setattr(calls_module.InteractionReply, "_confirm_in_time", once_refused)
    monkeypatch.setattr(calls_module, "CONFIRM_AFTER_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        fake.fail("POST", CALLBACK, **how)
        sent = await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        with pytest.raises(error):
            await call.respond(says("⏳ #3"), False)
        refused.set()
        await fake.wait_for(lambda: sent.response_type)
        assert sent.response_type == 5
        assert await call.respond(says("⏳ #3"), False) is not None
        assert [each.shown for each in fake.channel().messages] == ["⏳ #3"]


async def test_a_deferral_that_is_refused_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One 429 at the wrong moment would lose the call after three seconds."""
    monkeypatch.setattr(calls_module, "CONFIRM_AFTER_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        fake.fail("POST", CALLBACK, status=429, retry_after=0.1)
        sent = await fake.person(7).slash("image", prompt="cat")
        await fake.wait_for(lambda: sent.response_type)
        assert sent.response_type == 5


@pytest.mark.parametrize("acting", [False, True])
async def test_a_first_answer_that_is_cut_off_may_be_repeated(acting: bool) -> None:
    """The answer would appear twice, or not at all."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        fake.fail("POST", CALLBACK, drop=True, acting=acting, times=2)
        await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        with contextlib.suppress(ChatUnavailable):
            await call.respond(says("⏳ #3"), False)
        await call.respond(says("⏳ #3"), False)
        assert [each.shown for each in fake.channel().messages] == ["⏳ #3"]


# ---------------------------------------------------------------- commands that vanish


async def test_commands_that_vanished_are_put_back_at_the_next_start() -> None:
    """Commands removed by another program with this token could not be called by anyone."""
    notes = NotesInMemory()
    async with FakeDiscord() as fake:
        async with running(fake, RecordingHandler(), Discord(fake.token, notes=notes)):
            pass
        gone = fake.rest.commands.pop()
        async with running(fake, RecordingHandler(), Discord(fake.token, notes=notes)):
            assert gone["name"] in {each["name"] for each in fake.rest.commands}
        assert fake.rest.syncs == 2


async def test_a_check_names_the_commands_discord_does_not_have() -> None:
    """`usher check` would say that all is well while no one sees a command."""
    async with FakeDiscord() as fake:
        chat = Discord(fake.token, commands=COMMANDS)
        assert "none of the commands" in await chat.check()
        async with running(fake, RecordingHandler()):
            pass
        assert "commands" not in await chat.check()
        fake.rest.commands = [each for each in fake.rest.commands if each["name"] != "queue"]
        assert "does not have queue yet" in await chat.check()
