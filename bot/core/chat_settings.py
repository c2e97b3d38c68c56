"""The operator's settings for single chats: a system prompt, unwanted words, hidden images.

Decides, never stores; knows no platform.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettings:
    """The settings of a chat.

    `system` is given to every text model before a conversation; requests that contain one of
    `words` are refused; `spoiler` hides images until a reader asks for them.
    """

    system: str = ""
    words: tuple[str, ...] = ()
    spoiler: bool = False


_NONE = ChatSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettingsTable:
    """Finds a chat's settings: those of the nearest place that has any.

    A thread's own settings come before its channel's, then its category's, its server's, its
    platform's and the general ones. Keys are "<platform>:<place>" in the platform's own notation, a
    platform's name, or "*". A place's settings apply as a whole, never mixed with those of a wider
    one.
    """

    by_key: Mapping[str, ChatSettings] = field(default_factory=dict)

    def of(self, platform: str, places: Iterable[str]) -> ChatSettings:
        """Return the settings that hold at the first of these places; see `places_of`."""
        if not self.by_key:
            return _NONE
        keys = (*(f"{platform}:{place}" for place in places), platform, "*")
        return next((self.by_key[key] for key in keys if key in self.by_key), _NONE)


def places_of(chat: str, within: Sequence[str]) -> tuple[str, ...]:
    """Return the ids by which a configuration may name a chat, the nearest first.

    They are its own, that of the chat of a topic ("<chat>/<topic>"), and those of what it is part
    of; `within` lists these with the widest first.
    """
    return tuple(dict.fromkeys((chat, chat.partition("/")[0], *reversed(within))))
