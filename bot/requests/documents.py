"""Untrusted text files, PDFs and office files: recognised, and read within bounds.

A file's contents are only ever text: quoted before the question, like the words a reply is about.
PDFs and office files are read in a process of their own.
"""

from collections.abc import Sequence
from math import ceil

from backends.media.documents import DocumentContents, DocumentError, read_document
from bot.core.refusals import (
    Declined,
    FilesTooLong,
    FileTooHeavy,
    NotText,
    PaperUnread,
    TextTooHeavy,
)
from queueing.core.requests import File

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


PAPER_MB = 20  # the most Telegram lets a bot download; the same everywhere
SCANNED = "scanned"
_READ_S = 30.0


def require_paper_weight(name: str, size: int) -> None:
    """Refuse a document of more bytes than are read. Raises `Declined`."""
    if size > PAPER_MB * 1_000_000:
        raise Declined(FileTooHeavy(name=name, size_mb=ceil(size / 1_000_000), limit_mb=PAPER_MB))


async def opened(name: str, data: bytes, *, characters: int, images: int) -> DocumentContents:
    """Return what a stranger's document says, in at most so many characters and images.

    Raises `Declined`, also for pages without words where no image of them is wanted.
    """
    require_paper_weight(name, len(data))
    file = File(name=name, mime="", data=data)
    try:
        read = await read_document(file, characters=characters, images=images, wall_s=_READ_S)
    except DocumentError as error:
        raise Declined(PaperUnread(name=name, why=error.fault)) from error
    if not read.text.strip() and not read.images:
        raise Declined(PaperUnread(name=name, why=SCANNED))
    return read
