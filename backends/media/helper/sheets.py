"""Writes an Excel file's cells row by row, with formatted dates. Only for the helper process."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from backends.media.helper.document_content import Paper
from backends.media.helper.office_archive import Package

_BOOK, _STYLES, _STRINGS = "xl/workbook.xml", "xl/styles.xml", "xl/sharedStrings.xml"
_STRINGS_MOST = 20_000_000  # characters of shared strings
_GAP_MOST = 64  # most empty cells to write
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_LAST_DAY = 2_958_465  # the end of the year 9999


def write_sheets(package: Package, paper: Paper) -> int:
    """Write every sheet and return their number. Raises `Full` and `Faulty`."""
    book = _Book()
    package.hear(_BOOK, book)
    formats, shared = _Formats(), _Strings()
    package.hear(_STYLES, formats)
    package.hear(_STRINGS, shared)
    related = package.related(_BOOK)
    for name, reference in book.sheets:
        if reference in related:
            paper.add(f"\n[sheet {name}]\n")
            start = datetime(1904, 1, 1) if book.since_1904 else datetime(1899, 12, 30)  # noqa: DTZ001  a calendar without zones
            package.hear(related[reference][1], _Cells(paper, shared.found, formats.dates, start))
    return len(book.sheets)


class _Book:
    """Collects the sheets' names and the first day of the calendar."""

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.since_1904 = False

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        if name == "sheet":
            self.sheets.append((fields.get("name", ""), fields.get("r:id", "")))
        elif name == "workbookPr":
            self.since_1904 = fields.get("date1904", "0") in {"1", "true"}

    def end(self, name: str) -> None:
        """Not used."""

    def words(self, text: str) -> None:
        """Not used."""


class _Formats:
    """Collects the cell styles that show a number as a date."""

    def __init__(self) -> None:
        self._own: dict[str, bool] = {}
        self._used = False
        self.dates: list[bool] = []

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        number = fields.get("numFmtId", "0")
        if name == "numFmt":
            code = _QUOTED.sub("", fields.get("formatCode", "")[:1000]).lower()
            self._own[number] = any(letter in code for letter in "yd") or "h:m" in code
        elif name == "cellXfs":
            self._used = True
        elif name == "xf" and self._used:
            known = number.isdecimal() and len(number) < 4 and int(number) in _DATES
            self.dates.append(self._own.get(number, known))

    def end(self, name: str) -> None:
        self._used &= name != "cellXfs"

    def words(self, text: str) -> None:
        """Not used."""


class _Strings:
    """Collects the shared strings."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._heard = self._phonetic = False
        self._room = _STRINGS_MOST

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        del fields
        self._phonetic |= name == "rPh"
        self._heard = name == "t" and not self._phonetic

    def end(self, name: str) -> None:
        self._heard = False
        self._phonetic &= name != "rPh"
        if name == "si":
            self.found.append("".join(self._parts))
            self._parts = []

    def words(self, text: str) -> None:
        if self._heard and self._room > 0:
            self._parts.append(text)
            self._room -= len(text)


class _Cells:
    """Writes the rows of a sheet."""

    def __init__(
        self, paper: Paper, shared: Sequence[str], dates: Sequence[bool], start: datetime
    ) -> None:
        self._paper, self._shared, self._dates, self._start = paper, shared, dates, start
        self._row: list[str] = []
        self._kind = self._style = ""
        self._parts: list[str] = []
        self._heard = False

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        self._heard = name in {"v", "t"}
        if name == "c":
            self._kind, self._style = fields.get("t", "n"), fields.get("s", "")
            gap = _column(fields.get("r", "")) - len(self._row)
            self._row += [""] * min(max(gap, 0), _GAP_MOST)

    def end(self, name: str) -> None:
        self._heard = False
        if name == "c":
            cell = self._shown("".join(self._parts))
            self._parts = []
            self._row.append(cell)
            self._paper.require(len(cell))
        elif name == "row":
            line = "\t".join(self._row).rstrip()
            self._row = []
            self._paper.release()
            self._paper.add(f"{line}\n" if line else "")

    def words(self, text: str) -> None:
        if self._heard:
            self._parts.append(text)
            self._paper.require(len(text))

    def _shown(self, value: str) -> str:
        if self._kind == "s":
            known = value.isdecimal() and len(value) < 10 and int(value) < len(self._shared)
            return self._shared[int(value)] if known else ""
        if self._kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        style = self._style
        dated = style.isdecimal() and len(style) < 6 and int(style) < len(self._dates)
        if self._kind == "n" and dated and self._dates[int(style)]:
            return _date(value, self._start)
        return value


def _date(value: str, start: datetime) -> str:
    """Return a number of days as a date, a time or both."""
    try:
        days = float(value)
    except ValueError:
        return value
    if not 0 <= days <= _LAST_DAY:
        return value
    moment = start + timedelta(seconds=round(days * 86_400))
    if days < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _column(reference: str) -> int:
    """Return the column of a cell such as "C7", counted from 0."""
    column = 0
    for letter in reference[:3]:
        if not letter.isalpha() or not letter.isascii():
            break
        column = column * 26 + ord(letter.upper()) - ord("A") + 1
    return max(column - 1, 0)
