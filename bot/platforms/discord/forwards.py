"""Forwards on Discord: the texts of what is forwarded, and the comment that follows a forward.

Discord's app sends a forward and the person's comment on it as two messages, the comment last. In
direct messages a forward therefore waits briefly. In servers Discord usually withholds what is
forwarded, but a comment that names the bot is still about it.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

import discord

from bot.platforms.discord.components.layouts import words_in
from queueing.core.concurrency import came

COMMENT_WITHIN_S = 1.0
_APART_MOST_S = 3.0  # between a forward and its comment, by Discord's clock
_REMEMBERED = 1000  # forwards
_PREVIEWS = frozenset({"article", "gifv", "image", "link", "video"})


def said_in(message: discord.Message | discord.MessageSnapshot) -> str:
    """Return the text of a message, including what a program put into embeds and layouts."""
    embeds = (_embedded(each) for each in message.embeds if each.type not in _PREVIEWS)
    return "\n\n".join(filter(None, (message.content, *embeds, *words_in(message))))


def _embedded(embed: discord.Embed) -> str:
    """Return an embed's text with the addresses behind its words."""
    parts = (
        _linked(embed.author.name, embed.author.url),
        _linked(embed.title, embed.url),
        embed.description,
        *(f"{each.name}: {each.value}" for each in embed.fields),
        embed.footer.text,
    )
    return "\n".join(filter(None, parts))


def _linked(words: str | None, address: str | None) -> str | None:
    return f"[{words}]({address})" if words and address else words


def is_forward(message: discord.Message) -> bool:
    """Return whether a message is only a forward, without a text."""
    reference = message.reference
    forwards = reference is not None and reference.type is discord.MessageReferenceType.forward
    return forwards and not message.content


def may_comment(message: discord.Message) -> bool:
    """Return whether a message may be the comment on a forward."""
    is_command = message.content.lstrip().startswith("/")
    return bool(message.content) and message.reference is None and not is_command


@dataclass(frozen=True, slots=True)
class WaitingForward:
    """A forward that waits for its comment."""

    message: discord.Message
    commented: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def is_commented(self) -> bool:
        """Wait for the comment. Returns whether it has come and brings the forward with it."""
        if not await came(self.over, COMMENT_WITHIN_S):
            self.over.set()
        return self.commented.is_set()


class Forwards:
    """The newest forwards without a comment, by channel and person."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[int, int], WaitingForward] = OrderedDict()

    def before(self, message: discord.Message) -> discord.Message | None:
        """Return the forward that a message comments on, if it does. Ends the wait for one."""
        waiting = self._waiting.pop((message.channel.id, message.author.id), None)
        if waiting is None or waiting.over.is_set():
            return None
        waiting.over.set()
        apart_s = (message.created_at - waiting.message.created_at).total_seconds()
        if not may_comment(message) or apart_s > _APART_MOST_S:
            return None
        waiting.commented.set()
        return waiting.message

    def wait(self, message: discord.Message) -> WaitingForward | None:
        """Return the wait for the comment on a message; None for a message that is no forward."""
        if not is_forward(message):
            return None
        key = message.channel.id, message.author.id
        waiting = self._waiting[key] = WaitingForward(message)
        self._waiting.move_to_end(key)
        if len(self._waiting) > _REMEMBERED:
            self._waiting.popitem(last=False)
        return waiting
