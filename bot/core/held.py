"""Whether this process may speak in a chat and act on what it hears there.

Where several processes share the chats, a chat's connection belongs to one of them at a time. A
process that was frozen finds its connections open when it comes back, and another process in its
place: so it looks before each call it makes, and before it acts on what it heard.
"""

from bot.core.errors import ServedElsewhere


class ChatLease:
    """A chat that is this process's; this one always is, because there is no other process."""

    @property
    def held(self) -> bool:
        """Whether the chat is still this process's, from memory."""
        return True

    def require(self) -> None:
        """Raise `ServedElsewhere` unless the chat is this process's."""
        if not self.held:
            raise ServedElsewhere


ALONE = ChatLease()
