"""Albums: Telegram sends their parts one by one, with no count, no end mark, and one caption.

Finds the part with the question, and remembers which albums were handed on. Pure but for that
memory.
"""

from collections import OrderedDict
from collections.abc import Sequence

from telegram import Message, Update

ALBUM_QUIET_S = (
    2.0  # an album without a further part for this long is complete; each part restarts the timer
)
ALBUM_MOST = 10  # parts
_REMEMBERED = 1000  # albums; a part has been seen to arrive 11 s late


def album_of(update: Update) -> str | None:
    """Return the album an update is a part of."""
    album = update.message.media_group_id if update.message is not None else None
    return None if album is None else str(album)


def in_order(updates: Sequence[Update]) -> tuple[Message, ...]:
    """Return the messages of an album in the order the person sees them."""
    messages = (update.message for update in updates if update.message is not None)
    return tuple(sorted(messages, key=lambda message: message.message_id))


class Begun:
    """The recently handed-on albums: (chat, album)."""

    def __init__(self) -> None:
        self._albums: OrderedDict[tuple[int, str], bool] = OrderedDict()

    def asked(self, chat: int, album: str) -> bool | None:
        """Return whether an album's first parts were meant for the bot, None for an unknown album."""
        return self._albums.get((chat, album))

    def note(self, chat: int, album: str, *, asked: bool) -> None:
        """Remember an album whose first parts have been handed on."""
        self._albums.setdefault((chat, album), asked)
        if len(self._albums) > _REMEMBERED:
            self._albums.popitem(last=False)
