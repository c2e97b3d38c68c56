"""Standard output, drawn by `rich` on a terminal and written as plain text anywhere else.

Texts of people, servers and configurations are never markup. `rich` is slow to import, so only
commands that draw import this module.
"""

import os
import re
import sys
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from bot.app.logs import harmless

UNBROKEN = 1_000_000  # columns of a pipe or a file: more than any line has
_FILLING = re.compile(" +$", re.MULTILINE)  # tables fill their lines with blanks


def console() -> Console:
    """Return the console for standard output."""
    terminal = sys.stdout.isatty()
    return Console(
        # Without a colour system, `rich` writes no bold or dim text either.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        force_terminal=terminal,  # whatever FORCE_COLOR and TTY_COMPATIBLE say of pipes
        width=None if terminal else UNBROKEN,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show(drawn: RenderableType) -> None:
    """Print something."""
    out = console()
    if out.is_terminal:
        out.print(drawn)
        return
    with out.capture() as captured:
        out.print(drawn)
    sys.stdout.write(_FILLING.sub("", captured.get()))


def line(text: str, style: str = "") -> Text:
    """Return a text as one line that cannot steer the terminal."""
    return Text(harmless(" ".join(text.split())), style, overflow="fold")


@dataclass(frozen=True, slots=True)
class Cropped:
    """As much as fits the height of the terminal, and how many lines do not.

    Keeps the first lines, or with `latest` the last ones.
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
