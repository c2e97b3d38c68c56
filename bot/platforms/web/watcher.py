"""Looks at the bot for all open operator's pages together, and only while one is open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bot.platforms.web.dashboard import OperatorPicture
from queueing.core.errors import QueueError

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
REST = 4.0  # after a look that took a second, none for four: a fifth of the time at most
MAX_VIEWERS = 20  # open pages of all admins together


@dataclass(eq=False, slots=True)
class Glance:
    """What one open page is to show: the newest frame of each kind.

    `changed` is called when one of them is another. `unreadable` are the kinds that could not be
    read last time.
    """

    language: str
    changed: Callable[[], None]
    frames: dict[str, bytes] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def show(self, kind: str, frame: bytes | None) -> None:
        """Take a frame in place of the last of its kind; None if it cannot be read now."""
        unreadable = self.unreadable - {kind} if frame is not None else self.unreadable | {kind}
        if unreadable == self.unreadable and frame in {None, self.frames.get(kind)}:
            return
        self.unreadable = unreadable
        if frame is not None:
            self.frames[kind] = frame
        self.changed()


class Watcher:
    """Refreshes the glances of all open pages. Without any, it waits and reads nothing."""

    def __init__(self, picture: OperatorPicture) -> None:
        self.picture = picture
        self._glances: set[Glance] = set()
        self._wanted = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether as many pages are open as may be."""
        return len(self._glances) >= MAX_VIEWERS

    @contextmanager
    def watching(self, glance: Glance) -> Iterator[None]:
        """Keep a glance up to date until the block ends."""
        self._glances.add(glance)
        self._wanted.set()
        try:
            yield
        finally:
            self._glances.discard(glance)
            if not self._glances:
                self._wanted.clear()

    async def run(self) -> None:
        """Look again and again while a page is open, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            began = loop.time()
            await self.look()
            await asyncio.sleep(max(LOOK_EVERY_S, REST * (loop.time() - began)))

    async def look(self) -> None:
        """Show every page what there is to see now."""
        for language in {glance.language for glance in self._glances}:
            frame = await _read("now", self.picture.now(language))
            for glance in self._glances:
                if glance.language == language:
                    glance.show("now", frame)
        frame = await _read("people", self.picture.people())
        for glance in self._glances:
            glance.show("people", frame)


async def _read(kind: str, reading: Awaitable[bytes]) -> bytes | None:
    """Return a frame; None, which the pages say, if it cannot be read."""
    try:
        return b'{"type":"%b","body":%b}' % (kind.encode(), await reading)
    except QueueError as error:
        _log.info("the operator's page: %s cannot be read: %s", kind, error)
    except Exception:  # noqa: BLE001  # a bug in one frame must not end all pages
        _log.exception("the operator's page: %s cannot be drawn", kind)
    return None
