"""PDFs and office files as text, or as images of their pages, read in a process of their own.

`read_document` takes a PDF (`usher-bot[media]`), Word, PowerPoint and Excel files since 2007, and
OpenDocument texts, presentations and spreadsheets. The bytes decide what a file is; its name and
declared type only tell beforehand whether it is worth a try (`is_document`).
"""

from dataclasses import dataclass
from pathlib import PurePath

from backends.common.file_types import DOCUMENTS, ENDINGS, PDF, Fault, kind_of
from backends.media.helper.process import MediaError, ask, installed
from backends.media.helper.protocol import MediaTask, Order, pieces
from queueing.core.requests import File

__all__ = [
    "DocumentContents",
    "DocumentError",
    "Fault",
    "is_document",
    "read_document",
    "reads_pdfs",
]

MOST_BYTES = 50_000_000
CHARACTERS = 200_000
IMAGES = 8
WALL_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentContents:
    """What a document says.

    `text` names pages, slides and sheets in brackets; `pages` is how many there are, 0 where the
    file does not tell. A page without words (a scan) is one of the JPEG `images`; so
    are the images in an office file that hardly says anything. `truncated` is set if there is more
    text, or more such pages, than was asked for.
    """

    text: str
    pages: int = 0
    images: tuple[File, ...] = ()
    truncated: bool = False


class DocumentError(Exception):
    """A document that cannot be read; `fault` says why, the text is for the operator."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def is_document(mime: str, name: str = "") -> bool:
    """Return whether a file claims to be of a kind that `read_document` reads.

    Chats label many files merely as bytes or as an archive, so the name's ending counts as well.
    """
    said = mime.partition(";")[0].strip().lower()
    return said in DOCUMENTS or PurePath(name).suffix.lower() in ENDINGS


def reads_pdfs() -> bool:
    """Return whether the library for PDFs (`usher-bot[media]`) is installed."""
    return installed("pypdfium2")


async def read_document(
    file: File, *, characters: int = CHARACTERS, images: int = IMAGES, wall_s: float = WALL_S
) -> DocumentContents:
    """Return what a document says, in at most that many characters and images.

    Raises `DocumentError` if it is no such document, damaged, encrypted, too large, takes too long,
    or if the library for PDFs is missing.
    """
    if len(file.data) > MOST_BYTES:
        raise DocumentError(Fault.TOO_LARGE, f"{len(file.data)} bytes of a document")
    mime = kind_of(file.data)
    if not mime:
        raise DocumentError(Fault.UNREADABLE, f"{file.mime} is neither a PDF nor an office file")
    if mime == PDF and not reads_pdfs():
        raise DocumentError(Fault.NO_LIBRARY, "PDFs need usher-bot[media]")
    order = Order(
        task=MediaTask.READ,
        mime=mime,
        size=len(file.data),
        characters=characters,
        images=images,
    )
    try:
        answer, made = await ask(order, file.data, wall_s=wall_s)
    except MediaError as error:
        fault = Fault(error.fault) if error.fault in set(Fault) else Fault.UNREADABLE
        raise DocumentError(fault, str(error)) from error
    text, *pages = pieces(made, answer.parts) if answer.parts else (b"",)
    stem = PurePath(file.name).stem or "document"
    return DocumentContents(
        text=text.decode("utf-8", "replace")[:characters],
        pages=answer.pages,
        images=tuple(
            File(name=f"{stem}-{number}.jpg", mime="image/jpeg", data=page)
            for number, page in enumerate(pages[:images], start=1)
        ),
        truncated=answer.truncated,
    )
