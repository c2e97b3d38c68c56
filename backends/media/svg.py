"""Removes comments and `<metadata>` and `<desc>` elements from SVG drawings, in one pass. Pure."""

import re
from collections.abc import Iterator

# Possessive, so that no file takes long; attributes may contain ">".
_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_NAME = re.compile(rb"</?(?:[\w.-]+:)?([\w.-]*)")
_SVG = re.compile(rb"<(?:[\w.-]+:)?svg\b")
_BLANK = b"\xef\xbb\xbf \t\r\n"
_SECTIONS = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"))
_HIDDEN = frozenset({b"metadata", b"desc"})


def is_drawing(data: bytes) -> bool:
    """Return whether a text is an SVG file."""
    return data.lstrip(_BLANK).startswith(b"<") and _SVG.search(data) is not None


def clean(data: bytes) -> bytes:
    """Return a drawing without its descriptions. Raises `ValueError` if it is truncated."""
    kept = bytearray()
    depth = 0  # of hidden elements around this position
    for piece in _pieces(data):
        if piece.startswith(b"<!--"):
            continue
        found = _NAME.match(piece)
        if found is None or found[1].lower() not in _HIDDEN:
            kept += piece if depth == 0 else b""
        elif not piece.endswith(b"/>"):
            depth = max(0, depth - 1) if piece.startswith(b"</") else depth + 1
    if depth:
        raise ValueError("the drawing is cut off")
    return bytes(kept)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield comments, character sections, tags, and the words between them."""
    at = 0
    while at < len(data):
        end = _end_of_markup(data, at) if data[at : at + 1] == b"<" else data.find(b"<", at)
        end = len(data) if end < 0 else end
        yield data[at:end]
        at = end


def _end_of_markup(data: bytes, at: int) -> int:
    """Return where the markup that begins here ends. Raises `ValueError` if it does not."""
    for begin, close in _SECTIONS:
        if data.startswith(begin, at):
            end = data.find(close, at + len(begin))
            if end < 0:
                raise ValueError("the drawing is cut off")
            return end + len(close)
    tag = _TAG.match(data, at)
    if tag is None:
        raise ValueError("the drawing is cut off")
    return tag.end()
