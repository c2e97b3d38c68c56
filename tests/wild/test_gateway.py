"""Which messages on Discord are calls, and what they ask.

Each file of `gateway/` has a `message` (what it leaves out is usual; `direct` for a direct one) and
the `call` that is made of it: the fields that matter, with the kinds of its files, or null for a
message that is meant for people. The server has the bot's role 5000 and a role 5001 of people.
"""

import json
from pathlib import Path
from typing import Any

import discord
import pytest

from bot.platforms.discord.messages import DiscordMessageCall
from bot.platforms.discord.platform import Discord
from tests.fakes.discord import discord_json as shapes
from tests.fakes.discord.discord_state import APPLICATION_ID, Channel, FakeMessage

CASES = sorted(Path(__file__).with_name("gateway").glob("*.json"))
PAINTERS, RULES, TALK, DIRECT = 5001, 101, 100, 200


def channel_of(client: discord.Client, *, direct: bool) -> Any:
    """Return a channel of a server that the client knows, or a person's direct messages."""
    state = client._connection
    if direct:
        me = discord.ClientUser(state=state, data=shapes.me())  # type: ignore[arg-type]
        data: Any = shapes.channel(Channel(id=DIRECT, owner=7))
        return discord.DMChannel(me=me, state=state, data=data)
    named = {TALK: "talk", RULES: "rules"}
    channels = [shapes.channel(Channel(id=each)) | {"name": named[each]} for each in named]
    roles = [shapes.role(PAINTERS) | {"name": "painters"}]
    found: Any = shapes.guild(channels, [], roles)
    guild = discord.Guild(data=found, state=state)
    state._add_guild(guild)
    return guild.get_channel(TALK)


def call_of(odd: dict[str, Any]) -> DiscordMessageCall:
    client = discord.Client(intents=discord.Intents(guilds=True))
    channel = channel_of(client, direct=odd.get("direct", False))
    usual = shapes.message(
        FakeMessage(id=9, channel_id=channel.id, content="", author=(7, "Ada")), ""
    )
    data: Any = usual | {"type": 0} | odd["message"]
    message = discord.Message(state=client._connection, channel=channel, data=data)
    return DiscordMessageCall(message=message, platform=Discord("token"), me=APPLICATION_ID)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_people_on_discord_are_heard_when_they_call(case: Path) -> None:
    """A bot that is called stays silent, answers others, or reads numbers in place of names."""
    odd: dict[str, Any] = json.loads(case.read_text(encoding="utf-8"))
    made = call_of(odd).invocation()
    if odd["call"] is None or made is None:
        assert made is odd["call"]
        return
    found = {key: getattr(made, key) for key in odd["call"]}
    kinds = {"files": [file.kind.value for file in made.files]} if "files" in found else {}
    assert found | kinds == odd["call"]
