"""Reacts with 👀 to a request in a group, before its first answer comes. Costs no message."""

import asyncio
import logging
from collections import OrderedDict

from telegram import Bot, ReactionTypeEmoji
from telegram.constants import ReactionEmoji
from telegram.error import BadRequest, Forbidden, RetryAfter, TelegramError

from bot.core.platform import Invocation
from bot.platforms.telegram.calls import place_of
from bot.platforms.telegram.errors import NO_MESSAGE, pause_s, says

SEEN = ReactionEmoji.EYES
REFUSED_S = 3600.0  # how long a group that does not allow the reaction is left alone
_REMEMBERED = 1000  # groups

_log = logging.getLogger(__name__)


class Reactions:
    """Sets reactions, and remembers the groups that refuse them.

    `asking` are the commands that become jobs; other calls are answered at once.
    """

    def __init__(self, bot: Bot, asking: frozenset[str]) -> None:
        self._bot = bot
        self._asking = asking
        self._quiet_until: OrderedDict[int, float] = OrderedDict()

    def wanted(self, call: Invocation) -> bool:
        """Return whether a call is a request in a group that gets a reaction.

        A reply to one of the bot's images may be meant for people, and so may the parts of an album
        that name no bot. Where the bot may not answer, there is no request.
        """
        addressed = call.album is None or (call.album.asks and not call.album.begun)
        asks = call.group and call.command in self._asking and addressed and not call.to_words
        return asks and not call.lacks

    async def seen(self, call: Invocation) -> None:
        """React to a call's message. Never raises: the answer itself follows anyway."""
        now = asyncio.get_running_loop().time()
        chat_id, _ = place_of(call.chat)
        if call.request is None or self._quiet_until.get(chat_id, now) > now:
            return
        message_id = int(call.request.message)
        try:
            await self._bot.set_message_reaction(chat_id, message_id, ReactionTypeEmoji(SEEN))
        except RetryAfter as limit:
            self._leave_alone(chat_id, now + pause_s(limit))
        except (BadRequest, Forbidden) as refusal:
            if not says(refusal, NO_MESSAGE):
                _log.info("chat %d takes no reactions: %s", chat_id, refusal)
                self._leave_alone(chat_id, now + REFUSED_S)
        except (TelegramError, RuntimeError) as error:  # the connection, or a stop
            _log.debug("could not react to a message: %s", error)

    def _leave_alone(self, chat_id: int, until: float) -> None:
        self._quiet_until[chat_id] = until
        self._quiet_until.move_to_end(chat_id)
        if len(self._quiet_until) > _REMEMBERED:
            self._quiet_until.popitem(last=False)
