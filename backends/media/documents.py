"""Reads PDFs and office files as text or page images, in a separate confined process.

`read_document` takes PDFs (with `usher-bot[media]`), Word, PowerPoint and Excel files since 2007,
and OpenDocument texts, presentations and spreadsheets. The bytes decide the type. A file's name and
declared type only help to decide whether to try at all (`is_document`).
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
    """The contents of a document.

    `text` names pages, slides and sheets in brackets. `pages` is their number, or 0 if the file
    does not state it. A page without text (a scan) becomes one of the JPEG `images`, and so do the
    images in an office file with hardly any text. `truncated` is set if there is more text, or more
    such pages, than requested.
    """

    text: str
    pages: int = 0
    images: tuple[File, ...] = ()
    truncated: bool = False


class DocumentError(Exception):
    """A document that cannot be read; `fault` says why, and the text is for the operator."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def is_document(mime: str, name: str = "") -> bool:
    """Return whether a file claims to be of a type that `read_document` reads.

    Chats label many files as plain bytes or as an archive, so the name's extension counts too.
    """
    said = mime.partition(";")[0].strip().lower()
    return said in DOCUMENTS or PurePath(name).suffix.lower() in ENDINGS


def reads_pdfs() -> bool:
    """Return whether the library for PDFs (`usher-bot[media]`) is installed."""
    return installed("pypdfium2")


async def read_document(
    file: File, *, characters: int = CHARACTERS, images: int = IMAGES, wall_s: float = WALL_S
) -> DocumentContents:
    """Read a document. Returns at most `characters` characters and `images` images.

    Raises `DocumentError` if it is of another type, damaged, encrypted or too large, if it takes
    too long, or if the library for PDFs is missing.
    """
    if len(file.data) > MOST_BYTES:
        raise DocumentError(Fault.TOO_LARGE, f"the document has {len(file.data)} bytes")
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
