"""Real discord.py against a fake Discord: commands, answers, buttons, messages, restarts."""

import asyncio
from typing import Any

import pytest

from bot.platforms.base import (
    Button,
    ChatRefused,
    ChatUnavailable,
    Content,
    Markdown,
    MessageRef,
    Moment,
    TooLarge,
)
from bot.platforms.discord import Discord
from queueing.requests import File
from tests.bot.discord_bot import NotesInMemory, NotingDoor, running, says
from tests.fakes.discord import FakeDiscord

PICTURE = File(name="cat.png", mime="image/png", data=b"\x89PNG cat")
CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)
RETRY = Button(command="retry", job_id=12, label="Try again")


# ---------------------------------------------------------------- commands


async def test_a_slash_command_becomes_a_call_with_typed_options() -> None:
    """Broken: a command typed on Discord does not arrive, or with options of a wrong type."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7, "Ada", locale="de")
        sent = await person.slash(
            "image", model="flux", prompt="a cat\nin a hat", steps=20, guidance=3, style="ink"
        )
        call = await door.called()
        await call.respond(says("ok"), True)
    assert call.command == "image"
    assert call.options == {
        "model": "flux",
        "prompt": "a cat\nin a hat",
        "steps": 20,
        "guidance": 3.0,
        "style": "ink",
    }
    assert type(call.options["guidance"]) is float
    assert call.key == f"discord:{sent.id}"
    assert (call.user, call.user_name, call.language) == ("discord:7", "Ada", "de")
    assert (call.chat, call.group, call.button) == ("100", True, False)


async def test_a_flag_with_a_hyphen_keeps_its_name() -> None:
    """Broken: an option such as no-enhance is lost, because Python has no such identifier."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        options: dict[str, Any] = {"prompt": "cat", "no-enhance": True}
        await fake.person(7).slash("image", **options)
        call = await door.called()
        await call.respond(says("ok"), True)
    assert call.options == {"prompt": "cat", "no-enhance": True}


async def test_a_direct_message_is_no_group_and_stays_so_after_a_restart() -> None:
    """Broken: private chats are paced and spoken to like groups."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        person = fake.person(7)
        await person.slash("image", in_channel=person.direct, prompt="cat")
        call = await door.called()
        ref = await call.respond(says("⏳"), False)
        assert ref is not None
        await chat.edit(ref, says("🎨"))
        assert not call.group
        assert [each.shown for each in person.direct.messages] == ["🎨"]
        fresh = Discord(fake.token)
        assert (fresh.is_group(call.chat), fresh.is_group("100")) == (False, True)


async def test_roles_arrive_as_ids() -> None:
    """Broken: permissions by role do not work on Discord."""
    door = NotingDoor()
    async with FakeDiscord() as fake:
        person = fake.person(7)
        person.roles = [501, 502]
        async with running(fake, door):
            await person.slash("queue")
            call = await door.called()
            await call.respond(says("ok"), True)
    assert {"501", "502"} <= call.roles


async def test_an_attached_picture_is_downloaded_when_it_is_read() -> None:
    """Broken: a person's picture does not reach the model, or its type is wrong."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7)
        sent = person.file("cat.webp", b"webp bytes", "image/webp")
        await person.slash("image", prompt="like this", picture=sent)
        call = await door.called()
        await call.respond(says("ok"), True)
        [file] = call.files
        assert (file.name, file.mime, file.size) == ("cat.webp", "image/webp", 10)
        assert await file.read() == b"webp bytes"
        assert "picture" not in call.options


