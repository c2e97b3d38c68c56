"""What operators set for a chat and for a style, in virtual time."""

import asyncio
from typing import TYPE_CHECKING, Any

from bot.core.live_settings import ChatSettings, ChatSettingsTable, LiveSettings
from bot.requests.options import Style
from tests.bot.results import (
    DRAWS,
    FLUX,
    ask,
    bot_with,
    done,
    drawn,
    model,
    of,
    play,
    said,
)
from tests.simulation.bot_installation import Bot
from tests.simulation.loop import in_virtual_time

if TYPE_CHECKING:
    from bot.core.content import Content


@in_virtual_time
async def test_a_chats_rules_hold_there_and_nowhere_else() -> None:
    """Words, hidden images or a system prompt of one chat would apply in others."""
    settings = ChatSettings(system="Answer in rhymes.", words=("Snow Crash",), spoiler=True)
    chat_settings = ChatSettingsTable(by_key={"fake:g5": settings})
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in "SNOW")
    async with bot_with(live=LiveSettings(chat_settings=chat_settings)) as running:
        assert await ask(running, f"/image flux a {wide}-crash!", chat="g5") is None
        assert await ask(running, "/ask qwen snowcrash?", chat="g5") is not None
        assert await ask(running, "/image flux a snow crash", chat="1") is not None
        there = await done(running, "/image flux a cat", chat="g5/7")
        here = await done(running, "/image flux a cat", chat="1")
        content: list[Content] = []
        for job in (there, here):
            message = running.chat.messages[(await of(running, job)).message]
            content.append(message.contents[-1])
        assert [each.spoiler for each in content] == [True, False]
        first = await done(running, "/ask qwen why?", chat="g5")
        second = await ask(running, "/ask how?", chat="g5", replied_to=await of(running, first))
        assert said(second) == [
            ("system", "Answer in rhymes."),
            ("user", "why?"),
            ("assistant", "result of why?"),
            ("user", "how?"),
        ]
    private = running.chat.private
    assert private == [("g5", "“Snow Crash” isn't allowed in this chat.")]


@in_virtual_time
async def test_a_style_adds_its_words_and_options_and_the_person_has_the_last_word() -> None:
    """A style would be ignored, or override what a person asked for."""
    styles = {
        "Noir": Style(
            prompt="{prompt}, film noir", negative="colour", size="3:2", options={"steps": 30}
        ),
        "sketch": Style(prompt="pencil sketch"),
    }
    async with bot_with(styles=styles) as running:
        plain = drawn(await ask(running, "/image a {prompt} cat --style noir"))
        assert plain.prompt == "a {prompt} cat, film noir"
        assert (plain.negative, plain.steps, plain.width) == ("colour", 30, 1216)
        own = drawn(
            await ask(running, "/image a cat --style noir --steps 9 --negative dogs --size square")
        )
        assert (own.negative, own.steps, own.width) == ("dogs, colour", 9, 1024)
        await ask(running, "/settings --style SKETCH")
        assert drawn(await ask(running, "/image a cat")).prompt == "a cat, pencil sketch"
        await ask(running, "/styles")
        await ask(running, "/image a cat --style oil")
    private = running.chat.answers
    assert "image style: sketch" in private[0]
    assert private[1] == "Noir · {prompt}, film noir\nsketch · pencil sketch"
    assert private[2] == "There's no style called “oil”. Available: Noir, sketch."


def test_loras_are_listed_by_model_and_only_where_one_fits() -> None:
    """No one could know what --lora accepts, or would see the same list for every model."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/loras")
        await asyncio.sleep(5)

    def told(**fields: Any) -> str:
        chat = play(scenario, FLUX, model("sdxl", *DRAWS), **fields)
        (message,) = chat.messages.values()
        return message.text

    takes = frozenset({"lora"})
    many = tuple(f"l{number}" for number in range(50))
    assert told(options=takes, loras=("ink", "oil")) == "flux, sdxl: ink, oil\n"
    assert told(options=takes, loras=many).endswith("l39 … and 10 more\n")
    nothing = "No LoRAs are available for the models here."
    assert told(options=takes) == told(options=frozenset(), loras=("ink",)) == nothing
