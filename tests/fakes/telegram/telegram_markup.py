"""Texts with a parse mode, as the Bot API reads them; errors are refused with its messages.

Only HTML is parsed; texts in other modes are used as they are.
"""

import re
from dataclasses import dataclass, field
from html import unescape

from tests.fakes.telegram.telegram_state import Json, Refusal

KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "tg-emoji": "custom_emoji",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
MODES = {"html", "markdown", "markdownv2"}
_ATTRIBUTE = re.compile(r"""\s+([a-z-]+)(?:\s*=\s*("[^"]*"|'[^']*'|[\w.-]+))?""", re.IGNORECASE)
_NAMED = re.compile(r"&(lt|gt|amp|quot|#\d{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)


def worded(said: Json) -> tuple[str, list[Json]]:
    """Return the text or caption of a request, with its entities. Raises `Refusal`."""
    words, entities = ("text", "entities") if "text" in said else ("caption", "caption_entities")
    return marked(said.get(words, ""), said.get("parse_mode"), said.get(entities))


def marked(text: str, mode: str | None, entities: list[Json] | None) -> tuple[str, list[Json]]:
    """Return a text and its entities. Raises `Refusal` for what the Bot API does not accept."""
    if not mode:
        return text, entities or []
    if mode.lower() not in MODES:
        raise Refusal("Bad Request: unsupported parse_mode")
    return _Html(text).read() if mode.lower() == "html" else (text, entities or [])


@dataclass
class _Open:
    """A tag that is not closed yet."""

    name: str
    entity: Json
    at: int


@dataclass
class _Html:
    source: str
    text: str = ""
    entities: list[Json] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)

    def read(self) -> tuple[str, list[Json]]:
        end = 0
        while (start := self.source.find("<", end)) >= 0:
            self._words(self.source[end:start])
            end = self._tag(start)
        self._words(self.source[end:])
        if self.open:
            last = self.open[-1]
            raise self._broken(f'Can\'t find end tag corresponding to start tag "{last.name}"')
        self.entities.sort(key=lambda each: (each["offset"], -each["length"]))
        return self.text, self.entities

    def _words(self, source: str) -> None:
        self.text += _NAMED.sub(lambda found: unescape(found[0]), source)

    def _tag(self, start: int) -> int:
        """Read the tag that begins at a position; return where it ends."""
        closes = self.source.startswith("</", start)
        name = re.compile(r"</?([^\s>/]*)").match(self.source, start)
        assert name is not None
        end = self.source.find(">", name.end())
        if not closes and name.end() < len(self.source) and name[1].lower() not in KINDS:
            raise self._broken(f'Unsupported start tag "{name[1].lower()}"', start)
        if end < 0:
            raise self._broken(f"Unclosed {'end' if closes else 'start'} tag", start)
        if closes:
            self._close(name[1].lower(), start)
        else:
            self._begin(name[1].lower(), self.source[name.end() : end], start)
        return end + 1

    def _begin(self, name: str, rest: str, start: int) -> None:
        given = {
            key.lower(): unescape((value or "").strip("\"'"))
            for key, value in _ATTRIBUTE.findall(rest)
        }
        if _ATTRIBUTE.sub("", rest).strip():
            what = "Expected equal sign in declaration of an attribute of the tag"
            raise self._broken(f'{what} "{name}"', start)
        if name == "span" and given.get("class") != "tg-spoiler":
            raise self._broken('Tag "span" must have class "tg-spoiler"', start)
        entity: Json = {"type": KINDS[name], "offset": _units(self.text)}
        if name == "a":
            entity["url"] = given.get("href", "")
        if name == "tg-emoji":
            entity["custom_emoji_id"] = given.get("emoji-id", "")
        self.open.append(_Open(name, entity, start))

    def _close(self, name: str, start: int) -> None:
        if not self.open:
            raise self._broken("Unexpected end tag", start)
        begun = self.open.pop()
        if name and name != begun.name:
            told = f'Unmatched end tag, expected "</{begun.name}>", found "</{name}>"'
            raise self._broken(told, start)
        length = _units(self.text) - begun.entity["offset"]
        if length and begun.entity.get("url") != "":
            self.entities.append(begun.entity | {"length": length})

    def _broken(self, what: str, at: int | None = None) -> Refusal:
        where = "" if at is None else f" at byte offset {len(self.source[:at].encode())}"
        return Refusal(f"Bad Request: can't parse entities: {what}{where}")


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
