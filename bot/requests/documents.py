"""Untrusted text files: recognised by name and type, read within bounds; pure.

A file's contents are only ever text: quoted before the question, like the words a reply is about.
"""

from collections.abc import Sequence

from bot.core.refusals import Declined, FilesTooLong, NotText, TextTooHeavy

MOST_BYTES = 200_000  # more than any question may hold in letters of four bytes


def require_short(name: str, size: int) -> None:
    """Refuse a file of more bytes than are read. Raises `Declined`."""
    if size > MOST_BYTES:
        raise Declined(TextTooHeavy(name=name, limit_kb=MOST_BYTES // 1000))


def decoded(name: str, data: bytes) -> str:
    """Return a stranger's bytes as text. Raises `Declined`."""
    require_short(name, len(data))
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise Declined(NotText(name=name)) from None
    if "\x00" in text:
        raise Declined(NotText(name=name))
    return text


def together(texts: Sequence[tuple[str, str]], limit: int) -> str:
    """Return what files say, each under its name. Raises `Declined` for more than `limit` characters."""
    whole = "\n\n".join(f"{name}\n{text}" for name, text in texts)
    if len(whole) > limit:
        raise Declined(FilesTooLong(length=len(whole), limit=limit))
    return whole
