"""Divides an answer into messages that are complete by themselves. Pure functions.

It divides the tree, not the source, so every page is balanced whatever the answer contains. A list
continues with its number, code with its language, a table with its header.
"""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from bot.markdown.elements import OF_WORDS, Blocks, Element, Kind, words

_GAP = 2  # units between two blocks at most
_LEAST = 48  # units; a page of fewer is not tried
_BREAKS = ("\n", ". ", "。", " ")
# Not between a letter and its accent, or within an emoji of several characters.
_CLUSTER = re.compile(
    "[\u0300-\u036f\u200d\u20e3\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")

Measure = Callable[[Blocks], int]
"""Returns how much of a message the blocks take on a platform."""
_Around = Callable[[Element], Element]


def pages(blocks: Blocks, limit: int, measure: Measure) -> Iterator[Blocks]:
    """Yield the blocks in pages of at most `limit` units: at least one page, perhaps empty.

    A page ends before a block if possible, else after a line, a sentence or a word.
    """
    cutter = _Cutter(measure, max(limit, _LEAST))
    while True:
        page, blocks = cutter.page(blocks)
        yield page
        if not blocks:
            return


def first_page(blocks: Blocks, limit: int, measure: Measure) -> Blocks:
    """Return as much of the blocks as fits, perhaps nothing."""
    return _Cutter(measure, limit).fitting(blocks)[0]


@dataclass(frozen=True, slots=True)
class _Turned:
    """The blocks on the full pages of a growing answer, and the rest of the last one."""

    full: Blocks
    left: Blocks

    def begins(self, blocks: Blocks) -> bool:
        """Return whether these blocks begin with the same ones and continue."""
        more = len(blocks) > len(self.full)
        return more and all(map(operator.is_, self.full, blocks))


_ANSWERS = 64  # that are being written at the same time
_turned: dict[tuple[int, int, Measure], _Turned] = {}


def last_page(blocks: Blocks, limit: int, measure: Measure) -> Blocks:
    """Return the newest page of a growing answer.

    With the same `measure`, its full pages are not divided again.
    """
    cutter = _Cutter(measure, max(limit, _LEAST))
    key = (id(blocks[0]) if blocks else 0, limit, measure)
    known = _turned.get(key)
    rest = blocks
    if known is not None and known.begins(blocks):
        rest = (*known.left, *blocks[len(known.full) :])
    while True:
        page, rest = cutter.page(rest)
        if not rest:
            return page
        taken = len(blocks) - len(rest)
        left = () if rest[0] is blocks[taken] else rest[:1]
        if taken + len(left) < len(blocks):  # the last block still grows
            while len(_turned) >= _ANSWERS:
                _turned.pop(next(iter(_turned)), None)
            _turned[key] = _Turned(blocks[: taken + len(left)], left)


