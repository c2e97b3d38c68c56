"""What is read aloud of a text; pure."""

import re

SPOKEN_MOST = 10_000  # characters, some ten minutes

_FENCE = re.compile(r"^(```|~~~).*?(^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_ADDRESS = re.compile(r"<?https?://[^\s>]+>?")
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+])[ \t]+", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_STRONG = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1(?!\w)")
_EMPTY = re.compile(r"\n{3,}")


def spoken(markdown: str) -> str:
    """Return the words of a model's answer: without code blocks, addresses and formatting."""
    text = _FENCE.sub("", markdown)
    text = _LINK.sub(r"\1", text)
    text = _ADDRESS.sub("", text)
    text = _RULE.sub("", text)
    text = _MARKS.sub("", text)
    text = _STRONG.sub(r"\2", text)
    return _EMPTY.sub("\n\n", text).strip()
