"""Real python-telegram-bot with a fake Bot API: what people write, send and press comes in."""

import asyncio

import pytest

from bot.core.content import Button, Content
from bot.core.errors import ChatGone, TooLarge
from bot.core.platform import Invocation, MessageRef
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.telegram.telegram_bot import image, running
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import FakeFile

CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)
WAITING = Content(body=("⏳",), buttons=((CANCEL,),))


# ---------------------------------------------------------------- calls


async def test_a_command_reaches_the_handler_as_it_was_typed() -> None:
    """No command would work on Telegram."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        asked = fake.person(7, "Ada", language="de").says("/image=flux=a cat")
        call = await handler.called()
    assert (call.command, call.text) == ("image", "flux a cat")
    assert (call.user, call.user_name, call.language) == ("telegram:7", "Ada", "de")
    assert (call.chat, call.group, call.button) == ("7", False, False)
    assert call.request == MessageRef(platform="telegram", chat="7", message=str(asked.id))
    assert call.key == f"telegram:7:{asked.id}"


async def test_only_what_is_meant_for_us_is_a_call() -> None:
    """The bot would answer other bots' commands, or everything people say to each other."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person, group = fake.person(7), fake.group()
        person.says("hello")
        person.says("/image@another_bot cat", chat=group)
        person.says("/unheard_of", chat=group)
        person.says("nice!", chat=group, reply_to=person.says("look", chat=group))
        person.says("/image@usher_test_bot one", chat=group)
        person.says("/unheard_of@usher_test_bot", chat=group)
        person.says("/unheard_of")
        person.says("/start from_a_link")
        person.says("one person to another", chat=group)
        await handler.called(5)
        await fake.quiet()
    calls = {(call.command, call.text, call.group) for call in handler.calls}
    assert calls == {
        ("ask", "hello", False),
        ("image", "one", True),
        ("unheard_of", "", True),
        ("unheard_of", "", False),
        ("help", "", False),
    }


async def test_an_image_alone_is_a_call_in_a_private_chat() -> None:
    """A person who just sends an image would get no answer, or a group's images would be read."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person = fake.person(7)
        person.says("", photo=image(kind="JPEG").data, chat=fake.group())
        person.says("", photo=image(kind="JPEG").data)
        call = await handler.called()
        await fake.quiet()
    assert [each.command for each in handler.calls] == ["ask"]
    assert (call.text, len(call.files)) == ("", 1)


async def test_an_edited_message_is_not_a_second_job() -> None:
    """Correcting a typo would queue the image again."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        message = fake.person(7).says("/image flux cta")
        await handler.called()
        fake.person(7).edits(message, "/image flux cat")
        fake.person(7).says("/queue")
        await handler.called(2)
        assert [call.command for call in handler.calls] == ["image", "queue"]


async def test_a_reply_to_our_text_goes_on_talking() -> None:
    """A conversation could not be continued, or a "thanks" for an image in a group start one."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        person, group = fake.person(7), fake.group()
        ref = await chat.send("-1001", says("because"))
        await chat.send("-1001", Content(files=(image(),)))
        answer, shown = group.from_bot
        person.says("and why?", chat=group, reply_to=answer)
        call = await handler.called()
        person.says("lovely", chat=group, reply_to=shown)
        remark = await handler.called(2)
    assert (call.command, call.text, call.replied_to) == ("ask", "and why?", ref)
    assert (call.to_words, remark.to_words) == (False, True)


async def test_the_words_replied_to_come_along() -> None:
    """A command in reply to a person's message would not know what it is about."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        group = fake.group()
        said = fake.person(8).says("The moon is made of cheese.", chat=group)
        fake.person(7).says("/image as it is said", chat=group, reply_to=said)
        call = await handler.called()
    assert (call.text, call.quoted) == ("as it is said", "The moon is made of cheese.")
    assert call.quoted_by == "Person8"
    assert call.replied_to is None


async def test_our_name_in_a_group_asks_a_question() -> None:
    """People who address the bot as they address each other would get no answer."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        group = fake.group()
        said = fake.person(8).says("The moon is made of cheese.", chat=group)
        fake.person(7).says("@usher_test_bot is that true?", chat=group, reply_to=said)
        call = await handler.called()
    assert (call.command, call.text, call.group) == ("ask", "is that true?", True)
    assert (call.quoted, call.quoted_by) == ("The moon is made of cheese.", "Person8")


async def test_a_question_to_a_person_opens_their_keyboard() -> None:
    """People would not see that the bot waits for a reply, or everyone's keyboard would open."""
    asks = Content(body=("What shall I change?",), awaits=True, mention="7")
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        for place in ("7", "-1001"):
            fake.group()
            await chat.send(place, asks)
        sent = [each.values for each in fake.api.requests if each.method == "sendMessage"]
        assert [each["reply_markup"]["selective"] for each in sent] == [False, True]
        assert fake.person(7).chat.from_bot[0].awaits
        assert fake.group().from_bot[0].notified == ["7"]


async def test_images_are_hidden_where_that_is_wished() -> None:
    """A chat that hides images would show some to everyone."""
    hidden = Content(body=("look",), files=(image(),), spoiler=True)
    album = Content(body=("look",), files=(image(), image()), spoiler=True)
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        group = fake.group()
        await chat.edit(await chat.send("-1001", WAITING), hidden)
        await chat.send("-1001", hidden)
        await chat.send("-1001", album)
        await chat.send(
            "-1001", Content(body=("x",), files=album.files, buttons=((CANCEL,),), spoiler=True)
        )
        images = [each for each in group.from_bot if each.file]
        assert [each.spoiler for each in images] == [True] * 6


