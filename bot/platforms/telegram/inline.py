"""Markdown within a paragraph: emphasis, code and links, in one pass from left to right; pure."""

import re
from dataclasses import dataclass, field

from bot.platforms.telegram.spans import Span, SpanKind, Styled, outer_first

_SPECIAL = re.compile(r"[\\`*_~\[!]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_TICKS = re.compile(r"`+")
_LINK = re.compile(
    r"!?\[(?P<label>[^\[\]\n]{0,300})\]"
    r"\(\s{0,3}<?(?P<address>[^\s()<>]{0,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,300})?)>?"
    r"(?:\s{1,3}\"[^\"\n]{0,200}\")?\s{0,3}\)"
)
_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_MARKERS = {
    "*": (SpanKind.ITALIC,),
    "_": (SpanKind.ITALIC,),
    "**": (SpanKind.BOLD,),
    "__": (SpanKind.BOLD,),
    "~~": (SpanKind.STRIKETHROUGH,),
    "***": (SpanKind.BOLD, SpanKind.ITALIC),
    "___": (SpanKind.BOLD, SpanKind.ITALIC),
}


def inline(source: str) -> Styled:
    """Return one paragraph, or a line, as text with spans; they may still overlap."""
    return _Inline(source).read()


@dataclass(slots=True)
class _Opener:
    """A marker that waits for its partner; `piece` is its position in the output."""

    marker: str
    piece: int


@dataclass(slots=True)
class _Inline:
    """Reads one paragraph from left to right.

    Output is kept in pieces, because a marker turns out to be one only when its partner comes;
    until then it is a piece of text like any other.
    """

    source: str
    pieces: list[str] = field(default_factory=list)
    marks: list[tuple[int, int, SpanKind, str | None]] = field(default_factory=list)
    openers: list[_Opener] = field(default_factory=list)
    unclosed_ticks: set[int] = field(default_factory=set)

    def read(self) -> Styled:
        at = 0
        while found := _SPECIAL.search(self.source, at):
            self.pieces.append(self.source[at : found.start()])
            at = self._take(found.start())
        self.pieces.append(self.source[at:])
        return self._result()

    def _result(self) -> Styled:
        offsets = [0]
        for piece in self.pieces:
            offsets.append(offsets[-1] + len(piece))
        spans = (
            Span(start=offsets[first], end=offsets[last], kind=kind, value=value)
            for first, last, kind, value in self.marks
        )
        return Styled(
            text="".join(self.pieces),
            spans=tuple(sorted((s for s in spans if s.start < s.end), key=outer_first)),
        )

    def _take(self, at: int) -> int:
        """Handle a special character; return where to continue."""
        character = self.source[at]
        if character == "\\":
            escaped = _ESCAPED.match(self.source, at)
            return self._plain(escaped[1] if escaped else "\\", at + (2 if escaped else 1))
        if character == "`":
            return self._code(at)
        if character in "[!":
            return self._link(at)
        return self._emphasis(at)

    def _plain(self, text: str, end: int) -> int:
        self.pieces.append(text)
        return end

    def _code(self, at: int) -> int:
        length = self._run_length(at)
        start = at + length
        closing = self._closing_ticks(start, length)
        if closing is None:
            return self._plain("`" * length, start)
        code = self.source[start:closing]
        if code[:1] == code[-1:] == " " and code.strip():
            code = code[1:-1]
        self.marks.append((len(self.pieces), len(self.pieces) + 1, SpanKind.CODE, None))
        return self._plain(code, closing + length)

    def _closing_ticks(self, start: int, length: int) -> int | None:
        if length in self.unclosed_ticks:
            return None
        for ticks in _TICKS.finditer(self.source, start):
            if len(ticks[0]) == length:
                return ticks.start()
        self.unclosed_ticks.add(length)  # none ahead: never look for one again
        return None

    def _link(self, at: int) -> int:
        found = _LINK.match(self.source, at)
        if found is None:
            return self._plain(self.source[at], at + 1)
        label = inline(found["label"])
        text, address = label.text or found["address"], found["address"]
        first = len(self.pieces)
        if not _WEB.match(address):  # no tg://, no javascript: such an address is shown as text
            return self._plain(found[0], found.end())
        self.pieces.append(text)
        self.marks.append((first, first + 1, SpanKind.LINK, address))
        return found.end()

    def _emphasis(self, at: int) -> int:
        end = at + self._run_length(at)
        marker = self.source[at:end]
        before = self.source[at - 1 : at] or " "
        after = self.source[end : end + 1] or " "
        if marker not in _MARKERS:
            return self._plain(marker, end)
        may_close, may_open = not before.isspace(), not after.isspace()
        if marker[0] == "_":  # snake_case is no emphasis
            may_close = may_close and not after.isalnum()
            may_open = may_open and not before.isalnum()
        left = self._close(marker) if may_close else marker
        if left and may_open and left in _MARKERS:
            self.openers.append(_Opener(left, len(self.pieces)))
        return self._plain(left, end)

    def _run_length(self, at: int) -> int:
        """Return how often the character there is repeated."""
        end = at + 1
        while self.source[end : end + 1] == self.source[at]:
            end += 1
        return end - at

    def _close(self, marker: str) -> str:
        """Close what this marker can; return what is left of it."""
        left = marker
        while left:
            index = self._partner(left)
            if index is None:
                break
            opener = self.openers[index]
            size = min(len(opener.marker), len(left))
            for kind in _MARKERS[left[:size]]:
                self.marks.append((opener.piece, len(self.pieces), kind, None))
            opener.marker = opener.marker[size:]
            self.pieces[opener.piece] = opener.marker
            del self.openers[index + 1 :]  # markers opened within and not closed are only text
            if not opener.marker:
                del self.openers[index]
            left = left[size:]
        return left

    def _partner(self, marker: str) -> int | None:
        """Return the nearest opener this marker may close, within the last few."""
        for index in range(len(self.openers) - 1, max(-1, len(self.openers) - 9), -1):
            opened = self.openers[index].marker
            if opened[0] != marker[0]:
                continue
            if opened == marker or len(opened) == 3 or len(marker) == 3:
                return index
        return None
