"""Reads tables as models write them: a rule for markdown-it. Pure functions.

CommonMark's tables end a cell at each "|", even within code, and leave out what is beyond the last
column. Here a row with too many cells keeps code and formulas whole, and its last cell takes the
rest.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as commonmark
from markdown_it.token import Token

_BAR = re.compile(r"(?<!\\)\|")
_BAR_OUTSIDE = re.compile(
    r"(?:(?<!`)(?P<ticks>`{1,20})(?!`).{1,300}?(?<!`)(?P=ticks)(?!`)"
    r"|\$[^$|]{0,99}\|[^$]{0,99}\$|\\\|)|(?P<bar>\|)"
)


def table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table."""
    before = len(state.tokens)
    if not commonmark(state, start, end, silent):
        return False
    for line, row in _rows(state.tokens[before:]):
        source = state.src[state.bMarks[line] : state.eMarks[line]].strip()
        if len(_cells(source, _BAR.split(source))) > len(row):
            for token, content in zip(row, _filled(source, len(row)), strict=True):
                token.content = content
    return True


def _rows(tokens: list[Token]) -> Iterator[tuple[int, list[Token]]]:
    """Yield each row's line and its cells."""
    for index, token in enumerate(tokens):
        if token.type == "tr_open" and token.map:
            end = next(at for at in range(index, len(tokens)) if tokens[at].type == "tr_close")
            yield token.map[0], [each for each in tokens[index:end] if each.type == "inline"]


def _cells(source: str, parts: list[str]) -> list[str]:
    """Return the cells of a row without the bars at its ends."""
    first = int(source.startswith("|"))
    last = len(parts) - int(len(parts) > 1 and not parts[-1].strip())
    return parts[first:last]


def _filled(source: str, columns: int) -> list[str]:
    """Return the cells of a row that has too many, the rest of them in the last one."""
    outside = [found.start() for found in _BAR_OUTSIDE.finditer(source) if found["bar"]]
    ends = [-1, *outside, len(source)]
    parts = [source[a + 1 : b] for a, b in pairwise(ends)]
    found = [part.strip().replace("\\|", "|") for part in _cells(source, parts)]
    rest = [part for part in found[columns - 1 :] if part]
    kept = [*found[: columns - 1], " | ".join(rest)]
    return kept + [""] * (columns - len(kept))
