"""Questions at a terminal."""

import getpass
import warnings

import pytest

from bot.cli.init.terminal import InitFailed, Keyboard


def test_a_terminal_that_cannot_hide_a_token_is_not_asked_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The token would stand on the screen, with a warning above it."""

    def shows(_: str) -> str:
        warnings.warn("Can not control echo on the terminal.", getpass.GetPassWarning, stacklevel=1)
        return "canary"

    monkeypatch.setattr(getpass, "getpass", shows)
    with pytest.raises(InitFailed, match="would show what you type"):
        Keyboard().ask_secret("Token")
