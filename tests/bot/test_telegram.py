"""Real python-telegram-bot against a fake Bot API: calls come in, messages go out and change."""

from bot.platforms.base import Button, Content, Invocation, Markdown, Moment
from tests.bot.discord_bot import NotingDoor, says
from tests.bot.telegram_bot import picture, running
from tests.fakes.telegram import FakeTelegram

CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)


async def called_by(text: str) -> Invocation:
    door = NotingDoor()
    async with FakeTelegram() as fake, running(fake, door):
        fake.person(7, "Ada", language="de").says(text)
        return await door.called()


async def test_a_command_reaches_the_door_as_it_was_typed() -> None:
    """Broken: the main job does not start on Telegram."""
    call = await called_by("/image flux a cat")
    assert (call.command, call.text) == ("image", "flux a cat")
    assert (call.user, call.user_name, call.language) == ("telegram:7", "Ada", "de")
    assert (call.chat, call.group, call.button) == ("7", False, False)
    assert call.request is not None
    assert call.key == f"telegram:7:{call.request.message}"


async def test_an_answer_is_a_reply_that_is_edited_into_a_picture() -> None:
    """Broken: a status message cannot become the result."""
    door = NotingDoor()
    async with FakeTelegram() as fake, running(fake, door) as chat:
        asked = fake.person(7).says("/image cat")
        call = await door.called()
        ref = await call.respond(Content(body=("⏳ #3 ", Moment(2e9)), buttons=((CANCEL,),)), False)
        assert ref is not None
        [message] = fake.person(7).chat.from_bot
        assert message.reply_to == asked.id
        assert [(each.label, each.data, each.danger) for each in message.buttons] == [
            ("Cancel", "cancel:12", True)
        ]
        await chat.edit(ref, Content(body=("🎨 ", Markdown("**drawing**"))))
        assert message.styled("bold") == ["drawing"]
        assert message.buttons == []
        await chat.edit(ref, Content(body=("done",), files=(picture(),)))
        assert message.file is not None
        assert message.file.photo
        await chat.edit(ref, says("forgotten"))
        await chat.edit(ref, says("forgotten"))
        assert message.history == ["⏳ #3 03:33 UTC", "🎨 drawing", "done", "forgotten"]
        await chat.delete(ref)
        await chat.delete(ref)
