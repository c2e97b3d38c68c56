"""Terminals of tests: one at which a person answers, and one that is only written to."""

import io
import re
from collections.abc import Mapping, Sequence

import pytest


class ScriptedTerminal:
    """A person whose answers are known before; a question without an answer fails the test.

    `answers` are found by a part of the question; of several, each is given once, the last forever.
    """

    asks = True

    def __init__(self, answers: Mapping[str, str | Sequence[str]]) -> None:
        self._answers = {
            part: [given] if isinstance(given, str) else list(given)
            for part, given in answers.items()
        }
        self.told: list[str] = []
        self.asked: list[str] = []
        self.asked_secretly: list[str] = []

    @property
    def shown(self) -> str:
        return "\n".join([*self.told, *self.asked, *self.asked_secretly])

    def tell(self, text: str = "") -> None:
        self.told.append(text)

    def ask(self, question: str, usual: str = "") -> str:
        self.asked.append(question)
        return self._answer(question) or usual

    def ask_secret(self, question: str) -> str:
        self.asked_secretly.append(question)
        return self._answer(question)

    def _answer(self, question: str) -> str:
        for part, given in self._answers.items():
            if part in question:
                return given.pop(0) if len(given) > 1 else given[0]
        raise AssertionError(f"no one expected the question: {question}")


class FakeTty(io.StringIO):
    """Standard output as a terminal with colours."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, columns: int = 80, lines: int = 24
    ) -> None:
        super().__init__()
        for name in ("NO_COLOR", "COLORTERM", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (("TERM", "xterm"), ("COLUMNS", columns), ("LINES", lines)):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr("sys.stdout", self)

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Return the visible lines without colours; what was erased is gone."""
        shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self.getvalue().rpartition("\x1b[2K")[2])
        return [line.rstrip() for line in shown.splitlines()]

    def words(self) -> str:
        return " ".join(" ".join(self.lines()).split())
