"""A Discord channel's parents, and the caller's rights in it."""

from typing import Any

import discord

from bot.core.asker import Asker, rooms_of
from bot.core.live_settings import places_of
from bot.platforms.discord.away import from_away


def chat_of(channel_id: int, *, group: bool) -> str:
    """Return the bot's chat id for a channel: its id, prefixed with "@" for a direct message.

    After a restart nothing else distinguishes the two.
    """
    return f"{channel_id}" if group else f"@{channel_id}"


def within(channel: Any, guild_id: int | None, person_id: int) -> tuple[str, ...]:
    """Return the ids of a channel's parents, widest first, or the person's id for a direct message.

    The parents of a thread, including a forum post, are the server, the category and the channel.
    """
    if guild_id is None:
        return (str(person_id),)
    thread = channel if isinstance(channel, discord.Thread) else None
    parent = channel if thread is None else thread.parent
    category_id = getattr(parent, "category_id", None)
    found = (guild_id, category_id, thread.parent_id if thread else None)
    return tuple(str(each) for each in found if each is not None)


def is_astray(message: discord.Message) -> bool:
    """Return whether Discord left out a message's channel details."""
    return isinstance(message.channel, discord.PartialMessageable)


def lacking_of_call(interaction: "discord.Interaction[Any]") -> tuple[str, ...]:
    """Return the names of the permissions that the bot misses to show a result in this channel.

    An interaction can be answered without them, but later edits and further parts need them.
    """
    if interaction.guild_id is None:
        return ()
    return _lacking(interaction.channel, interaction.app_permissions)


def lacking_at(message: discord.Message) -> tuple[str, ...]:
    """Return the permissions that the bot misses to answer a message, as far as it knows its own.

    Discord reports messages of channels that the bot may read but not write in.
    """
    me = message.guild.me if message.guild is not None else None
    channel = message.channel
    if me is None or not isinstance(channel, discord.abc.GuildChannel | discord.Thread):
        return ()
    try:
        return _lacking(channel, channel.permissions_for(me))
    except discord.ClientException:  # a thread whose channel is unknown
        return ()


def _lacking(channel: object, has: discord.Permissions) -> tuple[str, ...]:
    threaded = isinstance(channel, discord.Thread)
    needs = {
        "View Channel": "view_channel",
        "Send Messages in Threads" if threaded else "Send Messages": (
            "send_messages_in_threads" if threaded else "send_messages"
        ),
    }
    return tuple(name for name, right in needs.items() if not getattr(has, right))


SERVER_WIDE = ("administrator", "manage_guild", "kick_members", "ban_members", "moderate_members")
"""Permissions that only the server grants.

Whoever may edit a channel can grant all others there.
"""


def asker_of(interaction: "discord.Interaction[Any]", platform: str) -> Asker:
    """Return who types in a command, and where."""
    group = interaction.guild_id is not None and not from_away(interaction)
    chat = chat_of(interaction.channel_id or 0, group=group)
    guild_id = interaction.guild_id if group else None
    parents = within(interaction.channel, guild_id, interaction.user.id)
    return Asker(
        user=f"{platform}:{interaction.user.id}",
        rooms=rooms_of(platform, places_of(chat, parents)),
        rights=rights_of_call(interaction) if group else frozenset(),
        group=group,
    )


def rights_of_call(interaction: "discord.Interaction[Any]") -> frozenset[str]:
    """Return the caller's rights. Empty in a direct message."""
    return rights_of(interaction.user, interaction.permissions)


def rights_of_author(message: discord.Message) -> frozenset[str]:
    """Return the author's rights. Empty in a direct message."""
    author = message.author
    if not isinstance(author, discord.Member):
        return frozenset()
    return rights_of(author, author.guild_permissions)


def rights_of(user: discord.User | discord.Member, allowed: discord.Permissions) -> frozenset[str]:
    """Return the rights by the names used in the configuration.

    Roles are matched by id, because names are not unique and anyone may choose them. The role
    @everyone counts as membership, not as a role, so that it cannot make everyone an admin.
    """
    if not isinstance(user, discord.Member):
        return frozenset()
    server = user.guild.id
    roles = {
        f"discord-{'member' if role.id == server else 'role'}:{role.id}" for role in user.roles
    }
    held = {
        f"discord:{name.replace('_', '-')}@{server}"
        for name in SERVER_WIDE
        if getattr(allowed, name)
    }
    return frozenset(roles | held)
