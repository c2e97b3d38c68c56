"""Background tasks for the bot's lifetime: keeping chats connected and deleting expired data.

Each runs until cancelled. A failure of one does not end the others.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from bot.api.jobs.webhook_calls import JobEndings
from bot.config.sections import RetentionConfig
from bot.core.errors import AddressTaken, ChatError, ChatRefused
from bot.core.live_settings import LiveSettings
from bot.core.platform import ChatPlatform, CommandHandler
from bot.http.listener import CannotListen
from bot.people.access import Access
from bot.people.people import CarriedRights
from bot.platforms.web.chat.chat_log import ChatLog
from queueing.core.concurrency import TaskGroup, came
from queueing.core.errors import StoreError
from queueing.core.ports import Clock, doubt_of
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database

log = logging.getLogger(__name__)

_ROOM_MB = 512
_DAY_S = 24 * 3600.0


def most_mb(kept: RetentionConfig) -> int:
    """Return the largest size of the database: the retained data, plus arrivals between deletions.

    A larger database counts as a full disk: no request is accepted, and results wait for space.
    """
    return kept.size_mb + kept.size_mb // 4 + _ROOM_MB


async def delete_expired(jobs: JobStore, chat_log: ChatLog, live: LiveSettings, now: float) -> None:
    """Delete data beyond the retention limits on age and size. Idempotent. Raises `StoreError`.

    The page's images are copies of job results. They may take half of the size, and jobs the rest.
    """
    before = now - live.kept_days * _DAY_S
    page_mb = await chat_log.shrink(live.kept_mb // 2)
    gone = await jobs.purge(before, keep_mb=live.kept_mb - page_mb)
    if gone:
        log.info("retention: jobs deleted: %d", gone)
    await chat_log.expire(before)


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_LISTEN_EVERY_S = 2.0  # an address is free shortly after the process using it has ended
_RIGHTS_EVERY_S = 60.0
_TIDY_EVERY_S = 3600.0
_LOOK_EVERY_S = 30.0  # between checks of how much was added
_MUCH_LEAST_MB = 64


async def keep_all_up(platforms: Sequence[ChatPlatform], handler: CommandHandler) -> None:
    """Run every chat. Raises `ChatRefused` with all reasons once no chat can be used.

    Raises `AddressTaken` instead if that is the only reason.
    """
    if platforms:
        refusals = await asyncio.gather(*(_keep_up(platform, handler) for platform in platforms))
        taken = all(isinstance(refused, AddressTaken) for refused in refusals)
        why = "no chat can be used: " + "; ".join(str(refused) for refused in refusals)
        raise AddressTaken(why) if taken else ChatRefused(why)


async def _keep_up(platform: ChatPlatform, handler: CommandHandler) -> ChatRefused:
    """Keep a platform connected despite failures. Returns why it cannot be used."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            await platform.run(handler)
        except ChatRefused as refused:
            log.error("%s is off: %s", platform.name, refused)  # noqa: TRY400  # not a bug
            return type(refused)(f"{platform.name}: {refused}")
        except Exception:
            log.exception("%s failed; restarting it in %.0f s", platform.name, pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


Serve = Callable[[], Awaitable[None]]
"""Serves until cancelled. Raises `CannotListen`."""


async def keep_served(serve: Serve, name: str = "the API") -> None:
    """Keep one of the bot's servers running. Its failures do not affect the chats."""
    pause_s, told = _FIRST_PAUSE_S, False
    while True:
        try:
            await serve()
        except CannotListen as error:
            if not told:
                log.error("%s %s; it starts once the address is free", name, error)  # noqa: TRY400
            told = True
            await asyncio.sleep(_LISTEN_EVERY_S)
            continue
        except Exception:
            log.exception("%s failed; restarting it in %.0f s", name, pause_s)
        told = False
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


async def keep_told(endings: JobEndings) -> None:
    """Keep webhooks running. Their failures do not affect anything else."""
    while True:
        try:
            await endings.run()
        except Exception:
            log.exception("webhooks failed; restarting them in %.0f s", _FIRST_PAUSE_S)
        await asyncio.sleep(_FIRST_PAUSE_S)


async def keep_rights_fresh(
    carried: CarriedRights, platforms: Sequence[ChatPlatform], access: Access, clock: Clock
) -> None:
    """Ask the chats again about the rights that API keys in use carry."""
    by_name = {platform.name: platform for platform in platforms}
    while True:
        await asyncio.sleep(_RIGHTS_EVERY_S)
        try:
            for report in await carried.stale(clock.now()):
                name, _, place = report.place.partition(":")
                rights = await _rights_now(by_name.get(name), report.user, place)
                if rights is not None:
                    await carried.renew(report, access.counting(rights), clock.now())
        except Exception:
            log.exception("the rights that API keys carry could not be renewed; this is retried")


async def _rights_now(
    platform: ChatPlatform | None, user: str, place: str
) -> frozenset[str] | None:
    """Return a person's rights in a place now, or None if that is not known."""
    if platform is None or platform.limits.rights_in is None or not platform.connected.is_set():
        return None
    try:
        return await platform.limits.rights_in(user, place)
    except ChatError as error:
        log.info(
            "%s: the rights of %s in %s stay as they are: %s", platform.name, user, place, error
        )
        return None


async def tidy(
    database: Database,
    jobs: JobStore,
    chat_log: ChatLog,
    clock: Clock,
    live: LiveSettings,
) -> None:
    """Delete expired data hourly, and whenever much has been added."""
    doubted: str | None = None
    while True:
        if (doubt := doubt_of(clock)) is not None:
            if doubt != doubted:
                log.error("nothing expires or is deleted: %s", doubt)
            doubted = doubt
            await asyncio.sleep(_LOOK_EVERY_S)
            continue
        doubted = None
        used_mb = 0
        much_mb = max(_MUCH_LEAST_MB, live.kept_mb // 20)
        try:
            await delete_expired(jobs, chat_log, live, clock.now())
            used_mb = await database.used_mb()
        except Exception:
            log.exception("retention failed; it will be retried")
        for _ in range(int(_TIDY_EVERY_S / _LOOK_EVERY_S)):
            await asyncio.sleep(_LOOK_EVERY_S)
            with suppress(StoreError):  # the writer gets the error
                if await database.used_mb() > used_mb + much_mb:
                    break


@asynccontextmanager
async def after(happened: asyncio.Event, *, within_s: float) -> AsyncIterator[None]:
    """Enter the block once the event is set, or after `within_s` seconds."""
    await came(happened, within_s)
    yield


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run tasks alongside the block.

    If a task fails, the block is cancelled. When the block ends, the tasks are cancelled.
    """
    async with TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
