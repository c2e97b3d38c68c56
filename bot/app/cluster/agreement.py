"""Ensures that all processes on a database have the same configuration.

A process whose configuration differs from the leader's does not start.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from bot.app.cluster.leases import QUEUE
from bot.config.config import Config
from bot.config.differences import Marks, differences, in_words, marks
from bot.config.loader import ConfigError
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.leases import About, LeaderInfo, LeaseStore

log = logging.getLogger(__name__)

_VERSION, _SETTINGS = "version", "settings"


class Agreement:
    """Publishes this process's version and settings, and compares them with the leader's."""

    def __init__(self, config: Config, version: str) -> None:
        self._config = config
        self._version = version
        self._known = 0  # epoch of the leader that was last compared

    def about(self, role: str) -> About:
        """Return a function that builds the text that the holder of a role publishes.

        It contains the version. For the leader it also contains the digests of the settings that
        must be the same everywhere.
        """

        def told(secret: bytes) -> str:
            content: dict[str, object] = {_VERSION: self._version}
            if role == QUEUE:
                found = marks(self._config, secret)
                content[_SETTINGS] = [[mark, *place] for place, mark in found.items()]
            return json.dumps(content)

        return told

    async def reloading(self, roles: LeaseStore, config: Config) -> Callable[[], None]:
        """Check the leader, and return a function that adopts a new configuration for later checks.

        A process that is reloaded before the others keeps running next to the leader that it agreed
        with. A leader that is new may not have been compared yet, so it is compared first. Raises
        `ConfigError` if it differs.
        """
        await self._compare(roles)

        def adopt() -> None:
            self._config = config

        return adopt

    async def tell_again(self, roles: LeaseStore, process: str) -> tuple[str, ...]:
        """Publish this process's settings after a reload. Returns notes on how the leader differs.

        Raises `StoreError`.
        """
        for each in await roles.introductions():
            if each.role.name != QUEUE:
                continue
            if each.role.holder == process:
                await roles.introduce(each.role, self.about(QUEUE)(each.secret))
            elif apart := self.differences(each):
                holder = f"the process that holds the queue ({each.role.holder})"
                return (f"{holder} has another configuration: {in_words(apart)}; reload it too",)
        return ()

    def differences(self, told: LeaderInfo) -> tuple[str, ...]:
        """Describe the settings in which the leader differs; () if it has published none."""
        there = _settings(told.about)
        return () if there is None else differences(marks(self._config, told.secret), there)

    def require(self, held: Iterable[LeaderInfo]) -> None:
        """Check that the leader has the same configuration. Raises `ConfigError`."""
        for each in held:
            if each.role.name == QUEUE and (apart := self.differences(each)):
                version = version_of(each.about)
                other = f"{each.role.holder}, usher {version}" if version else each.role.holder
                sentence = (
                    f"another process of this cluster ({other}) has another configuration:"
                    f" {in_words(apart)}; give all processes the same one, or stop the others first"
                )
                raise ConfigError((sentence,))

    @asynccontextmanager
    async def kept(self, roles: LeaseStore, *, every_s: float) -> AsyncIterator[None]:
        """Inside the block, compare with every new leader, because two processes may start at once.

        Raises `ConfigError` in an exception group.
        """
        async with TaskGroup() as group:
            watching = group.create_task(self._watch(roles, every_s))
            try:
                yield
            finally:
                watching.cancel()

    async def _watch(self, roles: LeaseStore, every_s: float) -> None:
        while True:
            await self._compare(roles)
            await asyncio.sleep(every_s)

    async def _compare(self, roles: LeaseStore) -> None:
        """Compare with the leader, once per epoch."""
        try:
            holders = {each.name: each for each in await roles.holders()}
            holder = holders.get(QUEUE)
            if holder is not None and holder.left_s and holder.epoch != self._known:
                self.require(await roles.introductions())
                self._known = holder.epoch
        except StoreError as error:
            log.debug("cannot compare the configurations: %s", error)


def version_of(about: str) -> str:
    """Return the version that a process published, or ""."""
    return str(_content(about).get(_VERSION, ""))


def _settings(about: str) -> Marks | None:
    listed = _content(about).get(_SETTINGS)
    if not isinstance(listed, list):
        return None
    return {tuple(place): mark for mark, *place in listed}


def _content(about: str) -> Mapping[str, object]:
    """Parse the text that a process published. Returns {} if it has a later version's format."""
    try:
        content = json.loads(about)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
