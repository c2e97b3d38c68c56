"""Standard output: styled by `rich` on a terminal, plain text elsewhere.

Texts from people, servers and configurations are never markup. Only commands that draw import this
module, because importing `rich` is slow.
"""

import os
import re
import sys
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from bot.app.logs import harmless

UNBROKEN = 1_000_000  # columns of a pipe or file, more than any line has
_FILLING = re.compile(" +$", re.MULTILINE)  # tables pad their lines with spaces


def console() -> Console:
    """Return the console for standard output."""
    terminal = sys.stdout.isatty()
    return Console(
        # Without a color system, `rich` also omits bold and dim text.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        force_terminal=terminal,  # whatever FORCE_COLOR and TTY_COMPATIBLE say about pipes
        width=None if terminal else UNBROKEN,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show(drawn: RenderableType) -> None:
    """Print a renderable."""
    out = console()
    if out.is_terminal:
        out.print(drawn)
        return
    with out.capture() as captured:
        out.print(drawn)
    sys.stdout.write(_FILLING.sub("", captured.get()))


def line(text: str, style: str = "") -> Text:
    """Return a text as one line without terminal control sequences."""
    return Text(harmless(" ".join(text.split())), style, overflow="fold")


@dataclass(frozen=True, slots=True)
class Cropped:
    """Crops a renderable to the terminal's height and counts the omitted lines.

    Keeps the first lines, or the last ones with `latest`.
    """

    whole: RenderableType
    latest: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.whole, options.reset_height(), pad=False)
        room = options.size.height
        missing = len(lines) - room + 1
        if missing > 1:
            note = list(console.render(Text(f"… {missing} more lines", "dim", end="")))
            lines = [note, *lines[missing:]] if self.latest else [*lines[: room - 1], note]
        for each in lines:
            yield from each
            yield Segment.line()
