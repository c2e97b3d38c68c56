"""A person at a terminal whose answers are known before; a question without an answer fails the test."""

from collections.abc import Mapping, Sequence


class ScriptedTerminal:
    """`answers` are by a part of the question; of several, each is given once, the last for ever."""

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
