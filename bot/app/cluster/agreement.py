"""Agreement: processes on one database run with one configuration, or the later one does not start."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from bot.config.config import Config
from bot.config.differences import Marks, differences, in_words, marks
from bot.config.loader import ConfigError
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.leases import About, LeaderInfo, LeaseStore

log = logging.getLogger(__name__)

DECISIVE = "queue"
"""The post whose holder the others must agree with."""

_VERSION, _SETTINGS = "version", "settings"


class Agreement:
    """What this process tells about itself, and what it finds different in the others."""

    def __init__(self, config: Config, version: str) -> None:
        self._config = config
        self._version = version
        self._known = 0  # the epoch of the queue's holder that was compared last

    def about(self, post: str) -> About:
        """Return what the holder of a post notes beside it: its version, and what must agree."""

        def told(secret: bytes) -> str:
            content: dict[str, object] = {_VERSION: self._version}
            if post == DECISIVE:
                found = marks(self._config, secret)
                content[_SETTINGS] = [[mark, *place] for place, mark in found.items()]
            return json.dumps(content)

        return told

    async def reloading(self, posts: LeaseStore, config: Config) -> Callable[[], None]:
        """Return what has another configuration told and compared from then on.

        A process that is reloaded before the others goes on beside the holder it agreed with. That
        holder may be new, so it is compared before. Raises `ConfigError` where it differs already.
        """
        await self._compare(posts)

        def adopt() -> None:
            self._config = config

        return adopt

    async def tell_again(self, posts: LeaseStore, process: str) -> tuple[str, ...]:
        """Tell the others what this process has now; return what the holder of the queue lacks.

        Raises `StoreError`.
        """
        for each in await posts.introductions():
            if each.post.name != DECISIVE:
                continue
            if each.post.holder == process:
                await posts.introduce(each.post, self.about(DECISIVE)(each.secret))
            elif apart := self.differences(each):
                holder = f"the process that holds the queue ({each.post.holder})"
                return (f"{holder} has another configuration: {in_words(apart)}; reload it, too",)
        return ()

    def differences(self, told: LeaderInfo) -> tuple[str, ...]:
        """Return in words what a holder has set otherwise; none if it told nothing about it."""
        there = _settings(told.about)
        return () if there is None else differences(marks(self._config, told.secret), there)

    def require(self, held: Iterable[LeaderInfo]) -> None:
        """Raise `ConfigError` if the process that holds the queue has another configuration."""
        for each in held:
            if each.post.name == DECISIVE and (apart := self.differences(each)):
                version = version_of(each.about)
                other = f"{each.post.holder}, usher {version}" if version else each.post.holder
                sentence = (
                    f"another process of this cluster ({other}) has another configuration:"
                    f" {in_words(apart)}; give all the same one, or stop the others first"
                )
                raise ConfigError((sentence,))

    @asynccontextmanager
    async def kept(self, posts: LeaseStore, *, every_s: float) -> AsyncIterator[None]:
        """Compare with each next holder of the queue, too: two may have started at once.

        Raises `ConfigError` within a group.
        """
        async with TaskGroup() as group:
            watching = group.create_task(self._watch(posts, every_s))
            try:
                yield
            finally:
                watching.cancel()

    async def _watch(self, posts: LeaseStore, every_s: float) -> None:
        while True:
            await self._compare(posts)
            await asyncio.sleep(every_s)

    async def _compare(self, posts: LeaseStore) -> None:
        """Compare with the holder of the queue, once in each of its epochs."""
        try:
            holders = {each.name: each for each in await posts.holders()}
            holder = holders.get(DECISIVE)
            if holder is not None and holder.left_s and holder.epoch != self._known:
                self.require(await posts.introductions())
                self._known = holder.epoch
        except StoreError as error:
            log.debug("the configurations cannot be compared: %s", error)


def version_of(about: str) -> str:
    """Return the version a holder told, empty if it told none."""
    return str(_content(about).get(_VERSION, ""))


def _settings(about: str) -> Marks | None:
    listed = _content(about).get(_SETTINGS)
    if not isinstance(listed, list):
        return None
    return {tuple(place): mark for mark, *place in listed}


def _content(about: str) -> Mapping[str, object]:
    """Return what a holder told; nothing if a later version tells it in another form."""
    try:
        content = json.loads(about)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
