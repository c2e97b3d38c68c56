"""How a bot is built: its configuration, and replacements of parts for the demo and tests."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.resources import files

from backends.registry import connect
from bot.api.calls.fetcher import Fetcher
from bot.app.assembly import SharedParts, read_records
from bot.app.control_socket import DashboardAnswers
from bot.app.metering import Meters
from bot.app.reloader import LiveConfig, LogAs, Reloader, Reread, log_as_before
from bot.app.supervisor import most_mb
from bot.config.loader import Config
from bot.core.platform import ChatPlatform
from bot.core.service import QueueService
from bot.platforms.registry import PlatformParts, platforms
from queueing.core.leases import Lease
from queueing.core.ports import Backend, Clock, SystemClock
from queueing.store.engines import open_database
from queueing.store.sql.database import Database
from queueing.store.sql.migrations import MigrationSet

GRACE_S = 4.0  # for running jobs on shutdown
SETTLE_S = 1.5  # then for their last messages; undelivered results are kept

MIGRATIONS = MigrationSet(
    name="bot",
    directory=files("bot.app") / "schema",
    postgres=files("bot.app") / "schema" / "postgres",
)

MakePlatforms = Callable[[PlatformParts], Sequence[ChatPlatform]]


@dataclass(slots=True, eq=False)
class BotSetup:
    """A bot's configuration and factories. Nothing is opened yet.

    The overrides are for the demo and for tests: another database, virtual time, other chats, other
    servers. With `inline`, which virtual time requires, the database works in the calling thread.
    `reread` reads the configuration again for a reload, and `log_as` then sets up logging.
    """

    config: Config
    database_url: str = ""
    clock: Clock = field(default_factory=SystemClock)
    make_platforms: MakePlatforms | None = None
    make_backend: Callable[..., Backend] = connect
    make_fetcher: Callable[..., Fetcher] = Fetcher
    inline: bool = False
    version: str = ""
    grace_s: float = field(default_factory=lambda: GRACE_S)
    reread: Reread | None = None
    log_as: LogAs = log_as_before
    desk: DashboardAnswers = field(default_factory=DashboardAnswers)
    in_force: LiveConfig = field(init=False)
    reloader: Reloader = field(init=False)

    def __post_init__(self) -> None:
        """Put the configuration in force. A reload replaces it."""
        self.in_force = LiveConfig(self.config)
        reread = self.reread or (lambda: self.config)
        self.reloader = Reloader(self.in_force, reread, self.clock, log_as=self.log_as)

    async def open_database(
        self, stack: AsyncExitStack, *, lease: Lease | None = None, shared: bool = False
    ) -> Database:
        """Open the database. It is closed with the stack. Raises `StoreError`."""
        database = await open_database(
            self.database_url or self.in_force.config.database_url,
            migrations=(MIGRATIONS,),
            inline=self.inline,
            most_mb=most_mb(self.in_force.config.retention),
            lease=lease,
            shared=shared,
        )
        stack.push_async_callback(database.aclose)
        return database

    async def groundwork(
        self, database: Database, queue: QueueService, meters: Meters | None = None
    ) -> SharedParts:
        """Build the shared parts between people and a queue. Raises `StoreError`."""
        if meters is not None:
            database.time_commits(meters.instruments.commit.observe)
        return SharedParts(
            in_force=self.in_force,
            clock=self.clock,
            queue=queue,
            stored=await read_records(database, self.in_force, self.clock),
            instruments=None if meters is None else meters.instruments,
            fetcher=self._fetcher(),
        )

    def _fetcher(self) -> Fetcher | None:
        """Return what fetches images for programs and people, if that is allowed."""
        api, proxies = self.in_force.config.api, self.in_force.config.proxies
        return self.make_fetcher(proxies=proxies) if api is not None and api.fetch else None

    def platforms(self, fittings: PlatformParts) -> Sequence[ChatPlatform]:
        """Build the chats, without connecting them."""
        if self.make_platforms is not None:
            return self.make_platforms(fittings)
        return platforms(self.in_force.config.chats, fittings)