async def test_an_attachment_larger_than_it_said_is_not_taken_into_memory() -> None:
    """Broken: a huge file fills the memory, whatever size was announced."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7)
        sent = person.file("cat.png", b"small")
        await person.slash("image", prompt="like this", picture=sent)
        call = await door.called()
        await call.respond(says("ok"), True)
        sent.data = b"x" * (Discord.limits.download + 1)
        with pytest.raises(TooLarge):
            await call.files[0].read()


async def test_an_attachment_is_fetched_from_its_own_address_only() -> None:
    """Broken: a redirect makes the bot fetch addresses inside its operator's network."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7)
        elsewhere = person.file("secret.txt", b"secret")
        sent = person.file("cat.png", b"cat")
        sent.moved_to = f"{fake.url}/attachments/{elsewhere.id}/secret.txt"
        await person.slash("image", prompt="like this", picture=sent)
        call = await door.called()
        await call.respond(says("ok"), True)
        with pytest.raises(ChatUnavailable):
            await call.files[0].read()


async def test_an_attachment_whose_address_expired_is_an_error_of_the_chat() -> None:
    """Broken: a dead link crashes a command instead of being said."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7)
        sent = person.file("cat.png", b"small")
        await person.slash("image", prompt="like this", picture=sent)
        call = await door.called()
        await call.respond(says("ok"), True)
        fake.forget_file(sent)
        with pytest.raises(ChatUnavailable):
            await call.files[0].read()


async def test_names_are_completed_while_typing() -> None:
    """Broken: model names are not offered, or more than Discord takes."""
    door = NotingDoor(models=[f"model-{number:02d}" for number in range(40)] + ["m" * 101])
    async with FakeDiscord() as fake, running(fake, door):
        offered = await fake.person(7).complete("image", "model", "model")
        assert offered == [f"model-{number:02d}" for number in range(25)]
        assert await fake.person(7).complete("preload", "host", "zzz") == []


async def test_commands_are_registered_with_ranges_choices_and_help() -> None:
    """Broken: Discord's menu lacks options, bounds, help or the hint at admins."""

    def describe(key: str, language: str) -> str:
        return f"{key} auf Deutsch" if language == "de" else f"{key} in English"

    async with FakeDiscord() as fake:
        chat = Discord(fake.token, describe=describe)
        async with running(fake, NotingDoor(), chat):
            commands = {each["name"]: each for each in fake.rest.commands}
    assert set(commands) == {"image", "cancel", "queue", "preload"}  # no hidden ones
    image = commands["image"]
    options = {each["name"]: each for each in image["options"]}
    assert image["options"][0]["name"] == "prompt"  # required ones first
    assert (options["steps"]["min_value"], options["steps"]["max_value"]) == (1, 50)
    assert options["seed"]["max_value"] == 2**53 - 1
    assert [each["value"] for each in options["style"]["choices"]] == ["oil", "ink"]
    assert image["description"] == "help.image in English"
    assert image["description_localizations"] == {"de": "help.image auf Deutsch"}
    assert options["model"]["description_localizations"] == {"de": "param.model auf Deutsch"}
    assert (image["contexts"], image["integration_types"]) == ([0, 1], [0])
    assert commands["preload"]["default_member_permissions"] == "32"
    assert image["default_member_permissions"] is None


async def test_unchanged_commands_are_registered_once() -> None:
    """Broken: every restart spends some of the 200 registrations Discord allows in a day."""
    notes = NotesInMemory()
    async with FakeDiscord() as fake:
        for _start in range(2):
            async with running(fake, NotingDoor(), Discord(fake.token, notes=notes)):
                pass
        assert fake.rest.syncs == 1
        fewer = NotingDoor(commands=NotingDoor().commands[:2])
        async with running(fake, fewer, Discord(fake.token, notes=notes)):
            assert [each["name"] for each in fake.rest.commands] == ["image", "cancel"]
        assert fake.rest.syncs == 2


async def test_a_command_from_an_old_menu_is_refused_in_words() -> None:
    """Broken: after an update people get "the application did not respond" without a reason."""
    door = NotingDoor(commands=NotingDoor().commands[:1])
    async with FakeDiscord() as fake, running(fake, door):
        fake.rest.commands.append({"id": "9", "name": "draw", "options": []})
        await fake.person(7).slash("draw")
        call = await door.called()
        await call.respond(says("There is no command /draw."), True)
        assert call.command == "draw"


