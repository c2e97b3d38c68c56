"""Reads a model's Markdown as a tree of elements, with markdown-it. Pure functions.

Accepts any input, and runs in time linear in the length of the text. No text is lost: HTML and
unknown markup stay as written. CommonMark's tables end a cell at each "|", even within code, and
leave out what is beyond the last column. Here a row with too many cells keeps code and formulas
whole, and its last cell takes the rest.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from threading import Lock

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as commonmark
from markdown_it.token import Token

from bot.markdown import rules
from bot.markdown.elements import Blocks, Element, Kind, words

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


_ADDRESS_MOST = 500  # longer ones would not fit next to their words
_LANGUAGE_MOST = 40
_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_VISIBLE = re.compile("[^\\s\u00ad\u200b-\u200f\u2060\u2800\u3164\ufeff]")
_TASK = re.compile(r"\[(?P<mark>[ xX])\][ \t\n]+(?=\S)")
_ALIGNMENT = "text-align:"
_INTERRUPT = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def _reader() -> MarkdownIt:
    """Return a parser of CommonMark with tables and the extensions that models use.

    Reference definitions are off: they would change earlier text while an answer grows, and hide
    their own. Images become links, so their rule is off as well.
    """
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 60})
    reader.enable(["table", "strikethrough"])
    reader.disable(["html_block", "html_inline", "reference", "image", "fence"])
    reader.block.ruler.before("table", "deep", rules.deep)
    reader.block.ruler.at("table", table, {"alt": ["paragraph", "reference"]})
    reader.block.ruler.before("code", "any_fence", rules.fence, _INTERRUPT)  # type: ignore[arg-type]
    reader.block.ruler.before("code", "display", rules.display, _INTERRUPT)  # type: ignore[arg-type]
    reader.block.ruler.at("paragraph", rules.paragraph)
    inline = reader.inline
    inline.add_terminator_char("|")
    inline.ruler.before("escape", "formula", rules.formula)
    inline.ruler.before("newline", "address", rules.address)
    inline.ruler.before("emphasis", "star", rules.emphasis)
    inline.ruler.before("emphasis", "spoiler", rules.spoiler)
    inline.ruler.before("autolink", "line_break", rules.line_break)
    return reader


_READER = _reader()
_KINDS = {
    "paragraph": Kind.PARAGRAPH,
    "heading": Kind.HEADING,
    "blockquote": Kind.QUOTE,
    "bullet_list": Kind.LIST,
    "ordered_list": Kind.LIST,
    "list_item": Kind.ITEM,
    "table": Kind.TABLE,
    "tr": Kind.ROW,
    "th": Kind.CELL,
    "td": Kind.CELL,
    "strong": Kind.STRONG,
    "em": Kind.EMPHASIS,
    "s": Kind.STRUCK,
    "spoiler": Kind.SPOILER,
    "link": Kind.LINK,
}
_WITHIN_A_LINE = frozenset({"strong", "em", "s", "spoiler", "link"})
_LEAVES = {
    "text": Kind.TEXT,
    "text_special": Kind.TEXT,
    "code_inline": Kind.CODE,
    "formula": Kind.FORMULA,
    "display": Kind.DISPLAY,
    "hr": Kind.RULE,
}


# Control characters, and marks that reverse the text around them. A model can be persuaded to write
# them. A lone surrogate cannot be encoded.
_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class _Settled:
    """The beginning of a growing answer that no further word can change."""

    source: str = ""
    blocks: Blocks = ()


_ANSWERS = 32  # that are being written at the same time
_KEY = 80  # characters that tell them apart
_settled: dict[str, _Settled] = {}
_settling = Lock()  # long answers are read in threads


@lru_cache(maxsize=_ANSWERS)
def parse(text: str) -> Blocks:
    """Return the blocks of an answer. An unclosed code block extends to its end.

    A growing answer is read from its last block on, so the cost of an edit does not grow.
    """
    source = _UNSENDABLE.sub("", _LINE_ENDS.sub("\n", text))
    known = _settled.get(source[:_KEY], _Settled())
    if not source.startswith(known.source):
        known = _Settled()
    rest = source[len(known.source) :]
    tokens = _READER.parse(rest)
    blocks = known.blocks + _tree(iter(tokens))
    _settle(known, rest, tokens, blocks)
    return blocks


def _settle(known: _Settled, rest: str, tokens: Sequence[Token], blocks: Blocks) -> None:
    """Remember what comes before the last block that begins after an empty line.

    The last line is not read yet: "#" begins a heading, and "#1" continues the paragraph.
    """
    lines = rest.split("\n")
    starts = [
        token.map[0] for token in tokens if token.map and token.level == 0 and token.nesting >= 0
    ]
    last = max((index for index, line in enumerate(starts) if _is_apart(lines, line)), default=0)
    if last:
        source = known.source + "".join(f"{line}\n" for line in lines[: starts[last]])
        new = blocks[: len(known.blocks) + last]
        with _settling:
            while len(_settled) >= _ANSWERS:
                del _settled[next(iter(_settled))]
            _settled[source[:_KEY]] = _Settled(source, new)


def _is_apart(lines: Sequence[str], line: int) -> bool:
    return 0 < line < len(lines) - 1 and not lines[line - 1].strip()


def _tree(tokens: Iterator[Token]) -> Blocks:
    """Return the elements up to the end of the token that encloses them."""
    made: list[Element] = []
    for token in tokens:
        if token.nesting < 0 and token.type.removesuffix("_close") in _KINDS:
            break
        made += _nodes(token, tokens)
    return tuple(made)


def _nodes(token: Token, tokens: Iterator[Token]) -> Sequence[Element]:
    name = token.type.removesuffix("_open")
    if token.type == "inline":
        return _joined(_tree(iter(token.children or ())))
    if token.type in {"softbreak", "hardbreak"}:
        return (Element(Kind.TEXT, text="\n"),)
    if token.type in {"fence", "code_block"}:
        return (_code(token),)
    if token.type in _LEAVES:
        return (Element(_LEAVES[token.type], text=token.content),)
    if token.nesting > 0 and name in _KINDS:
        inside = _tree(tokens)
        children = tuple(_joined(inside)) if name in _WITHIN_A_LINE else inside
        return _closed(Element(_KINDS[name], children), token)
    return ()  # thead and tbody: their rows belong to the table


def _closed(node: Element, token: Token) -> Sequence[Element]:  # noqa: PLR0911  # one for each kind
    """Return a node with the attributes of its token."""
    match node.kind:
        case Kind.PARAGRAPH if token.hidden:
            return (replace(node, kind=Kind.LINE),)
        case Kind.HEADING:
            return (replace(node, number=int(token.tag[1:])),)
        case Kind.LIST if token.tag == "ol":
            first = int(token.attrs.get("start", 1))
            return (replace(node, value=token.markup, number=first),)
        case Kind.ITEM:
            return (_task(node),)
        case Kind.CELL:
            style = str(token.attrs.get("style", ""))
            return (replace(node, value=style.removeprefix(_ALIGNMENT)),)
        case Kind.LINK:
            return _link(node, str(token.attrs.get("href", "")))
    return (node,)


def _code(token: Token) -> Element:
    language = (token.info.strip(" {}.").split() or [""])[0]
    text = token.content.removesuffix("\n")
    return Element(Kind.FENCE, text=text, value=language[:_LANGUAGE_MOST])


def _task(item: Element) -> Element:
    """Return an item with the mark of a task, `[ ]` or `[x]`, as its state."""
    first = item.children[0] if item.children else item
    start = first.children[0] if first.children else first
    found = _TASK.match(start.text) if start.kind is Kind.TEXT else None
    if found is None:
        return item
    rest = replace(start, text=start.text[found.end() :])
    line = replace(first, children=(rest, *first.children[1:]))
    state = "open" if found["mark"] == " " else "done"
    return replace(item, children=(line, *item.children[1:]), value=state)


def _link(node: Element, address: str) -> Sequence[Element]:
    """Return a link, or the words and the address of one that does not lead to the web."""
    if _WEB.match(address) and len(address) <= _ADDRESS_MOST:
        seen = _VISIBLE.search(words(node.children))
        label = node.children if seen else (Element(Kind.TEXT, text=address),)
        return (replace(node, children=label, value=address),)
    bare = address.removeprefix("mailto:")
    if not address or [child.text for child in node.children] in ([address], [bare]):
        return node.children
    return (*node.children, Element(Kind.TEXT, text=f" ({address})" if node.children else address))


def _joined(nodes: Sequence[Element]) -> Sequence[Element]:
    """Return the elements of a line with neighbouring texts joined.

    An image becomes a link to it.
    """
    made: list[Element] = []
    for node in nodes:
        last = made[-1] if made else None
        if last is not None and last.kind is node.kind is Kind.TEXT:
            made[-1] = replace(last, text=last.text + node.text)
            continue
        if last is not None and node.kind is Kind.LINK and last.text.endswith("!"):
            made[-1] = replace(last, text=last.text[:-1])
        made.append(node)
    return [node for node in made if node.children or node.text or node.kind is Kind.LINK]
