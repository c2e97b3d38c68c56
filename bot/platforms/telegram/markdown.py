"""Model Markdown as text with formatting spans, for Telegram: its blocks, line by line; pure.

Nothing is ever refused: what is not understood stays as it was written. The time grows only with
the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bot.platforms.telegram.inline import inline
from bot.platforms.telegram.spans import Span, SpanKind, Styled, join, outer_first

# "++" and "*+" are possessive: a line of 4000 tildes would be tried in a billion ways otherwise.
_FENCE = re.compile(r"[ ]{0,3}(?P<marker>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^`]*+$")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]++(?P<title>.*)$")
_LIST_MARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


def styled(markdown: str) -> Styled:
    """Return a model's answer as text with spans.

    Fences, headings, bold, italic, strikethrough, code and links to web addresses are understood.
    """
    return join([part for block in _blocks(markdown) for part in (block, _BREAK)][:-1])


_BREAK = Styled(text="\n")


def _blocks(markdown: str) -> Iterator[Styled]:
    """Yield paragraphs' lines together, so that emphasis may continue over a line break."""
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
    """Take the lines up to the closing fence, or all of them: a streamed answer has none yet."""
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
    """Return a heading without the characters that may close it."""
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
    # The mark stays as it is: the "*" of a list is no emphasis.
    inner = _untangled(inline(text[mark.end() :]))
    return join([Styled(text=mark[0]), inner])


def _untangled(text: Styled) -> Styled:
    """Return the spans as Telegram allows them: nothing within code, and no code within a link."""
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
    """Yield the parts of a span that are not code; `codes` are in order and do not overlap."""
    start = span.start
    for code in codes:
        if code.end <= span.start or code.start >= span.end:
            continue
        if start < code.start:
            yield replace(span, start=start, end=code.start)
        start = code.end
    if start < span.end:
        yield replace(span, start=start)
