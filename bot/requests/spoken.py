"""What is read aloud of a text; pure."""

import re

SPOKEN_MOST = 10_000  # characters, some ten minutes
_LOOKED_AT = 15_000  # formatting included

_FENCE = re.compile(r"^(```|~~~).*?(^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^)\s]{0,500}\)")
_ADDRESS = re.compile(r"<?https?://[^\s>]+>?")
_RULES = re.compile(r"^[ \t]*(?:([-*_])(?:[ \t]*\1){2,}|[|:-]*\|[|: \t-]*)[ \t]*$\n?", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+])[ \t]+", re.MULTILINE)
_STRONG = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|~~|`+)(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)")
_EMPTY = re.compile(r"\n{3,}")


def spoken(markdown: str) -> str:
    """Return the words of a model's answer: without code blocks, addresses and formatting."""
    text = _FENCE.sub("", markdown[:_LOOKED_AT])
    text = _LINK.sub(r"\1", text)
    text = _ADDRESS.sub("", text)
    text = _RULES.sub("", text)
    text = _ROW.sub(lambda row: ", ".join(filter(None, map(str.strip, row[1].split("|")))), text)
    text = _MARKS.sub("", text)
    for _ in range(2):  # strong words within others
        text = _STRONG.sub(r"\2", text)
    return _EMPTY.sub("\n\n", text).strip()
