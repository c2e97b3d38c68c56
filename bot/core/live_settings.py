"""The operator's settings that a reload may change while parts of the bot hold them.

Those of single chats are among them: a system prompt, unwanted words, hidden images. Knows no
platform.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

BUSY_AFTER_S = 600.0
IDLE_S = 1800.0
DAYS = 7
KEPT_MB = 20 * 1024
HISTORY_S = 90 * 86400.0

Way = Literal["chat", "api"]
"""How a job is asked for."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class LongestWaits:
    """How long a job waits to begin before it ends, by the way it was asked; None for ever."""

    chat: float | None = None
    api: float | None = None
    later: float | None = None

    def of(self, way: Way, *, later: bool) -> float | None:
        """Return how long a job waits that was asked this way, or for `later`."""
        if later:
            return self.later
        return self.chat if way == "chat" else self.api


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """The usual model of each command, by name; None takes the first able one."""

    image: str | None = None
    edit: str | None = None
    video: str | None = None
    music: str | None = None
    speak: str | None = None
    transcribe: str | None = None
    ask: str | None = None


@dataclass(kw_only=True, slots=True)
class LiveSettings:
    """The settings as they are now: read them at each use, and keep no copy.

    A wait longer than `busy_after_s` is announced at once. A chat without others continues its last
    exchange for `idle_s`. One person may send `files_per_hour_mb`, None for no limit. Finished jobs
    stay for `kept_days` while all take at most `kept_mb`, and the figures of what was done for `history_s`.
    """

    chat_settings: ChatSettingsTable = field(default_factory=ChatSettingsTable)
    defaults: Defaults = field(default_factory=Defaults)
    waits: LongestWaits = field(default_factory=LongestWaits)
    busy_after_s: float = BUSY_AFTER_S
    idle_s: float = IDLE_S
    files_per_hour_mb: int | None = None
    kept_days: float = DAYS
    kept_mb: int = KEPT_MB
    history_s: float = HISTORY_S
