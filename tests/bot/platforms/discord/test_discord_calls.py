"""Real discord.py with a fake Discord: commands come in and are answered in time."""

from functools import partial
from typing import Any

import pytest

from bot.core.content import Content
from bot.core.errors import ChatUnavailable, TooLarge
from bot.core.platform import Invocation, MessageRef
from bot.platforms.discord.platform import Discord
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import NotesInMemory, RecordingHandler, running, says
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_people import Person
from tests.fakes.discord.discord_state import FakeFile

IMAGE = File(name="cat.png", mime="image/png", data=b"\x89PNG cat")


async def called_with(sent: FakeFile, person: Person, handler: RecordingHandler) -> Invocation:
    """Ask for an image like the given one, and return the call, which has been answered."""
    await person.slash("image", prompt="like this", image=sent)
    call = await handler.called()
    await call.respond(says("ok"), True)
    return call


# ---------------------------------------------------------------- commands


async def test_a_slash_command_becomes_a_call_with_typed_options() -> None:
    """A command typed on Discord would not arrive, or with options of a wrong type."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7, "Ada", locale="de")
        sent = await person.slash(
            "image", model="flux", prompt="a cat\nin a hat", steps=20, guidance=3, style="ink"
        )
        call = await handler.called()
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
    """An option such as no-enhance would be lost, because Python has no such identifier."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        options: dict[str, Any] = {"prompt": "cat", "no-enhance": True}
        await fake.person(7).slash("image", **options)
        call = await handler.called()
        await call.respond(says("ok"), True)
    assert call.options == {"prompt": "cat", "no-enhance": True}


async def test_a_direct_message_is_no_group_and_stays_so_after_a_restart() -> None:
    """Private chats would be paced and addressed like groups."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        person = fake.person(7)
        await person.slash("image", in_channel=person.direct, prompt="cat")
        call = await handler.called()
        ref = await call.respond(says("⏳"), False)
        assert ref is not None
        await chat.edit(ref, says("🎨"))
        assert not call.group
        assert [each.shown for each in person.direct.messages] == ["🎨"]
        fresh = Discord(fake.token)
        assert (fresh.is_group(call.chat), fresh.is_group("100")) == (False, True)


async def test_roles_arrive_as_ids() -> None:
    """Permissions by role would not work on Discord."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake:
        person = fake.person(7)
        person.roles = [501, 502]
        async with running(fake, handler) as chat:
            await person.slash("queue")
            call = await handler.called()
            await call.respond(says("ok"), True)
            assert chat.limits.rights_in is not None
            asked = partial(chat.limits.rights_in, "discord:7")
            assert await asked(call.places[-1]) == call.rights
            person.roles = [501]
            assert await asked(call.places[-1]) == call.rights - {"discord-role:502"}
            del fake.rest.members[7]
            assert await asked(call.places[-1]) == frozenset()
    assert {"discord-role:501", "discord-role:502"} <= call.rights


async def test_an_attached_image_is_downloaded_when_it_is_read() -> None:
    """A person's image would not reach the model, or its type would be wrong."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        sent = person.file("cat.webp", b"webp bytes", "image/webp")
        call = await called_with(sent, person, handler)
        [file] = call.files
        assert (file.name, file.mime, file.size) == ("cat.webp", "image/webp", 10)
        assert await file.read() == b"webp bytes"
        assert "image" not in call.options


async def test_an_attachment_larger_than_it_said_is_not_taken_into_memory() -> None:
    """A huge file would fill the memory, whatever size was announced."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        sent = person.file("cat.png", b"small")
        call = await called_with(sent, person, handler)
        sent.data = b"x" * (Discord.limits.download + 1)
        with pytest.raises(TooLarge):
            await call.files[0].read()


async def test_an_attachment_is_fetched_from_its_own_address_only() -> None:
    """A redirect would make the bot fetch addresses inside its operator's network."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        elsewhere = person.file("secret.txt", b"secret")
        sent = person.file("cat.png", b"cat")
        sent.moved_to = f"{fake.url}/attachments/{elsewhere.id}/secret.txt"
        call = await called_with(sent, person, handler)
        with pytest.raises(ChatUnavailable):
            await call.files[0].read()


async def test_an_attachment_whose_address_expired_is_an_error_of_the_chat() -> None:
    """A dead link would crash a command instead of being reported."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        sent = person.file("cat.png", b"small")
        call = await called_with(sent, person, handler)
        fake.forget_file(sent)
        with pytest.raises(ChatUnavailable):
            await call.files[0].read()


async def test_names_are_completed_while_typing() -> None:
    """Model names would not be offered, or more than Discord accepts."""
    handler = RecordingHandler(models=[f"model-{number:02d}" for number in range(40)] + ["m" * 101])
    async with FakeDiscord() as fake, running(fake, handler):
        offered = await fake.person(7).complete("image", "model", "model")
        assert offered == [f"model-{number:02d}" for number in range(25)]
        assert await fake.person(7).complete("preload", "host", "zzz") == []


