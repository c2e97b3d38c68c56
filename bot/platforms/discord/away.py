"""Calls of people who have installed the bot for themselves, from places where it is no member.

There the bot can neither write nor edit. It answers through the interaction, to the caller alone,
for fifteen minutes. What ends later, or after a restart, goes to the caller's direct messages.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import discord

from bot.core.content import Content
from bot.platforms.discord.renderer import outgoing

TOKEN_S = 890.0  # a little less than Discord's fifteen minutes
_MARK = "~"  # no other chat's id begins so


def is_away(chat: str) -> bool:
    """Return whether a chat's id stands for such a call."""
    return chat.startswith(_MARK)


def caller_of(chat: str) -> int:
    """Return the person who made such a call."""
    return int(chat.removeprefix(_MARK).partition(".")[0])


def from_away(interaction: "discord.Interaction[Any]") -> bool:
    """Return whether a call comes from a place where the bot is no member."""
    with_bot = interaction.context.dm_channel or interaction.is_guild_integration()
    return interaction.is_user_integration() and not with_bot


class AwayCalls:
    """The calls that can still be answered through their interactions, by chat. In memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, tuple[float, discord.Webhook]] = OrderedDict()

    def chat_of(self, interaction: "discord.Interaction[Any]") -> str:
        """Return the id of the chat that a call opens, for its caller alone."""
        now = self._clock()
        while self._open and next(iter(self._open.values()))[0] <= now:
            self._open.popitem(last=False)
        chat = f"{_MARK}{interaction.user.id}.{interaction.id}"
        self._open[chat] = now + TOKEN_S, interaction.followup
        return chat

    def answers_to(self, chat: str) -> discord.Webhook | None:
        """Return what answers a call, or None if it is too late for that."""
        until, webhook = self._open.get(chat, (0.0, None))
        return webhook if until > self._clock() else None


async def post(webhook: discord.Webhook, content: Content) -> discord.WebhookMessage:
    """Answer a call once more. Raises the library's errors."""
    message = outgoing(content, now=time.time())
    return await webhook.send(ephemeral=True, wait=True, **message.sent())
