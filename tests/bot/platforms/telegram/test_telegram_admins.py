"""How old Telegram's list of a group's admins may be, in virtual time."""

import asyncio
from typing import Any, cast

import pytest
from telegram import Bot, ChatMember, ChatMemberMember, User
from telegram.error import NetworkError, TelegramError

from bot.platforms.telegram.admins import AGAIN_S, FRESH_S, GroupRoles
from tests.simulation.loop import in_virtual_time

GROUP = -1001
RIGHT = frozenset({f"telegram:group-admins@{GROUP}"})


class Lists:
    """Answers as Telegram does, or fails, after `takes_s`."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.admins: tuple[int, ...] = (7,)
        self.failure: TelegramError | None = None
        self.takes_s = 0.1

    async def get_chat_administrators(self, chat_id: int) -> tuple[ChatMember, ...]:
        assert chat_id == GROUP
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes_s)
        if self.failure is not None:
            raise self.failure
        people = [User(each, "Ada", is_bot=each == 99) for each in self.admins]
        return tuple(ChatMemberMember(each) for each in people)


async def may(known: GroupRoles, lists: Lists, person: int, **how: Any) -> bool:
    told: dict[str, Any] = {"anonymous": False, **how}
    rights = await known.rights(cast("Bot", lists), "telegram", GROUP, person, **told)
    assert rights - RIGHT == {f"telegram:group-members@{GROUP}"}
    return rights > RIGHT


@in_virtual_time
async def test_a_list_is_asked_for_once_in_five_minutes_and_an_admin_of_before_is_none() -> None:
    """Every message would cause a call to Telegram, or a dismissed person would stay an admin."""
    lists, known = Lists(), GroupRoles(lambda: [str(GROUP)])
    lists.admins = (7, 99)
    assert await asyncio.gather(*(may(known, lists, 7) for _ in range(9))) == [True] * 9
    assert not await may(known, lists, 99)
    lists.admins = (8,)
    await asyncio.sleep(FRESH_S - 1)
    assert await may(known, lists, 7)
    assert len(lists.asked) == 1
    await asyncio.sleep(2)
    assert [await may(known, lists, person) for person in (7, 8)] == [False, True]
    assert len(lists.asked) == 2


@pytest.mark.parametrize(
    "failure", [NetworkError("away"), TelegramError("Bad Request: chat not found"), None]
)
@in_virtual_time
async def test_while_there_is_no_list_nobody_is_an_admin(failure: TelegramError | None) -> None:
    """An old list would be used forever, or a call wait for Telegram as long as it is away."""
    lists, known = Lists(), GroupRoles(lambda: [str(GROUP)])
    assert await may(known, lists, 7)
    await asyncio.sleep(FRESH_S + 1)
    lists.failure, lists.takes_s = failure, 1000.0 if failure is None else 0.1
    began_at = asyncio.get_running_loop().time()
    assert not any([await may(known, lists, 7) for _ in range(9)])
    assert asyncio.get_running_loop().time() - began_at < 10
    assert len(lists.asked) == 2
    assert await may(known, lists, 0, anonymous=True)  # Telegram says so with the call
    await asyncio.sleep(AGAIN_S + 1)
    lists.failure, lists.takes_s = None, 0.1
    assert await may(known, lists, 7)


@in_virtual_time
async def test_groups_that_are_not_named_are_not_asked_about() -> None:
    """The bot would ask about everyone's groups, and treat their admins as its own."""
    lists, known = Lists(), GroupRoles(lambda: ["-1002"])
    assert not await may(known, lists, 7)
    assert not await may(known, lists, 7, anonymous=True)
    assert lists.asked == []
