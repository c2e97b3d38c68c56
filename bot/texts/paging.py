"""Divides what is too long for one message. Pure functions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from bot.core.content import Body, Content, Markdown, utf16_length
from bot.core.platform import ChatLimits
from bot.markdown import pages
from bot.markdown.elements import Blocks, Element, Kind
from bot.markdown.elements import plain as words_of
from bot.markdown.pages import Measure
from bot.markdown.parser import parse
from bot.texts.catalogue import plain

_SPARE = 8  # units
_LONG = 8000  # characters
_PageOf = Callable[[Blocks, int, Measure], Blocks]


def is_long(text: str | None) -> bool:
    """Return whether dividing an answer takes too long for the event loop."""
    return text is not None and len(text) > _LONG


def length(body: Body, limits: ChatLimits) -> int:
    """Return how much of a message a body takes in a chat."""
    return limits.measure(body) if limits.measure is not None else utf16_length(plain(body))


def answer_pages(text: str, room: int, limits: ChatLimits) -> Iterator[Markdown]:
    """Yield an answer in pages that take at most `room` of a message."""
    return map(Markdown.of, pages.pages(parse(text), room, _measure(limits)))


def last_page(content: Content, limits: ChatLimits) -> Content:
    """Cut an open job's growing answer to its newest part that fits."""
    return _page(content, limits, pages.last_page)


def first_page(content: Content, limits: ChatLimits) -> Content:
    """Cut a message to the first part that fits."""
    return _page(content, limits, pages.first_page)


def _page(content: Content, limits: ChatLimits, page_of: _PageOf) -> Content:
    room = (limits.caption if content.files else limits.text) - _SPARE
    answer = next((part for part in content.body if isinstance(part, Markdown)), None)
    if answer is None:
        return _page_of_words(content, limits, room, page_of)
    others = tuple(part for part in content.body if part is not answer)
    page = page_of(answer.blocks, room - length(others, limits), _measure(limits))
    if page == answer.blocks:
        return content
    shown = (Markdown.of(page) if part is answer else part for part in content.body)
    return replace(content, body=tuple(shown))


def _page_of_words(content: Content, limits: ChatLimits, room: int, page_of: _PageOf) -> Content:
    if length(content.body, limits) <= room:
        return content
    words = (Element(Kind.LINE, (Element(Kind.TEXT, text=plain(content.body)),)),)
    page = page_of(words, room, lambda blocks: length((words_of(blocks),), limits))
    return replace(content, body=(words_of(page),))


@lru_cache(maxsize=16)
def _measure(limits: ChatLimits) -> Measure:
    return lambda blocks: length((Markdown.of(blocks),), limits)
