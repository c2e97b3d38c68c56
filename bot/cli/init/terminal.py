"""Asks a person at a terminal, one line at a time."""

import getpass
import warnings
from collections.abc import Callable
from typing import Protocol, TypeVar

from rich.prompt import Prompt
from rich.text import Text

from bot.app.console import console

Read = TypeVar("Read")


LINE_MOST = 80  # characters of what others say of themselves


class InitFailed(Exception):
    """The set-up cannot go on; the text is for the operator, and nothing was written."""


class Terminal(Protocol):
    """Tells and asks. With `asks` False every question is answered as by Enter."""

    asks: bool

    def tell(self, text: str = "") -> None:
        """Show a line."""

    def ask(self, question: str, usual: str = "") -> str:
        """Return the answer, without blanks around it; `usual` if it is empty."""

    def ask_secret(self, question: str) -> str:
        """Return an answer that is not shown while it is typed."""


class Keyboard:
    """A person at this terminal."""

    asks = True

    def tell(self, text: str = "") -> None:
        """Print a line at once."""
        print(text, flush=True)

    def ask(self, question: str, usual: str = "") -> str:
        """Ask, and show what Enter means."""
        given = _Question.ask(Text(question), console=console(), default=usual)
        return given.strip() or usual

    def ask_secret(self, question: str) -> str:
        """Ask without an echo. Raises `InitFailed` where the terminal cannot hide it."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            try:
                return _Question.ask(Text(question), console=console(), password=True)
            except getpass.GetPassWarning:
                told = (
                    "This terminal would show what you type: put the token in the environment"
                    " instead (TELEGRAM_TOKEN, DISCORD_TOKEN)."
                )
                raise InitFailed(told) from None


class _Question(Prompt):
    def render_default(self, default: object) -> Text:
        return Text(f"[{default}]" if default else "", "prompt.default")


class NoQuestions:
    """`--yes`: every question has its usual answer."""

    asks = False

    def tell(self, text: str = "") -> None:
        """Print a line at once."""
        print(text, flush=True)

    def ask(self, question: str, usual: str = "") -> str:  # noqa: ARG002 - none is asked
        """Return what Enter means."""
        return usual

    def ask_secret(self, question: str) -> str:  # noqa: ARG002 - none is asked
        """Return nothing."""
        return ""


def ask_for(terminal: Terminal, question: str, usual: str, read: Callable[[str], Read]) -> Read:
    """Ask until `read` accepts the answer; it raises `ValueError` with a sentence."""
    while True:
        try:
            return read(terminal.ask(question, usual))
        except ValueError as error:
            if not terminal.asks:
                raise
            terminal.tell(f"  {error}")


def agreed(terminal: Terminal, question: str, *, usual: bool) -> bool:
    """Ask a question of yes or no."""

    def read(answer: str) -> bool:
        if answer.casefold() in {"y", "yes"}:
            return True
        if answer.casefold() in {"n", "no"}:
            return False
        raise ValueError("Answer yes or no.")

    return ask_for(terminal, f"{question} (yes or no)", "yes" if usual else "no", read)


def in_a_line(text: str) -> str:
    """Return the words of a server or a chat in one short line that neither steers nor breaks."""
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
    return line if len(line) <= LINE_MOST else f"{line[: LINE_MOST - 1]}…"
