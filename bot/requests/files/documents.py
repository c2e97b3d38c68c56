"""Recognises untrusted text files, PDFs and office files, and reads them within limits.

A file's contents are only ever text, quoted before the question like the text a reply is about.
PDFs and office files are read in a separate process.
"""

from collections.abc import Sequence
from math import ceil

from backends.media.documents import DocumentContents, DocumentError, Fault, read_document
from bot.core.refusals import Declined, Refusal, RefusalKind
from queueing.core.requests import File

MOST_BYTES = 200_000  # more than any question may hold, even with four-byte characters


def require_short(name: str, size: int) -> None:
    """Refuse a file that is larger than the limit. Raises `Declined`."""
    if size > MOST_BYTES:
        limit = MOST_BYTES // 1000
        raise Declined(Refusal(RefusalKind.TEXT_FILE_TOO_LARGE, name=name, limit=limit))


def decoded(name: str, data: bytes) -> str:
    """Decode untrusted bytes as text. Raises `Declined`."""
    require_short(name, len(data))
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise Declined(Refusal(RefusalKind.NOT_A_TEXT, name=name)) from None
    if "\x00" in text:
        raise Declined(Refusal(RefusalKind.NOT_A_TEXT, name=name))
    return text


def together(texts: Sequence[tuple[str, str]], limit: int) -> str:
    """Join the texts of files, each under its name.

    Raises `Declined` above `limit` characters.
    """
    whole = "\n\n".join(f"{name}\n{text}".lstrip("\n") for name, text in texts)
    if len(whole) > limit:
        raise Declined(Refusal(RefusalKind.FILES_TOO_LONG, length=len(whole), limit=limit))
    return whole


PAPER_MB = 20  # the most Telegram lets a bot download; used everywhere
_READ_S = 30.0


def too_large(name: str, size: int, limit_mb: int) -> Declined:
    """Return the refusal of a file that is too large."""
    megabytes = ceil(size / 1_000_000)
    return Declined(Refusal(RefusalKind.FILE_TOO_LARGE, name=name, size=megabytes, limit=limit_mb))


def require_paper_weight(name: str, size: int) -> None:
    """Refuse a document that is larger than the limit. Raises `Declined`."""
    if size > PAPER_MB * 1_000_000:
        raise too_large(name, size, PAPER_MB)


async def opened(name: str, data: bytes, *, characters: int, images: int) -> DocumentContents:
    """Return the contents of an untrusted document, with at most so many characters and images.

    Raises `Declined`, including for pages without text if no image of them is wanted.
    """
    require_paper_weight(name, len(data))
    file = File(name=name, mime="", data=data)
    try:
        read = await read_document(file, characters=characters, images=images, wall_s=_READ_S)
    except DocumentError as error:
        raise Declined(_unread(name, error.fault)) from error
    if not read.text.strip() and not read.images:
        raise Declined(Refusal(RefusalKind.DOCUMENT_SCANNED, name=name))
    return read


def _unread(name: str, fault: Fault) -> Refusal:
    match fault:
        case Fault.NO_LIBRARY:
            return Refusal(RefusalKind.DOCUMENT_NO_LIBRARY)
        case Fault.TOO_LARGE:
            return Refusal(RefusalKind.DOCUMENT_TOO_LARGE, name=name)
        case Fault.ENCRYPTED:
            return Refusal(RefusalKind.DOCUMENT_ENCRYPTED, name=name)
        case Fault.OLD:
            return Refusal(RefusalKind.DOCUMENT_TOO_OLD, name=name)
        case Fault.UNREADABLE:
            return Refusal(RefusalKind.DOCUMENT_UNREADABLE, name=name)
