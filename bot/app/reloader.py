"""Reads the configuration again and applies the changes that need no restart, all or nothing."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from bot.config.config import Config
from bot.config.differences import changed, merged
from bot.config.loader import ConfigError
from bot.core.live_settings import (
    ChatSettings,
    ChatSettingsTable,
    Defaults,
    LiveSettings,
    LongestWaits,
)
from bot.people.audit_log import Act, AuditLog
from bot.requests.rules import RuleTable
from queueing.core.errors import BadModel, StoreError
from queueing.core.ports import Clock

if TYPE_CHECKING:
    from bot.requests.options import Style


class LiveConfig(LiveSettings):
    """The configuration in force, and the objects derived from it that parts keep."""

    def __init__(self, config: Config) -> None:
        self._rooms: dict[str, ChatSettings] = {}
        super().__init__(chat_settings=ChatSettingsTable(by_key=self._rooms))
        self.config = config
        self.access = config.access()
        self.styles: dict[str, Style] = {}
        self.rules = RuleTable()
        self.take(config)

    def take(self, config: Config) -> None:
        """Replace the configuration. Parts that hold derived objects see the new values."""
        self.config = config
        self.access.adopt(config.access())
        self.styles.clear()
        self.styles.update({name: style.style() for name, style in config.styles.items()})
        self.rules.take(config.rule_table())
        self._rooms.clear()
        self._rooms.update({name: room.settings() for name, room in config.rooms.items()})
        self.defaults = Defaults(**config.defaults.model_dump())
        self.waits = LongestWaits(**config.waiting.model_dump())
        self.busy_after_s = config.limits.busy_after_s
        self.idle_s = config.conversation.idle
        self.files_per_hour_mb = config.limits.files_per_hour_mb
        self.kept_days = config.retention.days
        self.kept_mb = config.retention.size_mb
        self.history_s = config.retention.history_s


log = logging.getLogger(__name__)

OPERATOR = "operator"
"""The actor of reloads in the audit log: whoever operates the machine."""

_DETAIL_LIMIT = 400  # characters of the detail in the audit log

Reread = Callable[[], Config]
"""Reads the configuration as at startup. Raises `ConfigError`."""

LogAs = Callable[[Config, Config], None]
"""Sets up logging as in the second configuration, redacting the secrets of both."""

Afterwards = Callable[[], Awaitable[tuple[str, ...]]]
"""Announces a reload to other processes. Returns notes for the operator. Raises `StoreError`."""

Prepare = Callable[[Config], Awaitable[Callable[[], None]]]
"""Prepares for a configuration and returns a function that applies it. Raises `BadModel`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reloaded:
    """The outcome of a reload: what was applied, what needs a restart, or why it failed."""

    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def as_json(self) -> Mapping[str, Any]:
        """Convert to plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Convert the result of `as_json` back."""
        return cls(**{name: tuple(map(str, value[name])) for name in cls.__dataclass_fields__})

    def lines(self) -> tuple[str, ...]:
        """Describe the outcome to the operator, in lines."""
        if self.problems:
            return (*self.problems, "nothing was changed: the bot keeps its previous configuration")
        told = [f"applied: {', '.join(self.applied)}"] if self.applied else []
        told += [f"needs a restart: {', '.join(self.restart)}"] if self.restart else []
        return (*(told or ["nothing has changed"]), *(f"warning: {note}" for note in self.notes))


def log_as_before(_before: Config, _after: Config) -> None:
    """Leave logging unchanged."""