async def test_commands_are_registered_with_ranges_choices_and_help() -> None:
    """Discord's menu would lack options, limits, help or the hint for admins."""

    def describe(key: str, language: str) -> str:
        if key.startswith("called."):
            return f"{key.removeprefix('called.')}-ä" if language == "de" else key
        return f"{key} auf Deutsch" if language == "de" else f"{key} in English"

    async with FakeDiscord() as fake:
        chat = Discord(fake.token, describe=describe)
        async with running(fake, RecordingHandler(), chat):
            commands = {each["name"]: each for each in fake.rest.commands}
    assert set(commands) == {"image", "cancel", "queue", "preload"}  # no hidden ones
    image = commands["image"]
    options = {each["name"]: each for each in image["options"]}
    assert image["options"][0]["name"] == "prompt"  # required ones first
    assert (options["steps"]["min_value"], options["steps"]["max_value"]) == (1, 50)
    assert options["seed"]["max_value"] == 2**53 - 1
    assert [each["value"] for each in options["style"]["choices"]] == ["oil", "ink"]
    assert image["name_localizations"] == {"de": "image-ä"}
    assert not commands["preload"]["name_localizations"]  # admins type the same everywhere
    assert image["description"] == "help.image in English"
    assert image["description_localizations"] == {"de": "help.image auf Deutsch"}
    assert options["model"]["description_localizations"] == {"de": "param.model auf Deutsch"}
    assert (image["contexts"], image["integration_types"]) == ([0, 1], [0])
    assert commands["preload"]["default_member_permissions"] == "32"
    assert image["default_member_permissions"] is None


async def test_unchanged_commands_are_registered_once() -> None:
    """Every restart would use some of the 200 registrations that Discord allows in a day."""
    notes = NotesInMemory()
    async with FakeDiscord() as fake:
        for _start in range(2):
            async with running(fake, RecordingHandler(), Discord(fake.token, notes=notes)):
                pass
        assert fake.rest.syncs == 1
        fewer = RecordingHandler(commands=RecordingHandler().commands[:2])
        async with running(fake, fewer, Discord(fake.token, notes=notes)):
            assert [each["name"] for each in fake.rest.commands] == ["image", "cancel"]
        assert fake.rest.syncs == 2


async def test_a_command_from_an_old_menu_is_refused_in_words() -> None:
    """After an update people would read "the application did not respond" without a reason."""
    handler = RecordingHandler(commands=RecordingHandler().commands[:1])
    async with FakeDiscord() as fake, running(fake, handler):
        fake.rest.commands.append({"id": "9", "name": "draw", "options": []})
        await fake.person(7).slash("draw")
        call = await handler.called()
        await call.respond(says("There is no command /draw."), True)
        assert call.command == "draw"


async def test_typing_into_an_old_menu_is_no_call() -> None:
    """A half-typed option of a removed command would be carried out."""
    handler = RecordingHandler(commands=RecordingHandler().commands[:1])
    async with FakeDiscord() as fake, running(fake, handler):
        option = {"name": "what", "type": 3, "autocomplete": True}
        fake.rest.commands.append({"id": "9", "name": "draw", "options": [option]})
        await fake.person(7).start_typing("draw", "what", "x")
        assert await fake.person(7).complete("image", "model", "fl") == ["flux"]
        assert handler.calls == []


# ---------------------------------------------------------------- answers


async def test_the_first_answer_is_a_message_that_the_bot_edits_by_its_own_token() -> None:
    """A status message could not be edited once the interaction's fifteen minutes are over."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler) as chat:
        await fake.person(7).slash("image", prompt="cat")
        call = await handler.called()
        ref = await call.respond(says("⏳ #3 in line"), False)
        assert ref is not None
        fake.later(2000)
        await chat.edit(ref, says("🎨 drawing"))
        [message] = fake.channel().messages
        assert message.history == ["⏳ #3 in line", "🎨 drawing"]
        assert (message.edited_by_bot, message.edited_by_token) == (1, 0)
        assert ref == MessageRef(platform="discord", chat="100", message=str(message.id))


async def test_a_private_answer_is_seen_by_the_caller_alone() -> None:
    """A refusal meant for one person would be read by everyone."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        await person.slash("queue")
        call = await handler.called()
        assert await call.respond(says("You have no open job."), True) is None
        assert fake.channel().messages == []
        assert [each.shown for each in person.sees()] == ["You have no open job."]
        assert fake.person(8).sees() == []


async def test_an_answer_with_files_confirms_first_because_uploads_take_time() -> None:
    """An image sent over a slow connection would miss Discord's three seconds and be lost."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        call_sent = await fake.person(7).slash("queue")
        call = await handler.called()
        ref = await call.respond(Content(body=("here",), files=(IMAGE,)), False)
        assert call_sent.response_type == 5
        [message] = fake.channel().messages
        assert ref is not None
        assert ref.message == str(message.id)
        assert (message.shown, [file.data for file in message.files]) == ("here", [IMAGE.data])
