"""Tables for chats without tables: drawn in characters if narrow, else a line for each row."""

import unicodedata
from dataclasses import replace

from bot.markdown.elements import OF_WORDS, Blocks, Element, Kind, words

NARROW = 40  # columns of a phone's screen
_BETWEEN = "  "


def for_chat(blocks: Blocks) -> Blocks:
    """Return the blocks with wide tables, and those with links, as lists. Idempotent."""
    made: list[Element] = []
    for node in blocks:
        if node.kind is Kind.TABLE and not _is_narrow(node):
            made += _listed(node)
        elif node.children and node.kind not in OF_WORDS:
            made.append(replace(node, children=for_chat(node.children)))
        else:
            made.append(node)
    return tuple(made)


def drawn(table: Element) -> str:
    """Return a table for a monospaced font."""
    rows = [[_cell(cell) for cell in row.children] for row in table.children]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    sides = [cell.value for cell in table.children[0].children]
    lines = [
        _BETWEEN.join(
            _padded(text, most, side) for text, most, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], _BETWEEN.join("─" * most for most in widths), *lines[1:]])


def width(text: str) -> int:
    """Return how many columns a text takes in a monospaced font."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _cell(cell: Element) -> str:
    return " ".join(words(cell.children).split())


def _padded(text: str, most: int, side: str) -> str:
    room = most - width(text)
    left = {"right": room, "center": room // 2}.get(side, 0)
    return " " * left + text + " " * (room - left)


def _is_narrow(table: Element) -> bool:
    if any(_has(cell, Kind.LINK) or _has(cell, Kind.SPOILER) for cell in _cells(table)):
        return False
    columns = zip(*(row.children for row in table.children), strict=True)
    widths = [max(width(_cell(cell)) for cell in column) for column in columns]
    return sum(widths) + len(_BETWEEN) * (len(widths) - 1) <= NARROW


def _cells(table: Element) -> list[Element]:
    return [cell for row in table.children for cell in row.children]


def _has(node: Element, kind: Kind) -> bool:
    return node.kind is kind or any(_has(child, kind) for child in node.children)


def _listed(table: Element) -> Blocks:
    """Return the rows as items: "**flux** – Size: 17 GB, Speed: slow"."""
    heads, *rows = (row.children for row in table.children)
    items = tuple(
        Element(Kind.ITEM, (Element(Kind.LINE, _row(heads, row)),))
        for row in rows
        if any(map(_cell, row))
    )
    lead = heads[0].children
    if not items:
        return (Element(Kind.LINE, _row(heads, heads)),)
    named = (Element(Kind.LINE, (Element(Kind.STRONG, lead), _text(":"))),) if lead else ()
    return (*named, Element(Kind.LIST, items))


def _row(heads: Blocks, row: Blocks) -> Blocks:
    first, *others = row
    made: list[Element] = [Element(Kind.STRONG, first.children)] if first.children else []
    sign = " – " if made else ""
    for head, cell in zip(heads[1:], others, strict=True):
        if cell.children:
            label = "" if head is cell or not head.children else f"{_cell(head)}: "
            made += [_text(sign + label), *cell.children]
            sign = ", "
    return tuple(node for node in made if node.children or node.text)


def _text(text: str) -> Element:
    return Element(Kind.TEXT, text=text)
