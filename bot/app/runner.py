"""Runs the bot until it is stopped: alone on a file, or as one of several processes on a server."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from bot.app import control_socket, heartbeat
from bot.app import reloader as reloading
from bot.app.app import App
from bot.app.cluster.agreement import Agreement
from bot.app.cluster.leader_finder import LeaderFinder
from bot.app.cluster.leases import QUEUE, LeaseKeeper, RoleList, roles_of
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import entrance_at
from bot.app.cluster.transport import calling
from bot.app.cluster_process import HAND_OVER_S, ClusterProcess
from bot.app.metering import Meters, metering
from bot.app.process import stay_small
from bot.app.reloader import LogAs, Reread, log_as_before
from bot.app.setup import GRACE_S, MIGRATIONS, BotSetup
from bot.app.supervisor import beside
from bot.config.config import Config
from bot.config.loader import ConfigError
from bot.people.api_keys import PLATFORM
from bot.platforms.registry import import_libraries
from queueing.core.errors import StoreError
from queueing.core.leases import ServerLook
from queueing.core.ports import SystemClock
from queueing.store.engines import is_postgres, open_leases
from queueing.store.maintenance import look_at_server


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessOptions:
    """The roles that a process applies for (None for all), and whether it serves the API."""

    roles: frozenset[str] | None = None
    serves_api: bool = True


EVERYTHING = ProcessOptions()


_NAMED = 3


async def join(config: Config, agreement: Agreement) -> None:
    """Check that this process may join the others on the database. Changes nothing.

    Raises `ConfigError` if the leader has a different configuration. Without a leader, raises
    `ConfigError` if open jobs need a model that this configuration lacks. Raises `StoreError` if
    the database cannot be used.
    """
    require_place(config, agreement, await asyncio.to_thread(look_at_server, config.database_url))


def require_place(config: Config, agreement: Agreement, look: ServerLook) -> None:
    """Check that this configuration fits the database. Raises `ConfigError`."""
    agreement.require(look.held)
    if not any(each.role.name == QUEUE for each in look.held):
        require_models(config, look)


def require_models(config: Config, look: ServerLook) -> None:
    """Check that every open job's model is configured. Raises `ConfigError`.

    Skipped if a server with `discover` may offer the model later.
    """
    if config.discovering():
        return
    missing = [model for model in look.open_jobs if model not in config.models]
    if not missing:
        return
    first = [f"{look.open_jobs[model]} for {model}" for model in missing[:_NAMED]]
    more = len(missing) - _NAMED
    others = f" and {more} more models" if more > 0 else ""
    sentence = (
        f"there are open jobs for models that the configuration lacks ({', '.join(first)}{others});"
        f" add the models again; to remove one, first cancel its jobs (/clear {missing[0]})"
    )
    raise ConfigError((sentence,))


Look = Callable[[], str | None]
"""Returns why the bot accepts no requests, or None."""

log = logging.getLogger(__name__)


async def run(
    config: Config,
    version: str,
    options: ProcessOptions = EVERYTHING,
    *,
    reread: Reread | None = None,
    log_as: LogAs = log_as_before,
) -> None:
    """Run until cancelled, then shut down in order.

    With `reread`, SIGHUP and `usher reload` reload the configuration, and `log_as` then sets up
    logging.

    Raises `StoreError` if the database cannot be used or was found to be damaged, `BadModel` for a
    model that cannot work, `ConfigError` if the configuration does not match that of the other
    processes, and `ChatRefused` if no chat can be used. Each of them may be in an exception group.
    """
    several = is_postgres(config.database_url)
    grace_s = HAND_OVER_S if several else GRACE_S
    setup = BotSetup(config, version=version, reread=reread, log_as=log_as, grace_s=grace_s)
    async with reloading.on_signal(setup.reloader) if reread else nullcontext():
        if several:
            await _run_beside_others(setup, version, options)
        else:
            await _run_alone(setup, version)


async def _run_alone(setup: BotSetup, version: str) -> None:
    config = setup.config
    damage = None
    try:
        # The heartbeat starts once this process owns the database, so that a second bot does not
        # remove the first one's file.
        async with (
            App(setup).running() as parts,
            beside(heartbeat.beat(config.sign_of_life, parts.database.look_at_file), stay_small()),
            reloads(setup),
        ):
            served = [platform.name for platform in parts.platforms]
            served += [] if parts.gateway is None else ["programs"]
            log.info("usher %s serves %s to %s", version, _models(config), ", ".join(served))
            try:
                await parts.queue.run()
            finally:
                damage = parts.database.damage
    finally:
        if damage is not None:  # an orderly shutdown, but the exit status must report a failure
            raise StoreError(damage)


async def _run_beside_others(setup: BotSetup, version: str, options: ProcessOptions) -> None:
    config = setup.config
    names = [name for name in roles_of(config) if options.roles is None or name in options.roles]
    import_libraries(config.chats)
    agreement = Agreement(config, version)
    await join(config, agreement)
    async with AsyncExitStack() as stack:
        meters = await stack.enter_async_context(metering(config.metrics, version))
        reads = (PLATFORM,) if options.serves_api and config.api is not None else ()
        process = await _joined(setup, agreement, stack, meters, reads)
        log.info("usher %s stands by for %s", version, ", ".join(names) or "no role")
        await process.run(names, serves_api=options.serves_api)


async def _joined(
    setup: BotSetup,
    agreement: Agreement,
    stack: AsyncExitStack,
    meters: Meters | None,
    reads: Collection[str],
) -> ClusterProcess:
    """Open what the roles of this process share. Raises `StoreError`."""
    looks, config, process = _Looks(), setup.config, process_name()
    cluster = config.cluster
    roles = await stack.enter_async_context(
        open_leases(
            config.database_url,
            migrations=(MIGRATIONS,),
            process=process,
            lease_s=cluster.lease_s,
            compared=setup.clock.compare if isinstance(setup.clock, SystemClock) else _ignore,
        )
    )
    await stack.enter_async_context(agreement.kept(roles, every_s=cluster.lease_s / 3))
    tell = partial(agreement.tell_again, roles, process)

    stack.enter_context(setup.reloader.telling(tell, partial(agreement.reloading, roles)))
    await stack.enter_async_context(reloads(setup))
    heartbeat_s = cluster.heartbeat_s
    entrance = await stack.enter_async_context(
        entrance_at(cluster.listen, cluster.advertise, roles.local_host, heartbeat_s=heartbeat_s)
    )
    call = await stack.enter_async_context(calling(heartbeat_s=heartbeat_s))
    finder = LeaderFinder(roles, entrance, call, look_every_s=heartbeat_s)
    link = QueueConnection(finder.dial, finder.moved, reads=reads)
    await stack.enter_async_context(
        beside(heartbeat.beat(config.sign_of_life, looks.look), link.run(), stay_small())
    )
    keeper = LeaseKeeper(roles, lease_s=cluster.lease_s)
    if meters is not None:
        meters.on_roles(keeper, setup.clock)
    return ClusterProcess(
        setup,
        keeper=keeper,
        entrance=entrance,
        link=link,
        agreement=agreement,
        shown=RoleList(roles, roles_of(config)),
        watched=looks.watched,
        meters=meters,
    )


@asynccontextmanager
async def reloads(setup: BotSetup) -> AsyncIterator[None]:
    """Serve reload requests until the block ends, if the setup supports them."""
    if setup.reread is None:
        yield
        return
    reloader = setup.reloader
    async with (
        beside(reloader.run()),
        control_socket.listening(setup.config.sign_of_life, reloader.reload, setup.desk.answer),
    ):
        yield


class _Looks:
    """Combines the checks of a process's roles. The heartbeat reports the first problem."""

    def __init__(self) -> None:
        self._looks: list[Look] = []

    def look(self) -> str | None:
        return next(filter(None, (look() for look in tuple(self._looks))), None)

    @contextmanager
    def watched(self, look: Look) -> Iterator[None]:
        self._looks.append(look)
        try:
            yield
        finally:
            self._looks.remove(look)


def _ignore(_: float) -> None:
    """Ignore the difference: only the system clock is compared."""


def _models(config: Config) -> str:
    return ", ".join(config.models) or "what its servers offer"


def process_name() -> str:
    """Return a unique name for this process: host name, process id and a random part.

    Containers of an image may share a host name and the process id 1.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
