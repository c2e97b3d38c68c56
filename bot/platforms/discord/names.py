"""Finds the names for Discord's ids, in the data of a call and in what the bot has seen.

Without a privileged intent Discord does not list a server's members, so their names are known only
from what they write and where they are mentioned. The others are looked up, a few for each call.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import discord

from bot.core.command import Command, ParamKind
from bot.core.errors import ChatError
from bot.platforms.discord.errors import chat_errors
from bot.platforms.discord.text.mentions import Named, Names, channels_in, people_in
from queueing.core.concurrency import timeout

LOOKED_UP_MOST = 5  # people per call
LOOK_UP_S = 1.0  # for all of them; Discord waits three seconds for an answer
_REMEMBERED = 10_000  # people

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeopleSeen:
    """The names of people who were seen lately, by server. In memory only."""

    _names: OrderedDict[tuple[int, int], str] = field(default_factory=OrderedDict)

    def note(self, guild_id: int | None, people: Mapping[int, str]) -> None:
        """Remember people as they are called in a server."""
        for number, name in people.items():
            key = guild_id or 0, number
            self._names[key] = name
            self._names.move_to_end(key)
            if len(self._names) > _REMEMBERED:
                self._names.popitem(last=False)

    def name(self, guild_id: int | None, person_id: int) -> str | None:
        """Return a person's name in a server, if known."""
        return self._names.get((guild_id or 0, person_id))


def people_of(*messages: discord.Message | None) -> Mapping[int, str]:
    """Return the names of those who wrote messages or are mentioned there."""
    found = (message for message in messages if message is not None)
    people = (each for message in found for each in (*message.mentions, message.author))
    return {each.id: each.display_name for each in people}


def people_chosen(interaction: "discord.Interaction[Any]") -> Mapping[int, str]:
    """Return the names of the people that Discord describes with an interaction."""
    data: Mapping[str, Any] = interaction.data or {}
    resolved = data.get("resolved") or {}
    members = resolved.get("members") or {}
    return {
        int(number): (members.get(number) or {}).get("nick")
        or user.get("global_name")
        or user.get("username")
        for number, user in (resolved.get("users") or {}).items()
    }


def names_here(
    guild: discord.Guild | None,
    caller: discord.abc.User,
    named: Mapping[int, str],
    seen: PeopleSeen,
    channels: Mapping[int, str] | None = None,
) -> Names:
    """Return the names in a server or direct chat; `named` are people who came with the call.

    A channel that the caller cannot see stays unnamed, as in Discord's own client. In a direct chat
    `channels` are those that they can see.
    """

    def person(number: int) -> str | None:
        if number == caller.id:
            return caller.display_name
        member = guild.get_member(number) if guild is not None else None
        known = member.display_name if member is not None else None
        return named.get(number) or known or seen.name(guild.id if guild else None, number)

    if guild is None:
        return Names(person=person, channel=(channels or {}).get)
    return Names(person=person, role=_roles(guild), channel=_channels(guild, caller))


async def look_up(
    guild: discord.Guild | None, texts: Iterable[str], names: Names, seen: PeopleSeen
) -> None:
    """Look up the names of mentioned people that are not known yet. Never raises `ChatError`."""
    if guild is None:
        return
    mentioned = dict.fromkeys(number for text in texts for number in people_in(text))
    unknown = [number for number in mentioned if names.person(number) is None]
    try:
        with chat_errors():
            async with timeout(LOOK_UP_S):
                for number in unknown[:LOOKED_UP_MOST]:
                    await _look_up(guild, number, seen)
    except ChatError as error:
        _log.info("could not look up the people that a call mentions: %s", error)


async def channels_seen(
    client: discord.Client, person_id: int, texts: Iterable[str]
) -> Mapping[int, str]:
    """Return the names of mentioned channels that a person can see. Never raises `ChatError`.

    A direct chat belongs to no server, so the person is looked up in each channel's own.
    """
    names: dict[int, str] = {}
    mentioned = dict.fromkeys(number for text in texts for number in channels_in(text))
    found = [client.get_channel(number) for number in mentioned]
    channels = [each for each in found if isinstance(each, discord.abc.GuildChannel)]
    try:
        with chat_errors():
            async with timeout(LOOK_UP_S):
                for channel in channels[:LOOKED_UP_MOST]:
                    if await _sees(channel, person_id):
                        names[channel.id] = channel.name
    except ChatError as error:
        _log.info("could not look up who sees the channels that a call mentions: %s", error)
    return names


async def _sees(channel: discord.abc.GuildChannel, person_id: int) -> bool:
    member = channel.guild.get_member(person_id)
    try:
        member = member or await channel.guild.fetch_member(person_id)
    except discord.NotFound:  # not a member of that server
        return False
    return channel.permissions_for(member).view_channel


async def _look_up(guild: discord.Guild, number: int, seen: PeopleSeen) -> None:
    try:
        member = await guild.fetch_member(number)
    except discord.NotFound:  # they left, or the number was made up
        return
    seen.note(guild.id, {number: member.display_name})


def _roles(guild: discord.Guild) -> Named:
    def role(number: int) -> str | None:
        found = guild.get_role(number)
        return found.name if found is not None else None

    return role


def _channels(guild: discord.Guild, caller: discord.abc.User) -> Named:
    def channel(number: int) -> str | None:
        found = guild.get_channel_or_thread(number)
        if found is None or not isinstance(caller, discord.Member):
            return None
        return found.name if found.permissions_for(caller).view_channel else None

    return channel


def options_by_id(commands: Iterable[Command], called: str) -> frozenset[str]:
    """Return a command's options whose values are ids, such as the person to ban."""
    params = (param for each in commands if each.name == called for param in each.params)
    return frozenset(param.name for param in params if param.kind is ParamKind.PERSON)


def commands_by_id(commands: Iterable[Command]) -> frozenset[str]:
    """Return the names of commands that take a person, and so need ids in what is typed."""
    return frozenset(
        name
        for each in commands
        if any(param.kind is ParamKind.PERSON for param in each.params)
        for name in (each.name, *each.aliases)
    )
