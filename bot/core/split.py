"""Cuts long Markdown into pages that are readable on their own; pure.

Lengths are UTF-16 units, as the chats count. A page never ends within a surrogate pair, and a code
fence that a cut would tear is closed on one page and opened again on the next.
"""

import re

# "++" and "*+" are possessive: text without a fence is passed over once.
_FENCE = re.compile(r"^(```++|~~~++)([^\n`]*+)$", re.MULTILINE)
_CLOSING_ROOM = 24  # for the fence closed at the end and opened at the beginning of a page


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def pages(text: str, limit: int) -> list[str]:
    """Return the text in pages of at most `limit` units each; at least one, perhaps empty.

    Cuts after a blank line, otherwise after a line, a word, or anywhere.
    """
    limit = max(limit, 2 * _CLOSING_ROOM)
    made: list[str] = []
    opened = ""
    while len(text) > limit or utf16_length(opened + text) > limit:
        room = limit - utf16_length(opened) - _CLOSING_ROOM
        cut = _cut(text, room)
        page = opened + text[:cut].rstrip()
        text = text[cut:].lstrip("\n")
        fence = _open_fence(page)
        made.append(page + (f"\n{fence[0]}" if fence else ""))
        opened = f"{fence[0]}{fence[1]}\n" if fence else ""
    made.append(opened + text)
    return made


def _cut(text: str, room: int) -> int:
    """Return how many characters go on this page: at least one."""
    end = min(len(text), room)
    while end > 1 and utf16_length(text[:end]) > room:
        end -= max(1, (utf16_length(text[:end]) - room) // 2)
    end = max(end, 1)
    for gap in ("\n\n", "\n", " "):
        at = text.rfind(gap, end // 2, end)
        if at > 0:
            return at + len(gap)
    return end


def _open_fence(page: str) -> tuple[str, str] | None:
    """Return the marker and language of a fence left open at the end of a page."""
    fence: tuple[str, str] | None = None
    for found in _FENCE.finditer(page):
        marker, language = found[1], found[2].strip()
        if fence is None:
            fence = (marker[:12], language[:8])
        elif marker.startswith(fence[0]) and not language:
            fence = None
    return fence
