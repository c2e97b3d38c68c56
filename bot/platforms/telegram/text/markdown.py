"""Renders a model's answer as text with formatting spans, for Telegram. Pure functions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bot.markdown.elements import Blocks, Element, Kind, gap, is_loose
from bot.markdown.tables import drawn, for_chat


class SpanKind(StrEnum):
    """The formatting of a span. The values are Telegram's entity names."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKETHROUGH = "strikethrough"
    CODE = "code"
    PRE = "pre"
    SPOILER = "spoiler"
    QUOTE = "blockquote"
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


_STYLES = {
    Kind.STRONG: SpanKind.BOLD,
    Kind.EMPHASIS: SpanKind.ITALIC,
    Kind.STRUCK: SpanKind.STRIKETHROUGH,
    Kind.SPOILER: SpanKind.SPOILER,
    Kind.LINK: SpanKind.LINK,
    Kind.CODE: SpanKind.CODE,
    Kind.FORMULA: SpanKind.CODE,
}
_BULLETS = {"open": "☐ ", "done": "☑ ", "continued": ""}
_INDENT = "   "
_MARGIN = frozenset({Kind.FENCE, Kind.DISPLAY, Kind.TABLE})
_QUOTE = SpanKind.QUOTE
# Telegram removes these from texts: control characters, marks that reverse text, and lines above
# and below letters. They are removed here first, because they would hide a mention from this code.
_UNSENDABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u030a\u0333\u033f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def sendable(text: str) -> str:
    """Return a text without the characters that Telegram removes."""
    return _UNSENDABLE.sub("", text)


def styled(blocks: Blocks) -> Styled:
    """Return an answer as text with spans. Those of code exclude the spaces around it."""
    writer = _Writer()
    writer.blocks(for_chat(blocks))
    text = "".join(writer.pieces)
    spans = [_trimmed(span, text) for span in writer.spans]
    shown = (span for span in spans if span.start < span.end)
    return Styled(text=text, spans=tuple(sorted(shown, key=outer_first)))


def _trimmed(span: Span, text: str) -> Span:
    """Return a quotation's span without the line breaks around code in it."""
    if span.kind is not SpanKind.QUOTE:
        return span
    inside = text[span.start : span.end]
    start = span.start + len(inside) - len(inside.lstrip("\n"))
    return replace(span, start=start, end=start + len(inside.strip("\n")))


@dataclass(slots=True)
class _Writer:
    """Writes blocks one after another.

    `prefix` begins each further line, except of code. `open` are the styles at this place and where
    each begins. Telegram allows no span in code and no code in one, so code interrupts them. A link
    or a spoiler is kept whole instead: a spoiler in pieces would show what it hides.
    """

    pieces: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    at: int = 0
    prefix: str = ""
    open: list[Span] = field(default_factory=list)

    def blocks(self, nodes: Sequence[Element]) -> None:
        for index, node in enumerate(nodes):
            if index:
                self._line(gap(nodes[index - 1], node), node)
            self._block(node)

    def _line(self, ends: str, following: Element) -> None:
        """End a line. Code and tables begin at the margin, so that they are copied as they are."""
        self._put(ends if following.kind in _MARGIN else ends + self.prefix)

    def _put(self, text: str) -> None:
        shown = sendable(text)
        self.pieces.append(shown)
        self.at += len(shown)

    def _block(self, node: Element) -> None:
        match node.kind:
            case Kind.FENCE:
                self._code(node.text, SpanKind.PRE, node.value)
            case Kind.DISPLAY:
                self._code(node.text, SpanKind.PRE, "latex")
            case Kind.TABLE:
                self._code(drawn(node), SpanKind.PRE)
            case Kind.LIST:
                self._list(node)
            case Kind.QUOTE:
                self._quote(node)
            case Kind.HEADING:
                self._style(SpanKind.BOLD)
                self._words(node.children)
                self._styled()
            case _:
                self._words(node.children)

    def _style(self, kind: SpanKind, value: str | None = None) -> None:
        self.open.append(Span(start=self.at, end=self.at, kind=kind, value=value))

    def _styled(self) -> None:
        self.spans.append(replace(self.open.pop(), end=self.at))

    def _code(self, text: str, kind: SpanKind, value: str = "") -> None:
        """Write code, between the parts of the styles around it."""
        whole = [span for span in self.open if kind is SpanKind.CODE and span.kind is _QUOTE]
        around = [span for span in self.open if span not in whole]
        self.spans += [replace(span, end=self.at) for span in around]
        start = self.at
        self._put(text)
        self.open = [*whole, *(replace(span, start=self.at) for span in around)]
        if text.strip():
            self.spans.append(Span(start=start, end=self.at, kind=kind, value=value or None))

    def _list(self, node: Element) -> None:
        outer = self.prefix
        between = "\n\n" if is_loose(node.children) else "\n"
        for index, item in enumerate(node.children):
            if index:
                self._put(between + outer)
            number = f"{node.number + index}{node.value} " if node.value else "• "
            self._put(_BULLETS.get(item.value, number))
            self.prefix = outer + _INDENT
            self.blocks(item.children)
            self.prefix = outer

    def _quote(self, node: Element) -> None:
        """Write a quotation. Telegram cannot nest them, so an inner one begins with a mark."""
        outer = self.prefix
        nested = self._is_in(SpanKind.QUOTE)
        if nested:
            self._put("" if node.children[:1] and node.children[0].kind in _MARGIN else "> ")
            self.prefix += "> "
        else:
            self._style(SpanKind.QUOTE)
        self.blocks(node.children)
        self.prefix = outer
        if not nested:
            self._styled()

    def _is_in(self, *kinds: SpanKind) -> bool:
        return any(span.kind in kinds for span in self.open)

    def _words(self, nodes: Sequence[Element]) -> None:
        """Write inline elements."""
        for node in nodes:
            kind = _STYLES.get(node.kind)
            text = node.text.replace("\n", f"\n{self.prefix}")
            if kind is SpanKind.CODE and not self._is_in(SpanKind.LINK, SpanKind.SPOILER):
                self._code(text, kind)
            elif kind is None or kind is SpanKind.CODE or self._is_in(kind):
                self._put(text)
                self._words(node.children)
            else:
                self._style(kind, node.value or None)
                self._words(node.children)
                self._styled()
