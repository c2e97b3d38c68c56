"""What a chat platform raises; each class says how to react."""


class ChatError(Exception):
    """A chat platform could not do it; subclasses say how to react."""


class MessageGone(ChatError):
    """The message was deleted or can no longer be edited: send a new one."""


class ChatGone(ChatError):
    """The bot was kicked or blocked, or the chat no longer exists: retry rarely, then give up."""


class ChatMoved(ChatError):
    """The chat has a new notation (a Telegram group became a supergroup): use it from now on."""

    def __init__(self, new_chat: str) -> None:
        super().__init__(f"chat moved to {new_chat}")
        self.new_chat = new_chat


class SlowDown(ChatError):
    """Too many requests: wait that long, in seconds, for this chat.

    With `old_message` the chat may go on: only this message is too old to be edited freely.
    """

    def __init__(self, retry_after_s: float, *, old_message: bool = False) -> None:
        super().__init__(f"retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s
        self.old_message = old_message


class TooLarge(ChatError):
    """A file or the whole message is larger than the platform takes."""


class ContentRefused(ChatError):
    """The platform refuses this content for good (a 400); the text is for the operator."""


class ChatUnavailable(ChatError):
    """The platform did not answer, or the connection broke: repeat an edit, never a send.

    `unclear` is True when a send may have happened all the same.
    """

    def __init__(self, cause: str, *, unclear: bool = False) -> None:
        super().__init__(cause)
        self.unclear = unclear


class ServedElsewhere(ChatUnavailable):
    """Another process speaks in this chat now: leave everything to it, and count no failure."""

    def __init__(self) -> None:
        super().__init__("another process serves this chat now")


class ChatRefused(ChatError):
    """The platform will never let this bot in (a wrong token): stop this platform only."""


class AddressTaken(ChatRefused):
    """Its address on this machine is taken: now, and on another machine, it may be free."""
