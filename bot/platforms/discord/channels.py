"""What a Discord call says about the caller's roles and permissions on that server."""

from typing import Any

import discord

SERVER_WIDE = ("administrator", "manage_guild", "kick_members", "ban_members", "moderate_members")
"""Permissions that no channel can grant: an editor of a channel can grant the others there."""


def rights_of_call(interaction: "discord.Interaction[Any]") -> frozenset[str]:
    """Return the caller's rights, none in a direct message."""
    return _rights(interaction.user, interaction.permissions)


def rights_of_author(message: discord.Message) -> frozenset[str]:
    """Return the author's rights, none in a direct message."""
    author = message.author
    if not isinstance(author, discord.Member):
        return frozenset()
    return _rights(author, author.guild_permissions)


def _rights(user: discord.User | discord.Member, allowed: discord.Permissions) -> frozenset[str]:
    """Return the rights by their names in a configuration.

    Roles are matched by id: their names are not unique and anyone may choose them. The role
    @everyone is membership rather than a role: it makes no one an admin.
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
