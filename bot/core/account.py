"""What a chat says of a bot when it is set up: its name, how it is invited, and whose it is."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPerson:
    """A person of a chat; `id` is written as in the configuration, such as `telegram:42`."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatAccount:
    """A bot's account; `invite` is the address that brings it into a chat.

    `owner` is the person who made it, if the chat tells.
    """

    name: str
    invite: str
    owner: ChatPerson | None = None
