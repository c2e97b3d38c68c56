"""Asks a person questions at a terminal."""

import getpass
import warnings
from collections.abc import Callable
from typing import Protocol, TypeVar

from rich.prompt import Prompt
from rich.text import Text

from bot.app.console import console

Read = TypeVar("Read")


LINE_MOST = 80  # characters of a name or description from others


class InitFailed(Exception):
    """The set-up cannot continue. The text is for the operator, and nothing was written."""


class Terminal(Protocol):
    """Prints and asks. If `asks` is False, every question gets its default answer."""

    asks: bool

    def tell(self, text: str = "") -> None:
        """Print a line."""

    def ask(self, question: str, usual: str = "") -> str:
        """Return the stripped answer; `usual` if it is empty."""

    def ask_secret(self, question: str) -> str:
        """Ask for an answer that is not shown while it is typed."""


class Keyboard:
    """A person at this terminal."""

    asks = True

    def tell(self, text: str = "") -> None:
        """Print a line at once."""
        print(text, flush=True)

    def ask(self, question: str, usual: str = "") -> str:
        """Ask, showing the default answer."""
        given = _Question.ask(Text(question), console=console(), default=usual)
        return given.strip() or usual

    def ask_secret(self, question: str) -> str:
        """Ask without an echo. Raises `InitFailed` if the terminal cannot hide the answer."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            try:
                return _Question.ask(Text(question), console=console(), password=True)
            except getpass.GetPassWarning:
                text = (
                    "This terminal would show what you type: put the token in the environment"
                    " instead (TELEGRAM_TOKEN, DISCORD_TOKEN)."
                )
                raise InitFailed(text) from None


class _Question(Prompt):
    def render_default(self, default: object) -> Text:
        return Text(f"[{default}]" if default else "", "prompt.default")


class NoQuestions:
    """`--yes`: every question gets its default answer."""

    asks = False

    def tell(self, text: str = "") -> None:
        """Print a line at once."""
        print(text, flush=True)

    def ask(self, question: str, usual: str = "") -> str:  # noqa: ARG002 - none is asked
        """Return the default answer."""
        return usual

    def ask_secret(self, question: str) -> str:  # noqa: ARG002 - none is asked
        """Return ""."""
        return ""


def ask_for(terminal: Terminal, question: str, usual: str, read: Callable[[str], Read]) -> Read:
    """Ask until `read` accepts the answer. `read` raises `ValueError` with a sentence."""
    while True:
        try:
            return read(terminal.ask(question, usual))
        except ValueError as error:
            if not terminal.asks:
                raise
            terminal.tell(f"  {error}")


def agreed(terminal: Terminal, question: str, *, usual: bool) -> bool:
    """Ask a yes-or-no question."""

    def read(answer: str) -> bool:
        if answer.casefold() in {"y", "yes"}:
            return True
        if answer.casefold() in {"n", "no"}:
            return False
        raise ValueError("Answer yes or no.")

    return ask_for(terminal, f"{question} (yes or no)", "yes" if usual else "no", read)


def in_a_line(text: str) -> str:
    """Return text from a server or chat as one short line without control characters."""
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
    return line if len(line) <= LINE_MOST else f"{line[: LINE_MOST - 1]}…"
