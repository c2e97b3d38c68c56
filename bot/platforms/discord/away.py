"""Calls by people who installed the bot for themselves, from places where it is not a member.

There the bot can neither write nor edit. It answers through the interaction, to the caller alone,
for fifteen minutes. A result that comes later, or after a restart, goes to the caller's direct
messages. So do further messages if Discord did not report whether the answer arrived. Pressing a
button of an answer lets the bot change the answer for another fifteen minutes.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import discord

from bot.core.content import Content
from bot.core.errors import MessageGone
from bot.platforms.discord.posts import ORIGINAL, show
from bot.platforms.discord.renderer import outgoing

TOKEN_S = 890.0  # a little less than Discord's fifteen minutes
_MARK = "~"  # no other chat's id begins with it


def is_away(chat: str) -> bool:
    """Return whether a chat's id stands for such a call."""
    return chat.startswith(_MARK)


def caller_of(chat: str) -> int:
    """Return the person who made such a call."""
    return int(chat.removeprefix(_MARK).partition(".")[0])


def from_away(interaction: "discord.Interaction[Any]") -> bool:
    """Return whether a call comes from a place where the bot is not a member."""
    with_bot = interaction.context.dm_channel or interaction.is_guild_integration()
    return interaction.is_user_integration() and not with_bot


@dataclass(frozen=True, slots=True)
class AwayCall:
    """The webhook that can answer a call until a given time.

    `place` is the message into which an answer can safely be put more than once: the first answer
    to a command, or a message whose button was pressed. Discord does not recognise repeats of
    further answers. So none is sent once it is `doubtful` whether one has arrived.
    """

    webhook: discord.Webhook
    until: float
    place: int | str | None
    doubtful: bool = False


class AwayCalls:
    """The calls that can still be answered through their interactions, by chat. In memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, AwayCall] = OrderedDict()

    def chat_of(self, interaction: "discord.Interaction[Any]") -> str:
        """Return the id of the chat that a call opens, for its caller alone."""
        pressed = interaction.type is discord.InteractionType.component
        chat = _chat(interaction.user.id, interaction.id)
        self._answer(chat, interaction, None if pressed else ORIGINAL)
        return chat

    def reopen(self, interaction: "discord.Interaction[Any]") -> None:
        """Let a confirmed press on an earlier answer bring that answer up to date again."""
        message = interaction.message
        made_by = message.interaction_metadata if message is not None else None
        if message is not None and made_by is not None:
            self._answer(_chat(made_by.user.id, made_by.id), interaction, message.id)

    def _answer(
        self, chat: str, interaction: "discord.Interaction[Any]", place: int | str | None
    ) -> None:
        now = self._clock()
        while self._open and next(iter(self._open.values())).until <= now:
            self._open.popitem(last=False)
        self._open[chat] = AwayCall(interaction.followup, now + TOKEN_S, place)
        self._open.move_to_end(chat)

    def answers_to(self, chat: str) -> AwayCall | None:
        """Return the webhook of a call, or None if it is too late to answer."""
        answers = self._open.get(chat)
        return answers if answers is not None and answers.until > self._clock() else None

    def unclear(self, chat: str) -> None:
        """Record that a call may or may not have been answered."""
        if (answers := self._open.get(chat)) is not None:
            self._open[chat] = replace(answers, doubtful=True)


def _chat(person_id: int, interaction_id: int) -> str:
    return f"{_MARK}{person_id}.{interaction_id}"


async def answer(answers: AwayCall, content: Content, *, follows: bool) -> int:
    """Answer a call. Returns the message's id. With `follows`, posts a further message.

    Raises `MessageGone` if a repeat could show it twice, and the library's errors.
    """
    if not follows and (placed := await _put(answers, content)) is not None:
        return placed
    if answers.doubtful:
        raise MessageGone("the call may have been answered")
    message = outgoing(content, now=time.time())
    return (await answers.webhook.send(ephemeral=True, wait=True, **message.sent())).id


async def _put(answers: AwayCall, content: Content) -> int | None:
    """Put an answer into its place. Returns the message's id, or None if it has no place."""
    if answers.place is None or not await _is_private(answers.webhook, answers.place):
        return None
    edit = partial(answers.webhook.edit_message, answers.place)
    return (await show(edit, content)).id


async def _is_private(webhook: discord.Webhook, place: int | str) -> bool:
    """Return whether only the caller sees an answer; delete a public "thinking…"."""
    if place != ORIGINAL:
        return True
    try:
        found = await webhook.fetch_message(place)  # type: ignore[arg-type]
    except discord.NotFound:
        return False
    if found.flags.loading and not found.flags.ephemeral:
        await webhook.delete_message(found.id)  # a further answer would be as public as this one
    return found.flags.ephemeral
