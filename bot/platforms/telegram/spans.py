"""Text with formatting spans, as Telegram takes it; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class SpanKind(StrEnum):
    """What a span does to its text; the values are Telegram's entity names."""

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
    """A formatted stretch of a text, in characters of Python.

    `value` is a link's address, a code block's language, a mentioned person's id or a moment's
    format; `at` the moment in UNIX seconds.
    """

    start: int
    end: int
    kind: SpanKind
    value: str | None = None
    at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Styled:
    """A text and its spans; a span is within another one or beside it, never overlapping it partly."""

    text: str
    spans: tuple[Span, ...] = ()


def join(parts: Sequence[Styled]) -> Styled:
    """Return the parts one after the other."""
    spans: list[Span] = []
    at = 0
    for part in parts:
        spans += [replace(span, start=span.start + at, end=span.end + at) for span in part.spans]
        at += len(part.text)
    return Styled(text="".join(part.text for part in parts), spans=tuple(spans))


def head(styled: Styled, length: int) -> Styled:
    """Return the first `length` characters, with the spans that reach into them."""
    spans = (replace(span, end=min(span.end, length)) for span in styled.spans)
    return Styled(
        text=styled.text[:length], spans=tuple(span for span in spans if span.start < span.end)
    )


def outer_first(span: Span) -> tuple[int, int]:
    """Order spans by where they begin, enclosing ones before those inside."""
    return (span.start, -span.end)
