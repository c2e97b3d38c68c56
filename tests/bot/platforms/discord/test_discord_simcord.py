"""The same bot in simcord's Discord, a second opinion on what Discord accepts and shows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import simcord

from bot.core.content import Button, Content
from bot.core.errors import ChatGone
from bot.core.platform import Invocation, MessageRef
from bot.platforms.discord.platform import Discord
from queueing.core.concurrency import TaskGroup
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says

CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)


@asynccontextmanager
async def simulated(handler: RecordingHandler) -> AsyncIterator[tuple[simcord.Env, Discord]]:
    chat = Discord("simulated")
    async with (
        TaskGroup() as calls,
        chat.client(handler, calls) as client,
        simcord.run(client, shard_count=1) as env,
    ):
        yield env, chat


async def test_a_slash_command_gets_a_status_message_that_becomes_the_result() -> None:
    """On an independent fake of Discord, drawing an image would not work."""
    refs: list[MessageRef | None] = []

    async def place(call: Invocation) -> None:
        refs.append(
            await call.respond(Content(body=("⏳ #1 in line",), buttons=((CANCEL,),)), False)
        )

    handler = RecordingHandler(then=place)
    async with simulated(handler) as (env, chat):
        guild = env.create_guild()
        channel = guild.create_text_channel("images")
        ada = guild.add_member(env.create_user("ada"))
        result = await ada.slash(channel, "image", model="flux", prompt="@everyone a *cat*")
        assert not result.ephemeral
        assert channel.last_message is not None
        assert channel.last_message.content == "⏳ #1 in line"
        assert handler.calls[0].options == {"model": "flux", "prompt": "@everyone a *cat*"}
        [ref] = refs
        assert ref is not None
        image = File(name="cat.png", mime="image/png", data=b"\x89PNG")
        with env.time_context():
            await chat.edit(ref, Content(body=("@everyone a *cat*",), files=(image,)))
        assert channel.last_message.content == r"\@everyone a \*cat\*"
        assert [each.filename for each in channel.last_message.attachments] == ["cat.png"]
        assert channel.last_message.components == []


async def test_model_names_are_completed() -> None:
    """Nothing would be offered while a person types a model's name."""
    async with simulated(RecordingHandler()) as (env, _chat):
        guild = env.create_guild()
        channel = guild.create_text_channel("images")
        ada = guild.add_member(env.create_user("ada"))
        offered = await ada.autocomplete(channel, "image", "model", "f", prompt="x")
        assert [each["value"] for each in offered] == ["flux"]


async def test_a_button_works_after_a_restart_and_answers_in_private() -> None:
    """Old messages' buttons would not work, or everyone would read their answers."""

    async def refuse(call: Invocation) -> None:
        await call.respond(says("Only the owner can do that."), True)

    handler = RecordingHandler(then=refuse)
    async with simulated(handler) as (env, chat):
        guild = env.create_guild()
        channel = guild.create_text_channel("images")
        eve = guild.add_member(env.create_user("eve"))
        with env.time_context():
            await chat.send(str(channel.id), Content(body=("⏳",), buttons=((CANCEL,),)))
        async with TaskGroup() as calls, chat.client(handler, calls) as client:
            await env.restart_bot(client)
            assert channel.last_message is not None
            result = await eve.click(channel.last_message, label="Cancel")
            assert result.ephemeral
            assert result.response is not None
            assert result.response.content == "Only the owner can do that."
            await env.shutdown()
    assert handler.calls[0].options == {"id": 12}


async def test_a_message_in_a_channel_the_bot_cannot_write_to_is_gone() -> None:
    """A call without the necessary permission would be retried forever."""
    async with simulated(RecordingHandler()) as (env, chat):
        env.create_guild().create_text_channel("images")
        env.inject_error("POST", "/channels/*/messages", status=403, code=50013)
        with env.time_context(), pytest.raises(ChatGone):
            await chat.send(str(env.guild.channels["images"].id), says("x"))
