"""Whether this process may speak in a chat and act on what it hears there.

Where several processes share the chats, a chat's connection belongs to one of them at a time. A
process that was frozen finds its connections open when it comes back, and another process in its
place: so it looks before each call it makes, and before it acts on what it heard.
"""

from collections.abc import Callable

from bot.chat.api.errors import ServedElsewhere

Held = Callable[[], bool]
"""Returns whether the chat is still this process's, from memory."""


def always() -> bool:
    """Return True: there is no other process."""
    return True


def require(held: Held) -> None:
    """Raise `ServedElsewhere` unless the chat is this process's."""
    if not held():
        raise ServedElsewhere
