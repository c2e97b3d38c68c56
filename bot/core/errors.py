"""Errors that a chat platform raises. Each class states how to react."""


class ChatError(Exception):
    """A chat platform could not complete a call. Subclasses state how to react."""


class MessageGone(ChatError):
    """The message was deleted or cannot be edited: send a new one."""


class ChatGone(ChatError):
    """The bot was kicked or blocked, or the chat is gone: retry rarely, then give up."""


class ChatMoved(ChatError):
    """The chat has a new id (a Telegram group became a supergroup): use it from then on."""

    def __init__(self, new_chat: str) -> None:
        super().__init__(f"chat moved to {new_chat}")
        self.new_chat = new_chat


class SlowDown(ChatError):
    """Too many requests: wait this many seconds for this chat.

    With `old_message`, other requests to the chat may continue: only this message is too old to be
    edited freely.
    """

    def __init__(self, retry_after_s: float, *, old_message: bool = False) -> None:
        super().__init__(f"retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s
        self.old_message = old_message


class TooLarge(ChatError):
    """A file or the whole message exceeds the platform's size limit."""


class ContentRefused(ChatError):
    """The platform permanently refuses this content (a 400). The text is for the operator."""


class ChatUnavailable(ChatError):
    """The platform did not answer, or the connection broke: repeat an edit, never a send.

    `unclear` is True when a send may have succeeded.
    """

    def __init__(self, cause: str, *, unclear: bool = False) -> None:
        super().__init__(cause)
        self.unclear = unclear


class ServedElsewhere(ChatUnavailable):
    """Another process holds this chat's lease: leave everything to it and count no failure."""

    def __init__(self) -> None:
        super().__init__("another process serves this chat now")


class ChatRefused(ChatError):
    """The platform permanently refuses this bot (a wrong token): stop this platform only."""


class AddressTaken(ChatRefused):
    """The platform's address on this machine is in use.

    It may be free later, or on another machine.
    """
