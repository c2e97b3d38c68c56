"""Which messages on Discord are calls, and what they ask.

Each file of `gateway/` has a `message` (what it leaves out is usual; `direct` for a direct one) and
the `call` that it becomes: the fields that matter, with the kinds of its files and each forwarded
text as its source and words, or null for a message that is meant for people. `forward` is a forward
that the message comments on. The server has the bot's role 5000 and a role 5001 of people, the
channels 100 and 101, and a channel 102 that people cannot see. The author of a direct message is in
that server unless they are a `stranger`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import discord

from bot.commands.registry import COMMANDS
from bot.platforms.discord.attachments import Downloads
from bot.platforms.discord.messages import DiscordMessageCall
from bot.platforms.discord.names import channels_seen, commands_by_id
from bot.platforms.discord.platform import Discord
from tests.fakes.discord import discord_json as shapes
from tests.fakes.discord.discord_state import APPLICATION_ID, GUILD_ID, Channel, FakeMessage
from tests.samples import in_turn
from tests.simulation.loop import run
from tests.wild.cases import cases, read_case

CASES = cases("gateway")
PAINTERS, RULES, HIDDEN, TALK, DIRECT = 5001, 101, 102, 100, 200
MEMBER = {"roles": [], "joined_at": "2024-01-01", "deaf": False, "mute": False, "flags": 0}
VIEW = 1 << 10


def channel_of(client: discord.Client, *, direct: bool) -> Any:
    """Return a channel of a server that the client knows, or a person's direct messages."""
    state = client._connection
    state.user = me = discord.ClientUser(state=state, data=shapes.me())  # type: ignore[arg-type]
    if direct:
        data: Any = shapes.channel(Channel(id=DIRECT, owner=7))
        return discord.DMChannel(me=me, state=state, data=data)
    named = {TALK: "talk", RULES: "rules", HIDDEN: "plans"}
    closed = {"id": str(GUILD_ID), "type": 0, "allow": "0", "deny": str(VIEW)}
    channels = [
        shapes.channel(Channel(id=each))
        | {"name": named[each], "permission_overwrites": [closed] if each == HIDDEN else []}
        for each in named
    ]
    roles = [shapes.role(PAINTERS) | {"name": "painters"}]
    found: Any = shapes.guild(channels, [], roles)
    found["roles"][0]["permissions"] = str(VIEW)
    guild = discord.Guild(data=found, state=state)
    state._add_guild(guild)
    return guild.get_channel(TALK)


def message_of(client: discord.Client, odd: dict[str, Any], which: str) -> discord.Message:
    channel = channel_of(client, direct=odd.get("direct", False))
    usual = shapes.message(
        FakeMessage(id=9, channel_id=channel.id, content="", author=(7, "Ada")), ""
    )
    here = {} if odd.get("direct") else {"member": MEMBER}
    data: Any = usual | {"type": 0} | here | odd[which]
    return discord.Message(state=client._connection, channel=channel, data=data)


def call_of(odd: dict[str, Any]) -> DiscordMessageCall:
    client = discord.Client(intents=discord.Intents(guilds=True))
    channel_of(client, direct=False)
    call = DiscordMessageCall(
        message=message_of(client, odd, "message"),
        forward=message_of(client, odd, "forward") if "forward" in odd else None,
        place=lambda number: getattr(client.get_channel(number), "name", None),
        platform=Discord("token"),
        me=APPLICATION_ID,
        by_id=commands_by_id(COMMANDS),
        downloads=Downloads(Discord.limits.download),
    )
    return replace(call, channels=run(seen_from_a_direct_chat(client, odd, call)))


async def seen_from_a_direct_chat(
    client: discord.Client, odd: dict[str, Any], call: DiscordMessageCall
) -> Mapping[int, str]:
    async def member(_guild: int, number: int) -> Any:
        if odd.get("stranger"):
            response: Any = SimpleNamespace(status=404, reason="Not Found")
            raise discord.NotFound(response, "Unknown Member")
        return shapes.member(number, "Ada")

    client.http.get_member = member  # type: ignore[method-assign, assignment]
    return await channels_seen(client, 7, call.texts()) if odd.get("direct") else {}


@in_turn("case", CASES)
def test_people_on_discord_are_heard_when_they_call(case: Path) -> None:
    """A bot that is called would stay silent, answer others, or read numbers in place of names."""
    odd = read_case(case)
    made = call_of(odd).invocation()
    if odd["call"] is None or made is None:
        assert made is odd["call"]
        return
    found = {key: getattr(made, key) for key in odd["call"]}
    if "files" in found:
        found["files"] = [file.kind.value for file in made.files]
    if "forwarded" in found:
        found["forwarded"] = [[each.by, each.text] for each in made.forwarded]
    assert found == odd["call"]