async def test_typing_into_an_old_menu_is_no_call() -> None:
    """Broken: a half-typed option of a command that is gone is carried out."""
    door = NotingDoor(commands=NotingDoor().commands[:1])
    async with FakeDiscord() as fake, running(fake, door):
        option = {"name": "what", "type": 3, "autocomplete": True}
        fake.rest.commands.append({"id": "9", "name": "draw", "options": [option]})
        await fake.person(7).start_typing("draw", "what", "x")
        assert await fake.person(7).complete("image", "model", "fl") == ["flux"]
        assert door.calls == []


# ---------------------------------------------------------------- answers


async def test_the_first_answer_is_a_message_that_the_bot_edits_by_its_own_token() -> None:
    """Broken: a status message cannot be edited once the interaction's fifteen minutes are over."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        await fake.person(7).slash("image", prompt="cat")
        call = await door.called()
        ref = await call.respond(says("⏳ #3 in line"), False)
        assert ref is not None
        fake.later(2000)
        await chat.edit(ref, says("🎨 drawing"))
        [message] = fake.channel().messages
        assert message.history == ["⏳ #3 in line", "🎨 drawing"]
        assert (message.edited_by_bot, message.edited_by_token) == (1, 0)
        assert ref == MessageRef(platform="discord", chat="100", message=str(message.id))


async def test_a_private_answer_is_seen_by_the_caller_alone() -> None:
    """Broken: a refusal meant for one person is read by everybody."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        person = fake.person(7)
        await person.slash("queue")
        call = await door.called()
        assert await call.respond(says("You have no open job."), True) is None
        assert fake.channel().messages == []
        assert [each.shown for each in person.sees()] == ["You have no open job."]
        assert fake.person(8).sees() == []


async def test_an_answer_with_files_confirms_first_because_uploads_take_time() -> None:
    """Broken: a picture sent over a slow line misses Discord's three seconds and is lost."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        call_sent = await fake.person(7).slash("queue")
        call = await door.called()
        ref = await call.respond(Content(body=("here",), files=(PICTURE,)), False)
        assert call_sent.response_type == 5
        [message] = fake.channel().messages
        assert ref is not None
        assert ref.message == str(message.id)
        assert (message.shown, [file.data for file in message.files]) == ("here", [PICTURE.data])


# ---------------------------------------------------------------- buttons


async def test_a_button_of_before_a_restart_still_works() -> None:
    """Broken: buttons on old messages say "This interaction failed" after a restart."""
    async with FakeDiscord() as fake:
        async with running(fake, NotingDoor()) as chat:
            ref = await chat.send("100", Content(body=("⏳",), buttons=((CANCEL, RETRY),)))
        door = NotingDoor()
        async with running(fake, door):
            message = fake.message(ref.message)
            assert message is not None
            assert [(each.label, each.danger) for each in message.buttons] == [
                ("Cancel", True),
                ("Try again", False),
            ]
            press = await fake.person(8).click(message, "Cancel")
            call = await door.called()
            await fake.wait_for(lambda: press.response_type)
    assert (call.command, dict(call.options), call.button) == ("cancel", {"id": 12}, True)
    assert call.user == "discord:8"
    assert call.replied_to == ref


async def test_a_button_without_an_answer_is_confirmed_silently() -> None:
    """Broken: a pressed button keeps spinning and ends in "This interaction failed"."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        press = await fake.person(7).click(message, "Cancel")
        await fake.wait_for(lambda: press.response_type)
        assert press.response_type == 6
        assert [each.shown for each in fake.channel().messages] == ["⏳"]


