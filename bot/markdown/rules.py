"""Rules for markdown-it: what models write beyond CommonMark. Pure functions."""

import re

from markdown_it.common.utils import isWhiteSpace
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter

DEEPEST = 16  # levels of lists and quotations; a list takes two

_FENCE = re.compile(r"(?P<marker>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)$")
_DISPLAY = {"$$": "$$", "\\[": "\\]"}
_FORMULA_MARKS = re.compile(r"[\\^_={}<>+|]")
_DOLLARS = re.compile(r"\$(?P<body>[^\s$](?:[^$\n]{0,300}[^\s$\\])?)\$(?![\w$])")
_BREAK = re.compile(r"<br\s{0,3}/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"://[^\s<>\"'`*|\\]{1,2000}")
_SCHEME = re.compile(r"(?:^|[^a-z0-9.+-])(https?)$", re.IGNORECASE)
_ADDRESS_END = ".,:;!?~_*'\""
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_TEXT_INDENT = 3  # spaces; a line with more is code, or continues a paragraph
_UNSPACED = 0x2E80  # from here on, scripts without spaces between words


def deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what is nested too deeply as one paragraph. markdown-it would leave it out."""
    if silent or state.level < DEEPEST:
        return False
    state.push("paragraph_open", "p", 1).map = [start, end]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, end, state.blkIndent, False).strip()
    inline.map, inline.children = [start, end], []
    state.push("paragraph_close", "p", -1)
    state.line = end
    return True


def fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a code block, at any indentation.

    In a list, its lines may be indented less than the list requires: models often write them so.
    """
    opened = _FENCE.match(_line(state, start))
    if opened is None:
        return False
    if silent:
        return True
    marker = opened["marker"]
    line = start + 1
    while line < end and not _closes(_line(state, line), marker):
        line += 1
    token = state.push("fence", "code", 0)
    token.info, token.markup = opened["info"].strip(), marker
    token.content = state.getLines(start + 1, line, state.sCount[start], True)
    state.line = min(line + 1, end)
    token.map = [start, state.line]
    return True


def paragraph(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: ARG001
    """Read a paragraph. Unlike in CommonMark, a code block at any indentation ends it."""
    ends = state.md.block.ruler.getRules("paragraph")
    outer, state.parentType = state.parentType, "paragraph"
    line = start + 1
    while line < state.lineMax and not state.isEmpty(line):
        indented = state.sCount[line] - state.blkIndent > _TEXT_INDENT
        rules = [fence] if indented else ends
        if state.sCount[line] >= 0 and any(rule(state, line, end, True) for rule in rules):
            break
        line += 1
    state.parentType = outer
    state.line = line
    state.push("paragraph_open", "p", 1).map = [start, line]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, line, state.blkIndent, False).strip()
    inline.map, inline.children = [start, line], []
    state.push("paragraph_close", "p", -1)
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _closes(line: str, marker: str) -> bool:
    bare = line.rstrip()
    return len(bare) >= len(marker) and not bare.strip(marker[0])


def display(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    r"""Read a formula on separate lines: `$$ … $$` or `\[ … \]`. It must be closed."""
    first = _line(state, start)
    closing = _DISPLAY.get(first[:2])
    if closing is None or state.is_code_block(start):
        return False
    last = _display_end(state, start, end, closing)
    if last is None or silent:
        return last is not None
    source = "\n".join(_line(state, each) for each in range(start, last))
    body = source[2:].rstrip()[: -len(closing)]
    token = state.push("display", "", 0)
    token.content, token.map = body.strip(), [start, last]
    state.line = last
    return True


def _display_end(state: StateBlock, start: int, end: int, closing: str) -> int | None:
    """Return the line after a formula, or None if it has no end or nothing in it.

    Lines without an end are remembered, so that repeated opening marks do not search them again.
    """
    endless: dict[tuple[str, int, int], range] = state.env.setdefault("endless", {})
    key = closing, state.blkIndent, end
    line, text = start, _line(state, start)[len(closing) :]
    begun = bool(text.strip())
    while closing not in text:
        line += 1
        known = endless.get(key, range(0))
        if line in known or not _goes_on(state, line, end):
            endless[key] = range(start, known.stop if line in known else line + 1)
            return None
        text = _line(state, line)
    before = text.rstrip().removesuffix(closing)
    filled = before.strip() or line > start + 1 or (line > start and begun)
    ends = text.rstrip().endswith(closing) and closing not in before
    return line + 1 if ends and filled else None


def _goes_on(state: StateBlock, line: int, end: int) -> bool:
    return line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent


def formula(state: StateInline, silent: bool) -> bool:
    r"""Read a formula within a line: `\( … \)`, `\[ … \]`, `$$ … $$` or `$ … $`."""
    two = state.src[state.pos : state.pos + 2]
    closing = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}.get(two)
    if closing is not None:
        end = state.src.find(closing, state.pos + 2, state.posMax)
        body = state.src[state.pos + 2 : end]
        escaped_link = state.src.startswith("\\](", end)
        return end > 0 and not escaped_link and _put(state, silent, "formula", body, end + 2)
    found = _DOLLARS.match(state.src, state.pos, state.posMax) if two[:1] == "$" else None
    before = state.src[state.pos - 1 : state.pos]
    if found is None or before.isalnum() or before == "$":
        return False
    body = found["body"]
    # Prices and shell variables are not formulas.
    if len(body) > 2 and not _FORMULA_MARKS.search(body):
        return False
    return _put(state, silent, "formula", body, found.end())


def _put(state: StateInline, silent: bool, kind: str, body: str, end: int) -> bool:
    if not body.strip():
        return False
    if not silent:
        state.push(kind, "", 0).content = " ".join(body.split())
    state.pos = end
    return True


def line_break(state: StateInline, silent: bool) -> bool:
    """Read `<br>`, which models write into the cells of tables."""
    found = _BREAK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = found.end()
    return True


def address(state: StateInline, silent: bool) -> bool:
    """Read a bare web address, so that its characters are not taken for formatting."""
    if state.linkLevel > 0 or silent:
        return False
    scheme = _SCHEME.search(state.pending[-12:])
    found = _ADDRESS.match(state.src, state.pos, state.posMax)
    if scheme is None or found is None:
        return False
    rest = _trimmed(found[0])
    whole = scheme[1] + rest
    target = state.md.normalizeLink(whole)
    if len(rest) <= len("://") or not state.md.validateLink(target):
        return False
    state.pending = state.pending[: -len(scheme[1])]
    state.push("link_open", "a", 1).attrs = {"href": target}
    state.push("text", "", 0).content = whole
    state.push("link_close", "a", -1)
    state.pos += len(rest)
    return True


def _trimmed(text: str) -> str:
    """Return an address without the punctuation after it that belongs to the sentence."""
    while text:
        last = text[-1]
        opening = _BRACKETS.get(last)
        unmatched = opening is not None and text.count(opening) < text.count(last)
        if last not in _ADDRESS_END and not unmatched:
            break
        text = text[:-1]
    return text


def spoiler(state: StateInline, silent: bool) -> bool:
    """Read `||hidden words||`. A program's "or" has spaces around it, or words before it."""
    source, start = state.src, state.pos
    if not source.startswith("||", start) or source[start - 1 : start].isalnum():
        return False
    end = source.find("||", start + 2, state.posMax)
    inside = source[start + 2 : end]
    if end < 0 or not inside or inside != inside.strip():
        return False
    if not silent:
        most = state.posMax
        state.push("spoiler_open", "", 1)
        state.pos, state.posMax = start + 2, end
        state.md.inline.tokenize(state)
        state.posMax = most
        state.push("spoiler_close", "", -1)
    state.pos = end + 2
    return True


def emphasis(state: StateInline, silent: bool) -> bool:
    """Read the asterisks of emphasis where people see it and CommonMark does not.

    CommonMark reads "**語。**の" and "**Note:**text" as plain text, because of the punctuation before
    the closing asterisks. Scripts such as Chinese have no spaces between words. Asterisks may also
    multiply numbers.
    """
    if silent or state.src[state.pos] != "*":
        return False
    scanned = state.scanDelims(state.pos, canSplitWord=True)
    end = state.pos + scanned.length
    before = state.src[state.pos - 1 : state.pos] or " "
    after = state.src[end : min(end + 1, state.posMax)] or " "
    if _multiplies(before, scanned.length, after):
        state.pending += state.src[state.pos : end]
        state.pos = end
        return True
    unspaced = max(ord(before), ord(after)) >= _UNSPACED
    may_open = unspaced and not isWhiteSpace(ord(after))
    may_close = (unspaced or scanned.length > 1) and not isWhiteSpace(ord(before))
    for _ in range(scanned.length):
        state.push("text", "", 0).content = "*"
        delimiter = Delimiter(
            marker=ord("*"),
            length=scanned.length,
            token=len(state.tokens) - 1,
            end=-1,
            open=scanned.can_open or may_open,
            close=scanned.can_close or may_close,
        )
        state.delimiters.append(delimiter)
    state.pos = end
    return True


def _multiplies(before: str, asterisks: int, after: str) -> bool:
    """Return whether asterisks are those of "2*3*n" or "2**10"."""
    if not (before.isalnum() and after.isalnum()):
        return False
    digits = before.isdigit() + after.isdigit()
    return (asterisks == 1 and digits > 0) or (asterisks == 2 and digits == 2)
