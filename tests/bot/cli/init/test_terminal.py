"""Questions at a terminal."""

import getpass
import io
import warnings

import pytest

from bot.cli.init.terminal import InitFailed, Keyboard
from tests.fakes.terminal import FakeTty


def test_a_question_shows_what_enter_means_and_reads_no_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model called [red] would vanish from the question about it."""
    terminal = FakeTty(monkeypatch)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n  24GB \n \n"))
    asked = [Keyboard().ask("Memory of [red] :smile:", "8GB") for _ in range(3)]
    assert asked == ["8GB", "24GB", "8GB"]
    assert "Memory of [red] :smile: [8GB]: " in "".join(terminal.lines())


def test_a_terminal_that_cannot_hide_a_token_is_not_asked_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The token would appear on the screen, with a warning above it."""

    def shows(_: str, stream: object) -> str:
        warnings.warn("Can not control echo on the terminal.", getpass.GetPassWarning, stacklevel=1)
        return "canary"

    monkeypatch.setattr(getpass, "getpass", shows)
    with pytest.raises(InitFailed, match="would show what you type"):
        Keyboard().ask_secret("Token")
