"""Writes a model's answer in Discord's own Markdown. Pure functions.

Discord's dialect differs from the one that models write. Its code blocks have exactly three
backticks and no indentation, and it has no tables, no deep headings and no nested quotations.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markdown_it.common.normalize_url import normalizeLink

from bot.markdown.elements import Blocks, Element, Kind, gap, is_loose, words
from bot.markdown.tables import drawn, for_chat

Literal = Callable[[str], str]
"""Returns markup that shows exactly a text."""

_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_TICKS = re.compile("`+")
_PLAIN_ADDRESS = re.compile(r"[^\s<>\"'`*|\\]+")
_SIGNS = {Kind.STRONG: "**", Kind.EMPHASIS: "*", Kind.STRUCK: "~~", Kind.SPOILER: "||"}
_HEADINGS = 3  # levels
_BOXES = {"open": "- ☐ ", "done": "- ☑ "}


@dataclass(frozen=True, slots=True)
class _Row:
    """A line. A `fixed` one is code, which a list does not indent: Discord shows the spaces."""

    text: str = ""
    fixed: bool = False


def written(blocks: Blocks, literal: Literal) -> str:
    """Return an answer in Discord's Markdown."""
    return "\n".join(row.text for row in _rows(for_chat(blocks), literal))


def _rows(nodes: Sequence[Element], literal: Literal) -> list[_Row]:
    made: list[_Row] = []
    for index, node in enumerate(nodes):
        if index and gap(nodes[index - 1], node) != "\n":
            made.append(_Row())
        made += _block(node, literal)
    return made


def _block(node: Element, literal: Literal) -> list[_Row]:  # noqa: PLR0911  # one for each kind
    match node.kind:
        case Kind.FENCE:
            return _code(node.text, node.value, literal)
        case Kind.DISPLAY:
            return _code(node.text, "latex", literal)
        case Kind.TABLE:
            return _code(drawn(node), "", literal)
        case Kind.QUOTE:
            rows = _rows(node.children, literal)
            return [replace(row, text=f"> {row.text}") for row in rows]
        case Kind.LIST:
            return _list(node, literal)
        case Kind.HEADING:
            return _split(_heading(node, literal))
        case _:
            return _split(_line(node.children, literal))


def _split(text: str) -> list[_Row]:
    return [_Row(line) for line in text.split("\n")]


def _code(text: str, language: str, literal: Literal) -> list[_Row]:
    """Return a code block. One that contains three backticks is code within a line instead."""
    if not text.strip():
        return [_Row()]  # three backticks with nothing between them are text
    if "```" in text:
        made = _code_in_line(text, literal)
    else:
        named = language if _LANGUAGE.fullmatch(language) else ""
        made = f"```{named}\n{text}\n```"
    return [_Row(line, fixed=True) for line in made.split("\n")]


def _code_in_line(text: str, literal: Literal) -> str:
    """Return code between one or two backticks; three would begin a block."""
    runs = {len(run) for run in _TICKS.findall(text)}
    ticks = next((sign for sign in ("`", "``") if len(sign) not in runs), None)
    if ticks is None:
        return literal(text)
    # Discord removes a space between two backticks.
    begin, end = (" " if sign == "`" else "" for sign in (text[:1], text[-1:]))
    return f"{ticks}{begin}{text}{end}{ticks}"


def _list(node: Element, literal: Literal) -> list[_Row]:
    made: list[_Row] = []
    loose = is_loose(node.children)
    for index, item in enumerate(node.children):
        if index and loose:
            made.append(_Row())
        number = f"{node.number + index}{node.value} " if node.value else "- "
        made += _item(item, _BOXES.get(item.value, number), literal)
    return made


def _item(item: Element, sign: str, literal: Literal) -> list[_Row]:
    rows = _rows(item.children, literal)
    if item.value == "continued":
        return rows
    if not rows or rows[0].fixed:
        rows.insert(0, _Row())
    blanks = " " * (2 if sign.startswith("-") else len(sign))
    further = [
        row if row.fixed or not row.text else replace(row, text=blanks + row.text)
        for row in rows[1:]
    ]
    return [_Row(sign + rows[0].text), *further]


def _heading(node: Element, literal: Literal) -> str:
    if node.number <= _HEADINGS:
        return f"{'#' * node.number} {_line(node.children, literal)}"
    bare = tuple(part for child in node.children for part in _unbold(child))
    return f"**{_line(bare, literal)}**" if bare else ""


def _unbold(node: Element) -> Blocks:
    return node.children if node.kind is Kind.STRONG else (node,)


def _line(nodes: Sequence[Element], literal: Literal, before: str = "\n") -> str:
    """Write inline elements after the text `before` them."""
    made: list[str] = []
    for node in nodes:
        piece = _piece(node, literal, before[-1])
        if before[-1] == "`" and piece[:1] == "`":  # two in a row would be a different mark
            piece = f" {piece}"
        made.append(piece)
        before = piece or before
    return "".join(made)


def _piece(node: Element, literal: Literal, before: str) -> str:
    sign = _SIGNS.get(node.kind)
    if sign is not None:
        return sign + _line(node.children, literal, sign) + sign
    if node.kind in {Kind.CODE, Kind.FORMULA}:
        return _code_in_line(node.text, literal)
    if node.kind is Kind.LINK:
        return _link(node, literal)
    # A list or a heading begins only at the start of a line.
    return literal(node.text) if before == "\n" else literal("." + node.text)[1:]


def _link(node: Element, literal: Literal) -> str:
    label, address = words(node.children), node.value
    if normalizeLink(label) == address:
        return label if _PLAIN_ADDRESS.fullmatch(label) else address
    if "://" in label:  # Discord shows a link behind another address as text
        return f"{literal(label)} ({address})"
    target = address.replace("(", "%28").replace(")", "%29")
    return f"[{_line(node.children, literal, '[')}]({target})"