async def test_a_command_that_replies_names_our_message_and_nobody_elses() -> None:
    """Words such as "cancel this" would not know the job, or act on another person's."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        person = fake.person(7)
        ref = await chat.send("7", says("result"))
        person.says("/cancel", reply_to=person.chat.from_bot[0])
        person.says("/cancel", reply_to=person.says("mine"))
        await handler.called(3)
    cancels = [call for call in handler.calls if call.command == "cancel"]
    assert [call.replied_to for call in cancels] == [ref, None]


async def test_a_topic_is_answered_in_the_topic() -> None:
    """An answer would appear in another topic, or Telegram would refuse it in the general one."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        forum = fake.group(-1002, forum=True)
        for thread in (55, 1, None):
            fake.person(7).says("/queue", chat=forum, thread=thread)
            call = await handler.called(len(handler.calls) + 1)
            ref = await call.respond(WAITING, False)
            assert ref is not None
            await chat.edit(ref, says("ok"))
        assert [call.chat for call in handler.calls] == ["-1002/55", "-1002", "-1002"]
        assert [each.thread for each in forum.from_bot] == [55, None, None]
        assert chat.is_group("-1002/55")
        assert not chat.is_group("7/55")


async def test_who_writes_for_a_group_has_nobodys_rights() -> None:
    """Anonymous admins of all groups would act as the same person, perhaps as the bot's admin."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        fake.person(7).says("/preload flux", chat=fake.group(-1001), anonymous=True)
        fake.person(7).says("/preload flux", chat=fake.group(-1002), anonymous=True)
        await handler.called(2)
    users = {call.user for call in handler.calls}
    assert users == {"telegram:anonymous-1001", "telegram:anonymous-1002"}


async def test_rights_in_a_group_can_be_asked_for_again() -> None:
    """The programs of a person who left a group would keep what its members may use."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        group = fake.group(-1001)
        fake.person(7).says("hello", chat=group)
        group.admins = (8,)
        assert chat.limits.rights_in is not None
        member, admin = "telegram:group-members@-1001", "telegram:group-admins@-1001"
        assert await chat.limits.rights_in("telegram:7", "-1001") == {member}
        assert await chat.limits.rights_in("telegram:8", "-1001") == {member, admin}
        group.left = frozenset({7})
        assert await chat.limits.rights_in("telegram:7", "-1001") == frozenset()
        fake.kick(group)
        with pytest.raises(ChatGone):
            await chat.limits.rights_in("telegram:8", "-1001")


async def test_a_crowd_is_served_at_the_same_time_and_each_person_in_order() -> None:
    """One person's slow upload would hold up everyone, or two requests would change places."""
    held = asyncio.Event()

    accepted = []

    async def slow(call: Invocation) -> None:
        if call.text == "slow":
            await held.wait()
        if call.arrival is not None:
            await call.arrival.turn()
        accepted.append(call.text)

    handler = RecordingHandler(then=slow)
    async with FakeTelegram() as fake, running(fake, handler):
        fake.person(7).says("/image slow")
        fake.person(7).says("/image after it")
        for number in range(8, 30):
            fake.person(number).says("/queue")
        await handler.called(24)
        fake.person(30).says("/queue")
        await handler.called(25)
        assert not any(accepted)
        held.set()
        await fake.quiet()
        assert [text for text in accepted if text] == ["slow", "after it"]


# ---------------------------------------------------------------- files


async def test_a_photo_is_offered_in_its_largest_size() -> None:
    """An image to start from would be a thumbnail, or could not be fetched."""
    handler = RecordingHandler()
    sent = image(40, 30, "JPEG")
    async with FakeTelegram() as fake, running(fake, handler):
        fake.person(7).says("/image oil painting", photo=sent.data)
        call = await handler.called()
        [file] = call.files
        assert (call.command, call.text) == ("image", "oil painting")
        assert (file.mime, file.size) == ("image/jpeg", len(sent.data))
        assert await file.read() == sent.data


async def test_an_image_sent_as_a_document_or_replied_to_counts_too() -> None:
    """Only photos would work, although people send images as documents to keep them unchanged."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person, data = fake.person(7), image().data
        shot = fake.keep_file(data, name="a.png", mime="image/png", photo=False)
        notes = fake.keep_file(b"words", name="a.txt", mime="text/plain", photo=False)
        message = person.says("", document=shot, chat=fake.group())
        person.says("/image vary", document=shot, chat=fake.group())
        person.says("/image vary", reply_to=message, chat=fake.group())
        person.says("/image vary", document=notes, chat=fake.group())
        await handler.called(3)
        files = [[(each.name, each.mime) for each in call.files] for call in handler.calls]
        assert files == [
            [("a.png", "image/png")],
            [("a.png", "image/png")],
            [("a.txt", "text/plain")],
        ]
        assert await handler.calls[1].files[0].read() == data


async def test_a_file_larger_than_telegram_hands_out_is_refused_unread() -> None:
    """60 MB would be requested in vain, or the person would see an internal error."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        large = FakeFile(
            id="large", name="a.png", data=image().data, mime="image/png", size=60_000_000
        )
        fake.api.files["large"] = large
        fake.person(7).says("/image vary", document=large)
        [file] = (await handler.called()).files
        assert file.size == 60_000_000
        with pytest.raises(TooLarge):
            await file.read()
        assert [each.method for each in fake.api.requests if each.method == "getFile"] == []
