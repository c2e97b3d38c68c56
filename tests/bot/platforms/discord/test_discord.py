"""Real discord.py with a fake Discord: messages go out, change, and have buttons."""

import asyncio

import pytest

from bot.core.content import Button, Content, Markdown, Moment
from bot.core.errors import ChatRefused, ChatUnavailable
from bot.platforms.discord.platform import Discord
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running, says
from tests.fakes.discord.discord import FakeDiscord

IMAGE = File(name="cat.png", mime="image/png", data=b"\x89PNG cat")
CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)
RETRY = Button(command="retry", job_id=12, label="Try again")


# ---------------------------------------------------------------- buttons


async def test_a_button_of_before_a_restart_still_works() -> None:
    """Buttons on old messages would say "This interaction failed" after a restart."""
    async with FakeDiscord() as fake:
        async with running(fake, RecordingHandler()) as chat:
            ref = await chat.send("100", Content(body=("⏳",), buttons=((CANCEL, RETRY),)))
        handler = RecordingHandler()
        async with running(fake, handler):
            message = fake.message(ref.message)
            assert message is not None
            assert [(each.label, each.danger) for each in message.buttons] == [
                ("Cancel", True),
                ("Try again", False),
            ]
            press = await fake.person(8).click(message, "Cancel")
            call = await handler.called()
            await fake.wait_for(lambda: press.response_type)
    assert (call.command, dict(call.options), call.button) == ("cancel", {"id": 12}, True)
    assert call.user == "discord:8"
    assert call.replied_to == ref


async def test_a_button_without_an_answer_is_confirmed_silently() -> None:
    """A pressed button would keep spinning and end in "This interaction failed"."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        press = await fake.person(7).click(message, "Cancel")
        await fake.wait_for(lambda: press.response_type)
        assert press.response_type == 6
        assert [each.shown for each in fake.channel().messages] == ["⏳"]


async def test_a_button_is_answered_in_private_even_after_it_was_confirmed() -> None:
    """The words "only the owner may press this" would replace the message for all, or be lost."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        stranger = fake.person(8)
        press = await stranger.click(message, "Cancel")
        call = await handler.called()
        await fake.wait_for(lambda: press.response_type)
        assert await call.respond(says("Only the owner can do that."), True) is None
        assert [each.shown for each in fake.channel().messages] == ["⏳"]
        assert [each.shown for each in stranger.sees()] == ["⏳", "Only the owner can do that."]


async def test_a_button_of_another_age_is_confirmed_and_forgotten() -> None:
    """An id that this version does not know would crash a handler or reach a command."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        press = await fake.person(7).press(message, "job:12:cancel; drop table jobs")
        await fake.wait_for(lambda: press.response_type)
        assert press.response_type == 6
        assert handler.calls == []


async def test_messages_with_buttons_leave_nothing_in_memory() -> None:
    """The library would keep every status message of the past months, and memory would grow."""
    content = Content(body=("⏳",), buttons=((CANCEL,),))
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        ref = await chat.send("100", content)
        await chat.edit(ref, content)
        await fake.person(7).slash("queue")
        await (await handler.called()).respond(content, False)
        assert chat._client is not None
        assert list(chat._client.persistent_views) == []


async def test_a_crowd_is_answered_at_once() -> None:
    """Calls would wait for each other, and the last ones would miss Discord's three seconds."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        calls = [await fake.person(number).slash("queue") for number in range(1, 101)]
        await handler.called(100)
        await asyncio.gather(*(each.respond(says(each.user), True) for each in handler.calls))
        for call in calls:
            assert call.answer is not None
            assert call.answer.shown == f"discord:{call.person_id}"
            assert call.answer.seen_only_by == call.person_id


# ---------------------------------------------------------------- messages


async def test_an_edit_makes_a_message_show_this_and_nothing_else() -> None:
    """Old buttons or files would stay under a result, or the image would be missing."""
    async with FakeDiscord() as fake, running(fake, RecordingHandler()) as chat:
        ref = await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        await chat.edit(ref, Content(body=("cat",), files=(IMAGE, IMAGE)))
        [message] = fake.channel().messages
        assert message.buttons == []
        assert [file.data for file in message.files] == [IMAGE.data] * 2
        await chat.edit(ref, Content(body=("cat",), files=(IMAGE,)))
        await chat.edit(ref, Content(body=("cat",), files=(IMAGE,)))
        assert [file.data for file in message.files] == [IMAGE.data]
        await chat.edit(ref, says("gone"))
        assert (message.shown, message.files) == ("gone", [])


