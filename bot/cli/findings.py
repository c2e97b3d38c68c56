"""What `usher check` finds: the rows of its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from bot.app.console import line

_NARROW = 60  # below this many columns, what is said of a thing stands under its name


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A row of the table; `works` is None for information, or if it could not be tried."""

    what: str
    name: str
    works: bool | None
    text: str

    @property
    def outcome(self) -> Text:
        """Return `works` in a word."""
        words = {True: ("ok", "green"), False: ("FAILED", "bold red"), None: ("-", "dim")}
        return Text(*words[self.works])


def told(what: str, name: str, text: str) -> Finding:
    """Return a row that informs."""
    return Finding(what=what, name=name, works=None, text=text)


@dataclass(frozen=True, slots=True)
class FindingTable:
    """The findings, one row each: a server's words must not look like another row.

    `hide` removes secrets from a text.
    """

    findings: Sequence[Finding]
    hide: Callable[[str], str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 2, 0, 0))
        for each in self.findings:
            what, name, text = (line(self.hide(cell)) for cell in (each.what, each.name, each.text))
            if options.max_width < _NARROW:
                named = Text(" ").join(filter(None, (what, name)))
                table.add_row(each.outcome, Text("\n").join(filter(None, (named, text))))
            else:
                table.add_row(what, name, each.outcome, text)
        yield table
