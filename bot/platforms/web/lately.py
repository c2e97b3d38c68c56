"""Files of the page that an edit replaced a moment ago, while a page may be about to fetch them.

Previews come faster than a slow connection fetches: without this it would never show one.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from bot.platforms.web.chat_log import ShownFile
from queueing.core.ports import Clock
from queueing.core.requests import File

KEPT_S = 10.0
MOST_BYTES = 16 * 1024 * 1024  # of all chats together


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    message: str
    file: File
    until: float


class Lately:
    """Keeps what messages show for some seconds, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._bytes = 0

    def keep(
        self, chat: str, message: str, shown: Sequence[ShownFile], files: Sequence[File]
    ) -> None:
        """Keep the files a message shows now."""
        until = self._clock.now() + KEPT_S
        for name, file in zip(shown, files, strict=True):
            self._drop(chat, name.id)
            self._kept[chat, name.id] = _Kept(message=message, file=file, until=until)
            self._bytes += len(file.data)
        while self._kept and (self._bytes > MOST_BYTES or self._oldest_is_over()):
            self._drop(*next(iter(self._kept)))

    def find(self, chat: str, file: str) -> tuple[str, File] | None:
        """Return a file and its message, None if it was too long ago."""
        kept = self._kept.get((chat, file))
        if kept is None or kept.until < self._clock.now():
            return None
        return kept.message, kept.file

    def _oldest_is_over(self) -> bool:
        return next(iter(self._kept.values())).until < self._clock.now()

    def _drop(self, chat: str, file: str) -> None:
        kept = self._kept.pop((chat, file), None)
        self._bytes -= len(kept.file.data) if kept is not None else 0
