"""The roles of people in groups: member and admin.

Admins come from Telegram's own list, which is fetched again at intervals. Only groups whose admins
the configuration names are looked up. A list is trusted for five minutes. While it
is unavailable, it makes no one an admin.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from telegram import (
    Bot,
    ChatMember,
    ChatMemberAdministrator,
    ChatMemberBanned,
    ChatMemberLeft,
    ChatMemberOwner,
    ChatMemberRestricted,
)
from telegram.error import TelegramError

from queueing.core.concurrency import timeout

FRESH_S = 300.0
AGAIN_S = 30.0  # after a failure
ASK_S = 5.0  # longest time a call waits for the list

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _List:
    """The admins of a group, and until when the list is fresh."""

    admins: frozenset[int] = frozenset()
    until: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class GroupRoles:
    """Knows people's roles in groups. `groups` returns the ids of those whose admins count."""

    def __init__(self, groups: Callable[[], Collection[str]]) -> None:
        self._groups = groups
        self._lists: dict[int, _List] = {}

    async def rights(
        self, bot: Bot, platform: str, chat_id: int, person_id: int | None, *, anonymous: bool
    ) -> frozenset[str]:
        """Return a person's rights in a chat: none in a private chat, and none of a channel.

        `anonymous` means that the group itself is the sender, which only its admins can do.
        """
        if chat_id > 0 or (person_id is None and not anonymous):
            return frozenset()
        member = frozenset({_member(platform, chat_id)})
        if str(chat_id) not in self._groups():
            return member
        known = self._lists.setdefault(chat_id, _List())
        if not anonymous and person_id not in await self._admins(bot, chat_id, known):
            return member
        return member | {_admin(platform, chat_id)}

    async def _admins(self, bot: Bot, chat_id: int, known: _List) -> frozenset[int]:
        now = asyncio.get_running_loop().time
        async with known.turn:
            if now() >= known.until:
                asked_at = now()
                known.admins, lasts_s = await _fetch(bot, chat_id)
                known.until = asked_at + lasts_s
        return known.admins


def roles_of(member: ChatMember, platform: str, group: str) -> frozenset[str]:
    """Return the rights of a group's member, as Telegram describes them now."""
    if isinstance(member, ChatMemberLeft | ChatMemberBanned):
        return frozenset()
    if isinstance(member, ChatMemberRestricted) and not member.is_member:
        return frozenset()
    rules = isinstance(member, ChatMemberOwner | ChatMemberAdministrator)
    own = frozenset({_member(platform, group)})
    return own | {_admin(platform, group)} if rules else own


def _member(platform: str, group: int | str) -> str:
    return f"{platform}:group-members@{group}"


def _admin(platform: str, group: int | str) -> str:
    return f"{platform}:group-admins@{group}"


async def _fetch(bot: Bot, chat_id: int) -> tuple[frozenset[int], float]:
    """Return a group's admins and for how many seconds the answer is valid."""
    try:
        async with timeout(ASK_S):
            members = await bot.get_chat_administrators(chat_id)
    except (TelegramError, TimeoutError) as error:
        cause = f"{type(error).__name__}: {error}"
        _log.warning("cannot read the admins of group %d: %s", chat_id, cause)
        return frozenset(), AGAIN_S
    return frozenset(member.user.id for member in members if not member.user.is_bot), FRESH_S
