"""Runs the bot until it is stopped: alone on a file, or as one of several processes on a server.

On a server a process stands by until it leads, and serves for as long as it does.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bot.chat.records.stored_records import MIGRATIONS
from bot.cluster.agreement import Agreement
from bot.cluster.posts import Lease, PostKeeper
from bot.config.config import Config
from bot.runtime import heartbeat
from bot.runtime.app import App
from bot.runtime.joining import join
from bot.runtime.process_options import EVERYTHING, ProcessOptions
from bot.runtime.setup import GRACE_S, SETTLE_S, BotSetup
from queueing.core.errors import StoreError
from queueing.core.posts import Tenure
from queueing.store import is_postgres, open_posts

QUEUE = "queue"
"""The post of the process that schedules; the chats, the page and the API go with it."""

HAND_OVER_S = 0.2
"""How long running jobs, and then last messages, get where another process goes on with both."""

Look = Callable[[], str | None]
"""Returns what keeps the bot from accepting requests, None if nothing does."""

log = logging.getLogger(__name__)


async def run(
    config: Config,
    version: str,
    options: ProcessOptions = EVERYTHING,  # noqa: ARG001  # one duty holds everything so far
) -> None:
    """Run until cancelled, then stop in order.

    Raises `StoreError` when the database cannot be used, or was found damaged meanwhile; `BadModel`
    for a model that cannot work, `ConfigError` for a configuration that does not fit the other
    processes on the database, and `ChatRefused` when no chat lets the bot in.
    """
    if is_postgres(config.database_url):
        await _run_beside_others(config, version)
        return
    # The heartbeat begins once this process owns the database: a second bot must not end the first
    # one's.
    await _serve(config, version, lambda look: _beating(config, look))


async def _run_beside_others(config: Config, version: str) -> None:
    lease_s, looks = config.cluster.lease_s, list[Look]()
    agreement = Agreement(config, version)
    await join(config, agreement)

    def look() -> str | None:
        return looks[-1]() if looks else None  # a process that stands by is well

    @asynccontextmanager
    async def looked_at(here: Look) -> AsyncIterator[None]:
        looks.append(here)
        try:
            yield
        finally:
            looks.remove(here)

    async def duty(lease: Lease) -> None:
        await _serve(config, version, looked_at, lease.tenure)

    async with (
        open_posts(
            config.database_url, migrations=(MIGRATIONS,), process=process_name(), lease_s=lease_s
        ) as posts,
        agreement.kept(posts, every_s=lease_s / 3),
        _beating(config, look),
    ):
        log.info("usher %s stands by", version)
        await PostKeeper(posts, lease_s=lease_s).serve(QUEUE, duty, about=agreement.about(QUEUE))


async def _serve(
    config: Config,
    version: str,
    looked_at: Callable[[Look], AbstractAsyncContextManager[None]],
    tenure: Tenure | None = None,
) -> None:
    grace_s, settle_s = (GRACE_S, SETTLE_S) if tenure is None else (HAND_OVER_S, HAND_OVER_S)
    app, damage = App(BotSetup(config, grace_s=grace_s)), None
    try:
        async with (
            app.running(tenure=tenure, settle_s=settle_s) as parts,
            looked_at(parts.database.look_at_file),
        ):
            served = [platform.name for platform in parts.platforms]
            served += [] if parts.gateway is None else ["programs"]
            models = ", ".join(config.models) or "what its servers offer"
            log.info("usher %s serves %s to %s", version, models, ", ".join(served))
            try:
                await parts.queue.run()
            finally:
                damage = parts.database.damage
    finally:
        if damage is not None and tenure is None:  # an orderly stop, but not a good end
            raise StoreError(damage)


@asynccontextmanager
async def _beating(config: Config, look: Look) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        beat = group.create_task(heartbeat.beat(config.sign_of_life, look))
        try:
            yield
        finally:
            beat.cancel()


def process_name() -> str:
    """Return how people are shown this process: its machine and its number there."""
    return f"{socket.gethostname()}:{os.getpid()}"
