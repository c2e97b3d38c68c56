"""Posts and edits ordinary messages, and finds those that an earlier attempt has sent.

Raises the library's errors; the caller translates them.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import discord

from bot.core.content import Content
from bot.core.platform import MessageRef
from bot.platforms.discord.components.layouts import media_in
from bot.platforms.discord.errors import EXPIRED_INTERACTION, NO_HISTORY_TO_REPLY
from bot.platforms.discord.forwards import said_in
from bot.platforms.discord.renderer import outgoing

NONCE_MOST = 25  # characters; Discord refuses longer ones
ORIGINAL = "@original"  # stands for the first answer to an interaction
UNKNOWN_MESSAGE = 10008
LAYOUT_FLAG = "IS_COMPONENTS_V2"
"""Named by Discord's refusal of text outside a layout's components."""

Edited = TypeVar("Edited")


def nonce_of(text: str) -> str:
    """Return a nonce Discord accepts.

    A long one is hashed, because cutting it could cause collisions.
    """
    if len(text) <= NONCE_MOST:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:NONCE_MOST]


async def answer_to(client: discord.Client, token: str) -> discord.Message | None:
    """Return the answer to an interaction, or None if it has none or its token has expired."""
    if client.application_id is None:
        return None
    webhook = discord.Webhook.partial(client.application_id, token, client=client)
    try:
        found = await webhook.fetch_message(ORIGINAL)  # type: ignore[arg-type]
    except discord.HTTPException as error:
        if error.status == 404 or error.code in {UNKNOWN_MESSAGE, *EXPIRED_INTERACTION}:
            return None
        raise
    return None if found.flags.loading else found  # "thinking…" is no answer


async def post_or_find(
    channel: discord.PartialMessageable, content: Content, reply_to: MessageRef | None, nonce: str
) -> discord.Message:
    """Post a message, or return the one that was posted with this nonce."""
    try:
        return await _post(channel, content, reply_to, nonce)
    except discord.HTTPException as error:
        if error.code != NO_HISTORY_TO_REPLY:
            raise
        return await _post(channel, content, None, nonce)


async def _post(
    channel: discord.PartialMessageable, content: Content, reply_to: MessageRef | None, nonce: str
) -> discord.Message:
    message = outgoing(content, now=time.time())
    quoting: dict[str, Any] = {}
    if reply_to is not None:
        quoting["reference"] = discord.MessageReference(
            message_id=int(reply_to.message), channel_id=channel.id, fail_if_not_exists=False
        )
    return await channel.send(nonce=nonce, **message.sent(), **quoting)


def shows(sent: discord.Message, content: Content) -> bool:
    """Return whether a message shows the content, rather than that of an earlier attempt."""
    words = outgoing(content, now=time.time()).text.split()
    files = len(sent.attachments) + len(list(media_in(sent)))
    return said_in(sent).split() == words and files == len(content.files)


async def show(edit: Callable[..., Awaitable[Edited]], content: Content) -> Edited:
    """Replace a message's whole content. A message that was a gallery stays a layout."""
    try:
        return await edit(**outgoing(content, now=time.time()).replaced())
    except discord.HTTPException as error:
        if LAYOUT_FLAG not in str(error):
            raise
        return await edit(**outgoing(content, now=time.time(), layout=True).replaced())