async def test_a_button_is_answered_in_private_even_after_it_was_confirmed() -> None:
    """Broken: "only the owner may press this" replaces the message for everybody, or is lost."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        stranger = fake.person(8)
        press = await stranger.click(message, "Cancel")
        call = await door.called()
        await fake.wait_for(lambda: press.response_type)
        assert await call.respond(says("Only the owner can do that."), True) is None
        assert [each.shown for each in fake.channel().messages] == ["⏳"]
        assert [each.shown for each in stranger.sees()] == ["⏳", "Only the owner can do that."]


async def test_a_button_of_another_age_is_confirmed_and_forgotten() -> None:
    """Broken: an id this version does not know crashes a handler or reaches a command."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        [message] = fake.channel().messages
        press = await fake.person(7).press(message, "job:12:cancel; drop table jobs")
        await fake.wait_for(lambda: press.response_type)
        assert press.response_type == 6
        assert door.calls == []


async def test_messages_with_buttons_leave_nothing_in_memory() -> None:
    """Broken: every status message of the past months is kept by the library, and memory grows."""
    content = Content(body=("⏳",), buttons=((CANCEL,),))
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        ref = await chat.send("100", content)
        await chat.edit(ref, content)
        await fake.person(7).slash("queue")
        await (await door.called()).respond(content, False)
        assert chat._client is not None
        assert list(chat._client.persistent_views) == []


async def test_a_crowd_is_answered_at_once() -> None:
    """Broken: calls wait for each other, and the last ones miss Discord's three seconds."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        calls = [await fake.person(number).slash("queue") for number in range(1, 101)]
        await door.called(100)
        await asyncio.gather(*(each.respond(says(each.user), True) for each in door.calls))
        for call in calls:
            assert call.answer is not None
            assert call.answer.shown == f"discord:{call.person_id}"
            assert call.answer.seen_only_by == call.person_id


# ---------------------------------------------------------------- messages


async def test_an_edit_makes_a_message_show_this_and_nothing_else() -> None:
    """Broken: old buttons or files stay under a result, or the picture is missing."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        ref = await chat.send("100", Content(body=("⏳",), buttons=((CANCEL,),)))
        await chat.edit(ref, Content(body=("cat",), files=(PICTURE, PICTURE)))
        [message] = fake.channel().messages
        assert message.buttons == []
        assert [file.data for file in message.files] == [PICTURE.data] * 2
        await chat.edit(ref, Content(body=("cat",), files=(PICTURE,)))
        await chat.edit(ref, Content(body=("cat",), files=(PICTURE,)))
        assert [file.data for file in message.files] == [PICTURE.data]
        await chat.edit(ref, says("gone"))
        assert (message.shown, message.files) == ("gone", [])


async def test_the_same_nonce_posts_once() -> None:
    """Broken: a result sent again after a crash shows twice."""
    nonce = "a nonce that is far longer than Discord takes"
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        first = await chat.send("100", says("result"), nonce=nonce)
        again = await chat.send("100", says("result"), nonce=nonce)
        other = await chat.send("100", says("result"), nonce=nonce + "!")
        assert first == again != other
        assert len(fake.channel().messages) == 2


async def test_only_the_mentioned_person_is_notified() -> None:
    """Broken: a prompt or an answer notifies everybody, or the ping notifies nobody."""
    bait = "@everyone <@8> <@&9> @here"
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        await chat.send("100", Content(body=(bait, Markdown(bait))))
        await chat.send("100", Content(body=(bait, Markdown(bait)), mention="7"))
        quiet, ping = fake.channel().messages
        assert quiet.notified == frozenset()
        assert ping.notified == {"7"}
        assert ping.shown.startswith("<@7> @everyone")


