"""Operator settings that a reload can change while parts of the bot hold them.

They include the settings of single chats: a system prompt, unwanted words, hidden images. Knows
nothing about platforms.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bot.core.asker import rooms_of

BUSY_AFTER_S = 600.0
IDLE_S = 1800.0
DAYS = 7
KEPT_MB = 20 * 1024
HISTORY_S = 90 * 86400.0

Way = Literal["chat", "api"]
"""How a job was requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettings:
    """The settings of a chat.

    `system` is sent to every text model before a conversation. Requests that contain one of `words`
    are refused. `spoiler` hides images until a reader asks for them.
    """

    system: str = ""
    words: tuple[str, ...] = ()
    spoiler: bool = False


_NONE = ChatSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSettingsTable:
    """Finds a chat's settings: those of the nearest place that has any.

    The order is: thread, channel, category, server, platform, general. Keys are
    "<platform>:<place>", where the place is an id of the platform, a platform's name, or "*". A
    place's settings apply as a whole and are never merged with those of a wider place.
    """

    by_key: Mapping[str, ChatSettings] = field(default_factory=dict)

    def of(self, platform: str, places: Iterable[str]) -> ChatSettings:
        """Return the settings of the first of these places that has any; see `places_of`."""
        if not self.by_key:
            return _NONE
        keys = (*rooms_of(platform, places), "*")
        return next((self.by_key[key] for key in keys if key in self.by_key), _NONE)


def places_of(chat: str, within: Sequence[str]) -> tuple[str, ...]:
    """Return the ids by which a configuration may name a chat, the nearest first.

    These are the chat's own id, the id of the chat that a topic belongs to ("<chat>/<topic>"), and
    the ids in `within`, which lists them from the widest.
    """
    return tuple(dict.fromkeys((chat, chat.partition("/")[0], *reversed(within))))


@dataclass(frozen=True, kw_only=True, slots=True)
class LongestWaits:
    """How long a job may wait to start before it fails, by how it was requested; None: no limit."""

    chat: float | None = None
    api: float | None = None
    later: float | None = None

    def of(self, way: Way, *, later: bool) -> float | None:
        """Return the longest wait of a job requested this way, or for `later`."""
        if later:
            return self.later
        return self.chat if way == "chat" else self.api


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """The default model of each command, by name. None selects the first capable model."""

    image: str | None = None
    edit: str | None = None
    video: str | None = None
    music: str | None = None
    speak: str | None = None
    transcribe: str | None = None
    ask: str | None = None


@dataclass(kw_only=True, slots=True)
class LiveSettings:
    """The current settings. Read them at each use and keep no copy.

    A wait longer than `busy_after_s` is announced at once. A private chat continues its last
    conversation for `idle_s`. A person may send `files_per_hour_mb`; None for no limit. Finished
    jobs are kept for `kept_days` while all of them together take at most `kept_mb`. Statistics are
    kept for `history_s`.
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
