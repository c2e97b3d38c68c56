"""Reads Open XML and OpenDocument files. Only for the helper process; needs no library."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

from backends.common.file_types import Fault, fault_of_old
from backends.media.helper.document_content import Full, Paper
from backends.media.helper.office_archive import Package
from backends.media.helper.protocol import Answer, Faulty, Order
from backends.media.helper.sheets import write_sheets

_BREAKS: Mapping[str, str] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_REPEATED_MOST = 64  # most spaces or cells to write for a repeat count


class OpenXmlWords:
    """Writes the paragraphs of a Word document or a slide; each table row becomes a line."""

    _UNSEEN = frozenset({"Fallback"})  # a duplicate for older programs

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self._cells = self._unseen = 0
        self._heard = False

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        """Enter an element."""
        del fields
        self._unseen += self._unseen > 0 or name in self._UNSEEN
        self._cells += name == "tc"
        self._heard = name == "t" and not self._unseen
        if name in _BREAKS and not self._unseen:
            self._paper.add(_BREAKS[name])

    def end(self, name: str) -> None:
        """Leave an element."""
        self._heard = False
        if self._unseen:
            self._unseen -= 1
        elif name == "p":
            self._paper.add(" " if self._cells else "\n")
        elif name == "tc":
            self._cells -= 1
            self._paper.add("\t")
        elif name == "tr":
            self._paper.add("\n")

    def words(self, text: str) -> None:
        """Handle text."""
        if self._heard:
            self._paper.add(text)


class OpenDocumentWords:
    """Writes the paragraphs, table rows, slides and sheets of an OpenDocument file."""

    _UNSEEN = frozenset({"tracked-changes"})  # deleted text

    def __init__(self, paper: Paper, *, names_tables: bool) -> None:
        self._paper = paper
        self._names_tables = names_tables
        self._paragraphs = self._cells = self._unseen = 0
        self._row: list[str] = []
        self._repeated = 1
        self.pages = 0

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        """Enter an element."""
        self._unseen += self._unseen > 0 or name in self._UNSEEN
        if self._unseen:
            return
        match name:
            case "p" | "h":
                self._paragraphs += 1
            case "s":
                self._write(" " * _count(fields.get("c", "1")))
            case "tab":
                self._write("\t")
            case "line-break":
                self._write("\n")
            case "page":
                self._headed("slide", "")
            case "table" if self._names_tables:
                self._headed("sheet", fields.get("name", ""))
            case "table-cell" | "covered-table-cell":
                self._cells += 1
                self._row.append("")
                self._repeated = _count(fields.get("number-columns-repeated", "1"))

    def end(self, name: str) -> None:
        """Leave an element."""
        if self._unseen:
            self._unseen -= 1
            return
        match name:
            case "p" | "h":
                self._paragraphs -= 1
                self._write(" " if self._cells else "\n")
            case "table-cell" | "covered-table-cell":
                self._cells -= 1
                self._row += self._row[-1:] * (self._repeated - 1)
                self._repeated = 1
            case "table-row" if not self._cells and self._row:
                line = "\t".join(cell.strip() for cell in self._row).rstrip()
                self._row = []
                self._paper.release()
                self._paper.add(f"{line}\n" if line else "")

    def words(self, text: str) -> None:
        """Handle text."""
        if self._paragraphs and not self._unseen:
            self._write(text)

    def _write(self, text: str) -> None:
        if not (self._cells and self._row):
            self._paper.add(text)
            return
        self._row[-1] += text
        self._paper.require(len(text) * self._repeated)

    def _headed(self, what: str, name: str) -> None:
        self.pages += 1
        self._paper.add(f"\n[{what} {name or self.pages}]\n")


def _count(said: str) -> int:
    """Return a repeat count, limited to `_REPEATED_MOST`."""
    return min(max(int(said), 1), _REPEATED_MOST) if said.isdecimal() else 1


_WORD, _SLIDES, _SHEETS = "word/document.xml", "ppt/presentation.xml", "xl/workbook.xml"
_OPEN_DOCUMENT = "content.xml"
_WORDLESS = 200  # bytes of text; with fewer, its images are read too
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")


def read(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Read an office file. Raises `Faulty`."""
    if (fault := fault_of_old(data)) is not None:
        raise Faulty(fault)
    package, paper = Package(data), Paper(order.characters)
    pages = _Pages()
    with suppress(Full):
        pages.write(package, paper)
    text = paper.text().encode("utf-8", "replace")
    drawn = list(_scans(package, order.images)) if len(text) < _WORDLESS else []
    answer = Answer(
        mime="text/plain",
        pages=pages.count,
        truncated=paper.truncated,
        parts=(len(text), *(len(image) for image in drawn)),
    )
    return answer, b"".join((text, *drawn))


def _scans(package: Package, most: int) -> Iterator[bytes]:
    """Yield the images of a document with hardly any text."""
    # Imported here because most documents do not need Pillow; the sandbox still allows reading it.
    from backends.media.helper.pixels import image_page  # noqa: PLC0415

    found = (image_page(data) for data in package.images(most))
    yield from islice((image for image in found if image), most)


class _Pages:
    """Writes the text of a file of any type, and counts its pages."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, package: Package, paper: Paper) -> None:
        """Write all text. Raises `Full` when enough is written."""
        if _WORD in package:
            for name in (_WORD, *_NOTES):
                package.hear(name, OpenXmlWords(paper))
        elif _SLIDES in package:
            slides = _slides(package)
            self.count = len(slides)
            for number, name in enumerate(slides, start=1):
                _write_slide(package, paper, (number, name))
        elif _SHEETS in package:
            self.count = write_sheets(package, paper)
        elif _OPEN_DOCUMENT in package:
            self._write_open_document(package, paper)
        else:
            raise Faulty(Fault.UNREADABLE)

    def _write_open_document(self, package: Package, paper: Paper) -> None:
        head = _Head()
        package.hear("META-INF/manifest.xml", head)
        if head.encrypted:
            raise Faulty(Fault.ENCRYPTED)
        words = OpenDocumentWords(paper, names_tables=head.is_spreadsheet)
        try:
            package.hear(_OPEN_DOCUMENT, words)
        finally:
            self.count = words.pages


def _slides(package: Package) -> list[str]:
    """Return the files of the slides, in display order."""
    shown = _Shown()
    package.hear(_SLIDES, shown)
    related = package.related(_SLIDES)
    return [related[each][1] for each in shown.references if each in related]


def _write_slide(package: Package, paper: Paper, slide: tuple[int, str]) -> None:
    number, name = slide
    paper.add(f"\n[slide {number}]\n")
    package.hear(name, OpenXmlWords(paper))
    for kind, path in package.related(name).values():
        if kind == "notesSlide":
            paper.add("\n[notes]\n")
            package.hear(path, OpenXmlWords(paper))


class _Shown:
    """Collects the order of the slides."""

    def __init__(self) -> None:
        self.references: list[str] = []

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        if name == "sldId":
            self.references.append(fields.get("r:id", ""))

    def end(self, name: str) -> None:
        """Not used."""

    def words(self, text: str) -> None:
        """Not used."""


class _Head:
    """Collects a document's properties from an OpenDocument manifest."""

    def __init__(self) -> None:
        self.encrypted = self.is_spreadsheet = False

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        self.encrypted |= name == "encryption-data"
        if name == "file-entry" and fields.get("full-path") == "/":
            self.is_spreadsheet = "spreadsheet" in fields.get("media-type", "")

    def end(self, name: str) -> None:
        """Not used."""

    def words(self, text: str) -> None:
        """Not used."""