@dataclass(frozen=True, eq=False, repr=False)
class Reloader:
    """Reloads the configuration, one reload at a time."""

    in_force: LiveConfig
    reread: Reread
    clock: Clock
    _: KW_ONLY
    log_as: LogAs
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _asked: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _audits: list[AuditLog] = field(default_factory=list, init=False)
    _prepares: list[Prepare] = field(default_factory=list, init=False)
    _afterwards: list[Afterwards] = field(default_factory=list, init=False)

    def ask(self) -> None:
        """Request a reload, to be done by `run`. Safe in the loop's signal handlers."""
        self._asked.set()

    async def run(self) -> None:
        """Reload on request, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.reload()

    @contextmanager
    def applying(self, audit: AuditLog, *prepares: Prepare) -> Iterator[None]:
        """Inside the block, record reloads in `audit`, and call `prepares` before each one."""
        self._audits.append(audit)
        self._prepares.extend(prepares)
        try:
            yield
        finally:
            self._audits.remove(audit)
            for prepare in prepares:
                self._prepares.remove(prepare)

    @contextmanager
    def telling(self, afterwards: Afterwards, *prepares: Prepare) -> Iterator[None]:
        """Inside the block, announce reloads to other processes."""
        self._afterwards.append(afterwards)
        self._prepares.extend(prepares)
        try:
            yield
        finally:
            self._afterwards.remove(afterwards)
            for prepare in prepares:
                self._prepares.remove(prepare)

    async def reload(self) -> Reloaded:
        """Read the configuration and apply it.

        The result reports errors. If there are any, nothing is changed.
        """
        async with self._one_at_a_time:
            try:
                outcome = await self._reload()
            except ConfigError as error:
                outcome = Reloaded(problems=error.problems)
            except BadModel as error:
                outcome = Reloaded(problems=(str(error),))
            except Exception as error:
                log.exception("cannot reload the configuration")
                outcome = Reloaded(problems=(f"the reload failed: {error!r}",))
            else:
                outcome = replace(outcome, notes=outcome.notes + await self._announce())
            self._log_outcome(outcome)
            await self._record(outcome)
            return outcome

    async def _reload(self) -> Reloaded:
        before = self.in_force.config
        new = await asyncio.to_thread(self.reread)
        after = merged(before, new)
        commits = [await prepare(after) for prepare in tuple(self._prepares)]
        # From here on, nothing may fail and nothing is awaited.
        self.log_as(before, after)
        self.in_force.take(after)
        for commit in commits:
            commit()
        return Reloaded(
            applied=changed(before, after), restart=changed(after, new), notes=new.warnings
        )

    async def _announce(self) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        for tell in self._afterwards:
            try:
                notes += await tell()
            except StoreError as error:
                notes += (f"the other processes could not be told: {error}",)
        return notes

    def _log_outcome(self, outcome: Reloaded) -> None:
        if outcome.problems:
            log.error("the configuration was not reloaded:\n%s", "\n".join(outcome.lines()))
        else:
            log.info("the configuration was reloaded: %s", "; ".join(outcome.lines()))

    async def _record(self, outcome: Reloaded) -> None:
        if outcome.problems or not outcome.applied or not self._audits:
            return
        detail = ", ".join(outcome.applied)
        if len(detail) > _DETAIL_LIMIT:
            detail = f"{detail[:_DETAIL_LIMIT]}…"
        at = self.clock.now()
        act = Act(at=at, actor=OPERATOR, action="reload", subject="configuration", detail=detail)
        try:
            await self._audits[-1].write(act)
        except StoreError as error:
            log.warning("cannot record the reload in the audit log: %s", error)


@asynccontextmanager
async def on_signal(reloader: Reloader) -> AsyncIterator[None]:
    """Reload on every SIGHUP until the block ends, on systems with that signal."""
    loop = asyncio.get_running_loop()
    hang_up = getattr(signal, "SIGHUP", None)
    try:
        if hang_up is not None:
            loop.add_signal_handler(hang_up, reloader.ask)
    except (NotImplementedError, RuntimeError, ValueError) as error:  # not in the main thread
        log.debug("SIGHUP does not reload: %s", error)
        hang_up = None
    try:
        yield
    finally:
        if hang_up is not None:
            loop.remove_signal_handler(hang_up)
