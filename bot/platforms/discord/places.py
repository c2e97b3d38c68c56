"""What a channel of Discord is part of: its server, its category, and a thread's channel."""

from typing import Any

import discord


def within(channel: Any, guild_id: int | None, person_id: int) -> tuple[str, ...]:
    """Return the ids of what a channel is part of, widest first; the person's for a direct message.

    A thread, and so a post of a forum, is part of its channel and of that channel's category.
    """
    if guild_id is None:
        return (str(person_id),)
    thread = channel if isinstance(channel, discord.Thread) else None
    parent = channel if thread is None else thread.parent
    category_id = getattr(parent, "category_id", None)
    found = (guild_id, category_id, thread.parent_id if thread else None)
    return tuple(str(each) for each in found if each is not None)


def is_astray(message: discord.Message) -> bool:
    """Return whether Discord did not say what a message's channel is part of."""
    return isinstance(message.channel, discord.PartialMessageable)
