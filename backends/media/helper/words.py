"""The text of office files' words: of Open XML (Word, PowerPoint) and of OpenDocument. Pure."""

from collections.abc import Mapping

from backends.media.helper.document_content import Paper

_BREAKS: Mapping[str, str] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_REPEATED_MOST = 64  # blanks or cells that are written once and counted


class OpenXmlWords:
    """Writes the paragraphs of a Word document or a slide; rows of a table become lines."""

    _UNSEEN = frozenset({"Fallback"})  # repeats what stands beside it, for older programs

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
        """Write characters."""
        if self._heard:
            self._paper.add(text)


class OpenDocumentWords:
    """Writes the paragraphs of an OpenDocument file, the rows of its tables, slides and sheets."""

    _UNSEEN = frozenset({"tracked-changes"})  # what was deleted

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
        """Write characters."""
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
    """Return how often something is repeated, within reason."""
    return min(max(int(said), 1), _REPEATED_MOST) if said.isdecimal() else 1