async def test_a_reply_quotes_without_notifying_and_survives_a_deleted_message() -> None:
    """Broken: a ping fails because the message it replies to is gone."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        status = await chat.send("100", says("picture"))
        await chat.send("100", says("ready ↑"), reply_to=status)
        assert fake.channel().messages[-1].reply_to == int(status.message)
        await chat.delete(status)
        await chat.delete(status)
        await chat.send("100", says("ready ↑"), reply_to=status)
        assert [each.shown for each in fake.channel().messages] == ["ready ↑", "ready ↑"]


async def test_a_moment_is_a_live_countdown() -> None:
    """Broken: waiting times stand still between edits."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        await chat.send("100", Content(body=("ready ", Moment(1_800_000_000.7))))
        assert fake.channel().messages[0].content == "ready <t:1800000000:R>"


async def test_links_are_never_unfolded() -> None:
    """Broken: an address in a prompt or an answer makes Discord fetch and show a page."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        await chat.send("100", says("see https://example.org/a_b"))
        [message] = fake.channel().messages
        assert message.flags & 4
        assert "https://example.org/a_b" in message.content


async def test_the_age_of_a_message_is_read_from_its_id() -> None:
    """Broken: messages over an hour old are edited as freely as new ones."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()) as chat:
        sent_at = fake.now()
        ref = await chat.send("100", says("⏳"))
        age_s = chat.age_of(ref, sent_at + 4000)
        assert age_s is not None
        assert abs(age_s - 4000) < 10


# ---------------------------------------------------------------- connection


async def test_check_says_as_whom_without_opening_the_gateway() -> None:
    """Broken: `usher check` cannot tell a good token from a bad one."""
    async with FakeDiscord() as fake:
        said = await Discord(fake.token).check()
        with pytest.raises(ChatRefused):
            await Discord("wrong").check()
        fake.rest.endpoint_url = "https://example.org/interactions"
        with pytest.raises(ChatRefused, match="endpoint"):
            await Discord(fake.token).check()
        assert fake.gateway.identified == []
    assert said == "logged in as usher, in 1 servers"


async def test_a_wrong_token_ends_the_platform_with_a_clear_error() -> None:
    """Broken: a wrong token is tried for ever, until Discord blocks the address."""
    async with FakeDiscord() as fake:
        with pytest.raises(ChatRefused, match="token"):
            await Discord("wrong").run(NotingDoor())
        assert fake.gateway.identified == []


async def test_no_privileged_intent_is_asked_for() -> None:
    """Broken: the bot needs a switch in the portal, and reads messages it has no need of."""
    async with FakeDiscord() as fake, running(fake, NotingDoor()):
        assert [each["intents"] for each in fake.gateway.identified] == [1 | 1 << 9 | 1 << 12]


async def test_a_lost_connection_is_resumed() -> None:
    """Broken: after Discord closes the socket, commands never arrive again."""
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door):
        await fake.gateway.disconnect()
        await fake.wait_for(lambda: fake.gateway.resumed)
        await fake.person(7).slash("queue")
        call = await door.called()
        await call.respond(says("ok"), True)


async def test_nothing_is_sent_while_the_bot_is_not_up() -> None:
    """Broken: a send before the start or after the stop is lost without an error."""
    async with FakeDiscord() as fake:
        chat = Discord(fake.token)
        with pytest.raises(ChatUnavailable) as failure:
            await chat.send("100", says("hello"))
        assert not failure.value.unclear
        async with running(fake, NotingDoor(), chat):
            ref = await chat.send("100", says("hello"))
        with pytest.raises(ChatUnavailable):
            await chat.edit(ref, says("bye"))


async def test_the_token_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """Broken: whoever reads a debug log owns the bot."""
    caplog.set_level("DEBUG")
    door = NotingDoor()
    async with FakeDiscord() as fake, running(fake, door) as chat:
        await fake.person(7).slash("queue")
        await (await door.called()).respond(says("ok"), False)
        fake.fail("POST", "/channels/*/messages", status=503)
        with pytest.raises(ChatUnavailable):
            await chat.send("100", says("hello"))
        assert caplog.records
        assert fake.token not in caplog.text
        assert fake.token not in repr(chat)