@dataclass(frozen=True, slots=True)
class _Cutter:
    measure: Measure
    room: int

    def page(self, blocks: Blocks) -> tuple[Blocks, Blocks]:
        """Return a page and the rest. Each page has some of the text, so an end is reached."""
        page, rest = self.fitting(blocks)
        if page or not blocks:
            return page, rest
        # Too small for the markup around a block, such as many nested quotations.
        bare = Element(Kind.LINE, (Element(Kind.TEXT, text=words(blocks[:1]).strip()),))
        return self.fitting((bare, *blocks[1:]))

    def fitting(self, blocks: Blocks) -> tuple[Blocks, Blocks]:
        """Return what fits, and the rest."""
        room = self.room
        while True:
            page, rest = self._children(blocks, room, lambda node: node)
            excess = self.measure(page) - self.room
            if excess <= 0 or not page:
                return page, rest
            room -= excess  # several blocks together may take more than each of them alone

    def _cost(self, node: Element, around: _Around) -> int:
        return self.measure((around(node),)) + _GAP

    def _children(self, nodes: Blocks, room: int, around: _Around) -> tuple[Blocks, Blocks]:
        """Return the first elements that fit in `room`, the last of them perhaps cut, and the rest."""
        left = room + _GAP
        for index, node in enumerate(nodes):
            cost = self._cost(node, around) if _may_fit(node, self.room) else self.room + _GAP + 1
            if cost <= left:
                left -= cost
                continue
            if index and left < room / 2 and cost <= self.room + _GAP:
                return nodes[:index], nodes[index:]
            head, rest = self._cut(node, left - _GAP, around)
            kept = () if head is None else (head,)
            return (*nodes[:index], *kept), (
                *(() if rest is None else (rest,)),
                *nodes[index + 1 :],
            )
        return nodes, ()

    def _cut(
        self, node: Element, room: int, around: _Around
    ) -> tuple[Element | None, Element | None]:
        if node.kind in OF_WORDS:
            return self._cut_words(node, room, around)
        if node.kind in {Kind.FENCE, Kind.DISPLAY}:
            return self._cut_text(node, room, around)
        if node.kind is Kind.TABLE:
            return self._cut_table(node, room, around)
        made, rest = self._children(node.children, room, _inside(node, around))
        if not made:
            return None, node
        return replace(node, children=made), _going_on(node, rest)

    def _cut_table(
        self, table: Element, room: int, around: _Around
    ) -> tuple[Element | None, Element | None]:
        """Cut a table between rows. Each part has its header."""
        header, *rows = table.children

        def part(count: int) -> Element:
            return replace(table, children=(header, *rows[:count]))

        lengths = accumulate(len(words(row.children)) for row in rows)
        most = sum(1 for _ in takewhile(lambda length: length <= room, lengths))
        fits = self._most(most, room, lambda count: around(part(count)))
        if not fits:
            return None, table
        return part(fits), replace(table, children=(header, *rows[fits:]))

    def _cut_text(
        self, node: Element, room: int, around: _Around
    ) -> tuple[Element | None, Element | None]:
        def part(end: int) -> Element:
            return replace(node, text=node.text[:end])

        most = self._most(len(node.text), room, lambda end: around(part(end)))
        end = node.text.rfind("\n", 0, most + 1)
        if end <= 0:
            end = _whole_sign(node.text, most)
        if end <= 0:
            return None, node
        rest = node.text[end:].removeprefix("\n")
        return part(end), replace(node, text=rest) if rest else None

    def _cut_words(
        self, node: Element, room: int, around: _Around
    ) -> tuple[Element | None, Element | None]:
        text = words(node.children)
        near, _far = _divided(node.children, room)

        def part(end: int) -> Element:
            return replace(node, children=_divided(near, end)[0])

        end = _break(text, self._most(len(text), room, lambda end: around(part(end))))
        head = text[:end].rstrip()
        if not head:
            return None, node
        rest = _divided(node.children, len(text) - len(text[end:].lstrip()))[1]
        return part(len(head)), replace(node, children=rest) if rest else None

    def _most(self, length: int, room: int, part: Callable[[int], Element]) -> int:
        """Return how many characters or rows fit. Each takes at least one unit."""
        fits, too_many = 0, min(length, room) + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.measure((part(middle),)) <= room:
                fits = middle
            else:
                too_many = middle
        return fits


def _may_fit(node: Element, room: int) -> bool:
    """Return whether the bare text is short enough. Measuring a long block takes much longer."""
    left, nodes = room, [node]
    while nodes and left >= 0:
        some = nodes.pop()
        left -= len(some.text)
        nodes += some.children
    return left >= 0


def _inside(node: Element, around: _Around) -> _Around:
    return lambda child: around(replace(node, children=(child,)))


def _going_on(node: Element, rest: Blocks) -> Element | None:
    """Return the rest of a block, or None if nothing is left."""
    if not rest:
        return None
    if node.kind is Kind.ITEM:
        return replace(node, children=rest, value="continued")
    # An item that is cut keeps its number.
    done = len(node.children) - len(rest) if node.kind is Kind.LIST else 0
    return replace(node, children=rest, number=node.number + done)


def _break(text: str, most: int) -> int:
    """Return the best place to end a page of words at, in its second half."""
    if most >= len(text):
        return most
    for sign in _BREAKS:
        at = text.rfind(sign, most // 2, most + 1)
        if at > 0:
            return min(at + len(sign), most + 1)
    return _whole_sign(text, most)


def _whole_sign(text: str, most: int) -> int:
    """Return the last place to cut without splitting a character, if one is near."""
    end = most
    while 0 < end < len(text) and most - end < 16 and _is_torn(text, end):
        end -= 1
    return end or most


def _is_torn(text: str, end: int) -> bool:
    before, after = text[end - 1], text[end]
    flags = len(_FLAG.findall(text[max(0, end - 1) : end + 1])) == 2
    return bool(_CLUSTER.match(after)) or before == "\u200d" or flags


def _divided(nodes: Sequence[Element], at: int) -> tuple[Blocks, Blocks]:
    """Divide a line after that many characters."""
    for index, node in enumerate(nodes):
        length = len(words((node,)))
        if at >= length:
            at -= length
            continue
        if at == 0:
            return tuple(nodes[:index]), tuple(nodes[index:])
        if node.children:
            first, second = _divided(node.children, at)
            parts = replace(node, children=first), replace(node, children=second)
        else:
            parts = replace(node, text=node.text[:at]), replace(node, text=node.text[at:])
        return (*nodes[:index], parts[0]), (parts[1], *nodes[index + 1 :])
    return tuple(nodes), ()
