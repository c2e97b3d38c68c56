"""What the operator settles for single chats: a system prompt, unwanted words, hidden pictures.

Decides, never stores; knows no platform.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The settings of a chat.

    `system` is told to every text model before a conversation; requests that hold one of `words`
    are refused; `spoiler` hides pictures until a reader asks for them.
    """

    system: str = ""
    words: tuple[str, ...] = ()
    spoiler: bool = False

    def unwanted(self, texts: Iterable[str | None]) -> str | None:
        """Return the first of the room's words that stands in one of the texts, or None.

        Whole words are compared, whatever their case or the width of their letters.
        """
        said = " ".join(_plain(text) for text in texts if text)
        padded = f" {said} "
        return next((word for word in self.words if f" {_plain(word)} " in padded), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rooms:
    """Finds a chat's settings: its own, or else its group's, its platform's, or everybody's.

    Keys are "<platform>:<chat>" in the platform's own notation, a platform's name, or "*".
    """

    by_key: Mapping[str, Room] = field(default_factory=dict)

    def of(self, platform: str, chat: str) -> Room:
        """Return the settings of a chat; a thread ("<chat>/<thread>") has its chat's."""
        keys = (f"{platform}:{chat}", f"{platform}:{chat.partition('/')[0]}", platform, "*")
        return next((self.by_key[key] for key in keys if key in self.by_key), Room())


def _plain(text: str) -> str:
    """Return a text's words, comparable and one blank apart; signs nobody sees part no word."""
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", seen).casefold()
    return " ".join(re.findall(r"\w+", folded))
