"""The chats in which the bot may not write, because it or all members are restricted there.

Telegram reports a restriction of the bot itself. One of all members only shows in refusals.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from telegram import Bot, ChatMember, ChatMemberMember, ChatMemberRestricted, ChatMemberUpdated
from telegram.error import TelegramError

from bot.core.errors import ChatGone
from bot.platforms.telegram.errors import MUTED, says
from queueing.core.concurrency import timeout

FRESH_S = 30.0
ASK_S = 5.0  # longest time a call waits for Telegram's word
RIGHT = "Send Messages"  # by its name in Telegram's apps
_REMEMBERED = 1000  # chats

_log = logging.getLogger(__name__)


class WriteAccess:
    """Remembers those chats. At a call from one of them, asks Telegram whether this has changed.

    Telegram is asked about a chat at most every half minute, and about no other chats.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._closed: OrderedDict[int, float] = OrderedDict()  # when to ask again, by chat

    def told(self, change: ChatMemberUpdated) -> None:
        """Record Telegram's report that the bot's own membership in a chat has changed."""
        if _writes(change.new_chat_member):
            self._closed.pop(change.chat.id, None)
        else:
            self._close(change.chat.id)

    def refused(self, chat_id: int, error: ChatGone) -> None:
        """Record that Telegram refused a message."""
        if says(error, *MUTED):
            self._close(chat_id)

    def _close(self, chat_id: int) -> None:
        self._closed[chat_id] = self._clock() + FRESH_S
        self._closed.move_to_end(chat_id)
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)

    async def lacking(self, bot: Bot, chat_id: int) -> tuple[str, ...]:
        """Return the rights that the bot lacks for answering in a chat, as far as it knows."""
        ask_at = self._closed.get(chat_id)
        if ask_at is None:
            return ()
        if self._clock() >= ask_at:
            self._close(chat_id)
            if await _may_write(bot, chat_id):
                self._closed.pop(chat_id, None)
                return ()
        return (RIGHT,)


def _writes(member: ChatMember) -> bool:
    """Return whether a member may write, apart from restrictions of all members."""
    return not isinstance(member, ChatMemberRestricted) or member.can_send_messages


async def _may_write(bot: Bot, chat_id: int) -> bool:
    try:
        async with timeout(ASK_S):
            me = await bot.get_chat_member(chat_id, bot.id)
            if not isinstance(me, ChatMemberMember):
                return _writes(me)
            rights = (await bot.get_chat(chat_id)).permissions
    except (TelegramError, TimeoutError) as error:
        _log.info("cannot tell whether the bot may write in chat %d: %s", chat_id, error)
        return False
    return rights is None or rights.can_send_messages is not False
