"""PDFs and office files: read within bounds, in a process of their own."""

from math import ceil

from backends.media.documents import DocumentContents, DocumentError, read_document
from bot.core.refusals import Declined, FileTooHeavy, PaperUnread
from queueing.core.requests import File

PAPER_MB = 20  # the most Telegram lets a bot download; the same everywhere
SCANNED = "scanned"
_READ_S = 30.0


def require_paper_weight(name: str, size: int) -> None:
    """Refuse a document of more bytes than are read. Raises `Declined`."""
    if size > PAPER_MB * 1_000_000:
        raise Declined(FileTooHeavy(name=name, size_mb=ceil(size / 1_000_000), limit_mb=PAPER_MB))


async def opened(name: str, data: bytes, *, characters: int, pictures: int) -> DocumentContents:
    """Return what a stranger's document says, in at most so many characters and pictures.

    Raises `Declined`, also for pages without words where no picture of them is wanted.
    """
    require_paper_weight(name, len(data))
    file = File(name=name, mime="", data=data)
    try:
        read = await read_document(file, characters=characters, pictures=pictures, wall_s=_READ_S)
    except DocumentError as error:
        raise Declined(PaperUnread(name=name, why=error.fault)) from error
    if not read.text.strip() and not read.pictures:
        raise Declined(PaperUnread(name=name, why=SCANNED))
    return read
