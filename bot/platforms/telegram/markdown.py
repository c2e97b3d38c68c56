"""Converts a model's Markdown to text with formatting spans, for Telegram. Pure functions.

Accepts any input: Markdown it does not understand stays as written. Runs in time linear in the
length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum


class SpanKind(StrEnum):
    """The formatting of a span. The values are Telegram's entity names."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKETHROUGH = "strikethrough"
    CODE = "code"
    PRE = "pre"
    LINK = "text_link"
    MENTION = "text_mention"
    MOMENT = "date_time"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A formatted part of a text; positions count Python characters.

    `value` is a link's address, a code block's language, a mentioned person's id or a moment's
    format. `at` is a moment in UNIX seconds.
    """

    start: int
    end: int
    kind: SpanKind
    value: str | None = None
    at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Styled:
    """A text and its spans. Two spans are either nested or disjoint."""

    text: str
    spans: tuple[Span, ...] = ()


def join(parts: Sequence[Styled]) -> Styled:
    """Concatenate the parts."""
    spans: list[Span] = []
    at = 0
    for part in parts:
        spans += [replace(span, start=span.start + at, end=span.end + at) for span in part.spans]
        at += len(part.text)
    return Styled(text="".join(part.text for part in parts), spans=tuple(spans))


def head(styled: Styled, length: int) -> Styled:
    """Return the first `length` characters, with the spans cut to them."""
    spans = (replace(span, end=min(span.end, length)) for span in styled.spans)
    return Styled(
        text=styled.text[:length], spans=tuple(span for span in spans if span.start < span.end)
    )


def outer_first(span: Span) -> tuple[int, int]:
    """Sort key: spans in order of their start, outer ones before inner ones."""
    return (span.start, -span.end)


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
    """Return a paragraph or line as text with spans, which may still overlap."""
    return _Inline(source).read()


@dataclass(slots=True)
class _Opener:
    """A marker without a partner so far; `piece` is its position in the output."""

    marker: str
    piece: int


@dataclass(slots=True)
class _Inline:
    """Reads one paragraph from left to right.

    The output is a list of pieces, because a marker counts as one only once its partner follows.
    Until then it is ordinary text.
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
        """Handle a special character. Returns where to continue."""
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
        self.unclosed_ticks.add(length)  # none follows, so never search again
        return None

    def _link(self, at: int) -> int:
        found = _LINK.match(self.source, at)
        if found is None:
            return self._plain(self.source[at], at + 1)
        label = inline(found["label"])
        text, address = label.text or found["address"], found["address"]
        first = len(self.pieces)
        if not _WEB.match(address):
            # Other addresses, such as tg: or javascript:, are shown as text.
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
        if marker[0] == "_":  # snake_case is not emphasis
            may_close = may_close and not after.isalnum()
            may_open = may_open and not before.isalnum()
        left = self._close(marker) if may_close else marker
        if left and may_open and left in _MARKERS:
            self.openers.append(_Opener(left, len(self.pieces)))
        return self._plain(left, end)

    def _run_length(self, at: int) -> int:
        """Return how often the character at that position is repeated."""
        end = at + 1
        while self.source[end : end + 1] == self.source[at]:
            end += 1
        return end - at

    def _close(self, marker: str) -> str:
        """Close the openers that this marker matches. Returns the unused part of the marker."""
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
            del self.openers[index + 1 :]  # markers opened inside and not closed are plain text
            if not opener.marker:
                del self.openers[index]
            left = left[size:]
        return left

    def _partner(self, marker: str) -> int | None:
        """Return the nearest of the last eight openers that this marker may close."""
        for index in range(len(self.openers) - 1, max(-1, len(self.openers) - 9), -1):
            opened = self.openers[index].marker
            if opened[0] != marker[0]:
                continue
            if opened == marker or len(opened) == 3 or len(marker) == 3:
                return index
        return None


# "++" and "*+" are possessive. Without them, a line of 4000 tildes would backtrack a billion times.
_FENCE = re.compile(r"[ ]{0,3}(?P<marker>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^`]*+$")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]++(?P<title>.*)$")
_LIST_MARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


def styled(markdown: str) -> Styled:
    """Return a model's answer as text with spans.

    Understands fences, headings, bold, italic, strikethrough, code and links to web addresses.
    """
    return join([part for block in _blocks(markdown) for part in (block, _BREAK)][:-1])


_BREAK = Styled(text="\n")


def _blocks(markdown: str) -> Iterator[Styled]:
    """Yield a paragraph's lines as one block, because emphasis may span line breaks."""
    lines = iter(markdown.split("\n"))
    paragraph: list[str] = []
    for line in lines:
        fence, heading = _FENCE.match(line), _HEADING.match(line)
        alone = fence or heading or not line.strip() or _LIST_MARK.match(line)
        if alone and paragraph:
            yield _paragraph(paragraph)
            paragraph = []
        if fence:
            yield _code_block(fence["marker"], fence["language"], lines)
        elif heading:
            yield _heading(_unclosed(heading["title"].rstrip(" \t")))
        else:
            paragraph.append(line)
    if paragraph:
        yield _paragraph(paragraph)


def _code_block(marker: str, language: str, lines: Iterator[str]) -> Styled:
    """Consume the lines up to the closing fence. A streamed answer may not have one yet."""
    code: list[str] = []
    for line in lines:
        if line.strip().startswith(marker) and not line.strip().strip(marker[0]):
            break
        code.append(line)
    text = "\n".join(code)
    if not text.strip():
        return Styled(text=text)
    span = Span(start=0, end=len(text), kind=SpanKind.PRE, value=language or None)
    return Styled(text=text, spans=(span,))


def _unclosed(title: str) -> str:
    """Return a heading without its closing "#" characters."""
    inner = title.rstrip("#")
    return inner.rstrip(" \t") if inner.endswith((" ", "\t")) else title


def _heading(title: str) -> Styled:
    inner = inline(title)
    others = tuple(span for span in inner.spans if span.kind is not SpanKind.BOLD)
    whole = Span(start=0, end=len(inner.text), kind=SpanKind.BOLD)
    return _untangled(replace(inner, spans=(whole, *others) if inner.text else ()))


def _paragraph(lines: Sequence[str]) -> Styled:
    mark = _LIST_MARK.match(lines[0])
    text = "\n".join(lines)
    if mark is None:
        return _untangled(inline(text))
    # Keep the mark as it is: the "*" of a list is not emphasis.
    inner = _untangled(inline(text[mark.end() :]))
    return join([Styled(text=mark[0]), inner])


def _untangled(text: Styled) -> Styled:
    """Return the spans as Telegram allows them: nothing inside code, and no code inside a link."""
    links = [span for span in text.spans if span.kind is SpanKind.LINK]
    codes = [
        span
        for span in text.spans
        if span.kind is SpanKind.CODE
        and not any(link.start <= span.start and span.end <= link.end for link in links)
    ]
    rest: list[Span] = []
    for span in text.spans:
        if span.kind is SpanKind.LINK:
            rest.append(span)
        elif span.kind is not SpanKind.CODE:
            rest += _around(span, codes)
    return replace(text, spans=tuple(sorted([*rest, *codes], key=outer_first)))


def _around(span: Span, codes: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of a span outside the codes, which are sorted and disjoint."""
    start = span.start
    for code in codes:
        if code.end <= span.start or code.start >= span.end:
            continue
        if start < code.start:
            yield replace(span, start=start, end=code.start)
        start = code.end
    if start < span.end:
        yield replace(span, start=start)