async def test_only_the_mentioned_person_is_notified() -> None:
    """A prompt or an answer would notify everyone, or the ping would notify no one."""
    bait = "@everyone <@8> <@&9> @here"
    async with FakeDiscord() as fake, running(fake, RecordingHandler()) as chat:
        await chat.send("100", Content(body=(bait, Markdown(bait))))
        await chat.send("100", Content(body=(bait, Markdown(bait)), mention="7"))
        quiet, ping = fake.channel().messages
        assert quiet.notified == frozenset()
        assert ping.notified == {"7"}
        assert ping.shown.startswith("<@7> @everyone")


async def test_a_reply_quotes_without_notifying_and_survives_a_deleted_message() -> None:
    """A ping would fail because the message it replies to is gone."""
    async with FakeDiscord() as fake, running(fake, RecordingHandler()) as chat:
        status = await chat.send("100", says("image"))
        await chat.send("100", says("ready ↑"), reply_to=status)
        assert fake.channel().messages[-1].reply_to == int(status.message)
        await chat.delete(status)
        await chat.delete(status)
        await chat.send("100", says("ready ↑"), reply_to=status)
        assert [each.shown for each in fake.channel().messages] == ["ready ↑", "ready ↑"]


async def test_a_moment_is_a_live_countdown() -> None:
    """Waiting times would not change between edits."""
    async with FakeDiscord() as fake, running(fake, RecordingHandler()) as chat:
        await chat.send("100", Content(body=("ready ", Moment(1_800_000_000.7))))
        assert fake.channel().messages[0].content == "ready <t:1800000000:R>"


async def test_links_are_never_unfolded() -> None:
    """Because of an address in a prompt or an answer, Discord would fetch and show a page."""
    async with FakeDiscord() as fake, running(fake, RecordingHandler()) as chat:
        await chat.send("100", says("see https://example.org/a_b"))
        [message] = fake.channel().messages
        assert message.flags & 4
        assert "https://example.org/a_b" in message.content


# ---------------------------------------------------------------- connection


async def test_check_says_as_whom_without_opening_the_gateway() -> None:
    """`usher check` could not distinguish a good token from a bad one."""
    async with FakeDiscord() as fake:
        said = await Discord(fake.token).check()
        with pytest.raises(ChatRefused):
            await Discord("wrong").check()
        fake.rest.endpoint_url = "https://example.org/interactions"
        with pytest.raises(ChatRefused, match="endpoint"):
            await Discord(fake.token).check()
        assert fake.gateway.identified == []
    assert said == "logged in as usher, in 1 server"


async def test_a_wrong_token_ends_the_platform_with_a_clear_error() -> None:
    """A wrong token would be tried forever, until Discord blocks the address."""
    async with FakeDiscord() as fake:
        with pytest.raises(ChatRefused, match="token"):
            await Discord("wrong").run(RecordingHandler())
        assert fake.gateway.identified == []


async def test_no_privileged_intent_is_asked_for() -> None:
    """The bot would need a switch in the portal, and read messages that it does not need."""
    async with FakeDiscord() as fake, running(fake, RecordingHandler()):
        assert [each["intents"] for each in fake.gateway.identified] == [1 | 1 << 9 | 1 << 12]


async def test_a_lost_connection_is_resumed() -> None:
    """After Discord closes the socket, commands would never arrive again."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.gateway.disconnect()
        await fake.wait_for(lambda: fake.gateway.resumed)
        await fake.person(7).slash("queue")
        call = await handler.called()
        await call.respond(says("ok"), True)


async def test_the_token_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """Any reader of a debug log could take over the bot."""
    caplog.set_level("DEBUG")
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await fake.person(7).slash("queue")
        await (await handler.called()).respond(says("ok"), False)
        fake.fail("POST", "/channels/*/messages", status=503)
        with pytest.raises(ChatUnavailable):
            await chat.send("100", says("hello"))
        assert caplog.records
        assert fake.token not in caplog.text
        assert fake.token not in repr(chat)
