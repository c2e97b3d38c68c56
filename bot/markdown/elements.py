"""An answer as a tree of elements, as every platform reads it. Plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of an element. The page knows these names."""

    PARAGRAPH = "paragraph"
    LINE = "line"  # a paragraph without a gap around it, such as in a list of single lines
    HEADING = "heading"
    FENCE = "fence"
    DISPLAY = "display"  # a formula on lines of its own
    RULE = "rule"
    QUOTE = "quote"
    LIST = "list"
    ITEM = "item"
    TABLE = "table"
    ROW = "row"
    CELL = "cell"
    TEXT = "text"
    STRONG = "strong"
    EMPHASIS = "emphasis"
    STRUCK = "struck"
    SPOILER = "spoiler"
    LINK = "link"
    CODE = "code"
    FORMULA = "formula"


LITERAL = frozenset({Kind.FENCE, Kind.DISPLAY, Kind.TEXT, Kind.CODE, Kind.FORMULA})
"""Kinds whose content is their `text`."""
OF_WORDS = frozenset({Kind.PARAGRAPH, Kind.LINE, Kind.HEADING, Kind.CELL})
"""Kinds of inline elements with children."""


@dataclass(frozen=True, slots=True)
class Element:
    """A block or a part of a line.

    `value` is a code block's language, a link's address, a cell's alignment, the mark after the
    numbers of a list, or the state of an item: a task that is "open" or "done", or "continued" on a
    further page. `number` is the level of a heading or the first number of a list.
    """

    kind: Kind
    children: tuple["Element", ...] = ()
    text: str = ""
    value: str = ""
    number: int = 0


Blocks = tuple[Element, ...]


def words(nodes: Sequence[Element]) -> str:
    """Return the text within a line, without formatting."""
    return "".join(node.text if node.kind in LITERAL else words(node.children) for node in nodes)


def plain(blocks: Sequence[Element]) -> str:
    """Return the text of blocks, each on separate lines, without formatting."""
    return "\n".join(
        plain(block.children) if _is_around_blocks(block) else words((block,)) for block in blocks
    )


def _is_around_blocks(node: Element) -> bool:
    return bool(node.children) and node.kind not in OF_WORDS


def gap(before: Element, after: Element) -> str:
    """Return the line breaks between two blocks in a chat.

    A chat shows code and quotations in boxes, which need no empty line around them.
    """
    close = Kind.LINE in {before.kind, after.kind} or before.kind is Kind.HEADING
    boxed = {Kind.FENCE, Kind.DISPLAY, Kind.TABLE, Kind.RULE} & {before.kind, after.kind}
    listed = before.kind is Kind.PARAGRAPH and after.kind is Kind.LIST
    return "\n" if close or boxed or listed else "\n\n"


def is_loose(items: Sequence[Element]) -> bool:
    """Return whether the items of a list are separated by empty lines."""
    return any(child.kind is Kind.PARAGRAPH for item in items for child in item.children)
