"""Which documents are read, and why one is not. Pure."""

from enum import StrEnum

PDF = "application/pdf"
OFFICE = "application/zip"  # what exactly, the files within say

_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OASIS = "application/vnd.oasis.opendocument."
_MICROSOFT = "application/vnd.ms-"
DOCUMENTS = frozenset(
    {
        PDF,
        *(f"{_OPEN_XML}wordprocessingml.{kind}" for kind in ("document", "template")),
        *(f"{_OPEN_XML}spreadsheetml.{kind}" for kind in ("sheet", "template")),
        *(
            f"{_OPEN_XML}presentationml.{kind}"
            for kind in ("presentation", "slideshow", "template")
        ),
        *(f"{_OASIS}{kind}" for kind in ("text", "spreadsheet", "presentation")),
        *(
            f"{_MICROSOFT}{kind}.macroenabled.12"
            for kind in ("word.document", "excel.sheet", "powerpoint.presentation")
        ),
    }
)
ENDINGS = frozenset(
    [
        ".pdf",
        ".docx",
        ".docm",
        ".dotx",
        ".xlsx",
        ".xlsm",
        ".xltx",
        ".pptx",
        ".pptm",
        ".ppsx",
        ".potx",
        ".odt",
        ".ods",
        ".odp",
    ]
)
_PDF_WITHIN = 1024  # bytes that may stand before a PDF's mark
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # before 2007, or encrypted


class Fault(StrEnum):
    """Why a document is not read."""

    UNREADABLE = "unreadable"  # damaged, of another kind, or it took too long
    TOO_LARGE = "too-large"
    ENCRYPTED = "encrypted"  # needs a password
    OLD = "old"  # of Office before 2007
    NO_LIBRARY = "no-library"


def kind_of(data: bytes) -> str:
    """Return the media type of a PDF, `OFFICE` for what may be an office file, "" for others."""
    if data.startswith((b"PK\x03\x04", _OLD)):
        return OFFICE
    return PDF if b"%PDF-" in data[:_PDF_WITHIN] else ""


def fault_of_old(data: bytes) -> Fault | None:
    """Return why a file in the form that Office used before 2007 is not read; None for others."""
    if not data.startswith(_OLD):
        return None
    locked = "EncryptedPackage".encode("utf-16-le")  # a new file within the old form
    return Fault.ENCRYPTED if locked in data else Fault.OLD
