"""What is drawn on a terminal, and what is written where there is none."""

import pytest
from rich.table import Table

from bot.app.console import Cropped, line, show
from tests.fakes.terminal import FakeTty


def table(*texts: str) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    for text in texts:
        made.add_row("name", line(text, "red"))
    return made


def test_a_pipe_gets_plain_lines_that_are_not_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script would look for words that are split between lines or colours."""
    for name, value in (("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1"), ("COLUMNS", "20")):
        monkeypatch.setenv(name, value)
    long = "word " * 100
    show(table(long, "[bold]short[/bold] :smile:"))
    assert capsys.readouterr().out == f"name  {long.strip()}\nname  [bold]short[/bold] :smile:\n"


def test_a_terminal_gets_colours_in_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words would be split at the edge of the terminal."""
    terminal = FakeTty(monkeypatch, columns=20)
    show(table("one two three four"))
    assert terminal.lines() == ["name  one two three", "      four"]
    assert "\x1b[31m" in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """On a terminal that shows the colour codes themselves, the text would be unreadable."""
    terminal = FakeTty(monkeypatch)
    monkeypatch.setenv(name, value)
    show(table("text"))
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("latest", "kept"), [(False, "abc… 3 more lines"), (True, "… 3 more linesdef")]
)
def test_what_does_not_fit_is_counted(
    monkeypatch: pytest.MonkeyPatch, latest: bool, kept: str
) -> None:
    """A terminal with few lines would hide that there is more."""
    terminal = FakeTty(monkeypatch, lines=4)
    show(Cropped("a\nb\nc\nd\ne\nf", latest=latest))
    assert "".join(terminal.lines()) == kept
    show(Cropped("1\n2\n3\n4", latest=latest))
    assert terminal.words().endswith("1 2 3 4")
