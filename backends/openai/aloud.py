"""Prepares a text for being read aloud: no Markdown, in parts that end with a sentence. Pure."""

import re

PART_MOST = 4096  # characters; OpenAI takes no more

_SPAN = 200  # characters of a link's or an emphasised text: bounded, so that no text takes long

_LINES = (
    (re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE), ""),  # fences; the code stays
    (re.compile(r"^[ \t]*(?:\*[ \t]*){3,}$|^[ \t]*(?:_[ \t]*){3,}$", re.MULTILINE), ""),
    (
        re.compile(r"^[ \t|:+=-]{0,200}[-=]{3}[ \t|:+=-]*$", re.MULTILINE),
        "",
    ),  # rules, of tables too
    (re.compile(r"^[ \t]{0,8}(?:>[ \t]?)+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]{0,8}#{1,6}[ \t]+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*[-*+•][ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE), ""),
)
_ROW = re.compile(r"^[ \t]*\|([^\n]*)\|[ \t]*$", re.MULTILINE)
_TARGET = r"\((?:[^()\n]|\([^()\n]{0,200}\)){0,2000}\)"
_LINK = re.compile(rf"!?\[([^\[\]\n]{{0,{_SPAN}}})\](?:{_TARGET}|\[[^\[\]\n]{{0,100}}\])")
_CODE = re.compile(rf"(`{{1,3}})([^`\n]{{1,{_SPAN}}})\1")
_EMPHASIS = re.compile(
    rf"(?<![\w*_~\\])(\*{{1,3}}|_{{1,3}}|~~)(?=\S)([^\n]{{1,{_SPAN}}}?)(?<=[^\s\\])\1(?![\w*_~])"
)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])")
_GAPS = re.compile(r"\n{3,}")

_BREAKS = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"[.!?…][\"'”\u2019»)\]]*(?=\s)|[。\uff01\uff1f]"),
    re.compile(r"\n"),
    re.compile(r"[,;:–](?=\s)|[\uff0c、\uff1b\uff1a]"),
    re.compile(r"\s"),
)
"""Where a text may be cut, the best places first."""


def plain_words(text: str) -> str:
    """Return a text without the marks of Markdown, or as it is where nothing else is in it."""
    words = text
    for pattern, instead in _LINES:
        words = pattern.sub(instead, words)
    words = _ROW.sub(lambda row: ", ".join(filter(None, map(str.strip, row[1].split("|")))), words)
    words = _LINK.sub(r"\1", words)
    words = _CODE.sub(r"\2", words)
    for _ in range(3):  # bold inside italics inside struck out
        words = _EMPHASIS.sub(r"\2", words)
    words = _GAPS.sub("\n\n", _ESCAPED.sub(r"\1", words)).strip()
    return words or text.strip()


def parts_of(text: str, most: int = PART_MOST) -> list[str]:
    """Return a text in parts of at most `most` characters, cut after sentences where there are any.

    Together they have every character of the text that is no white space; none is blank.
    """
    parts, rest = [], text.strip()
    while len(rest) > most:
        cut = _cut(rest, most)
        parts.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [part for part in (*parts, rest) if part]


def _cut(text: str, most: int) -> int:
    """Return where the first part ends: at the best kind of place in its second half, or anywhere."""
    for least in (most // 2, 1):
        for pattern in _BREAKS:
            ends = [found.end() for found in pattern.finditer(text, 0, most)]
            if ends and ends[-1] >= least:
                return ends[-1]
    return most
