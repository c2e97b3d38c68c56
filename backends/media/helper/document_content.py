"""Collects a document's text up to a number of characters. Pure."""


class Full(Exception):
    """Raised when no more text is needed."""


class Paper:
    """Text being collected; raises `Full` beyond `most` characters."""

    def __init__(self, most: int) -> None:
        self._parts: list[str] = []
        self._room = most
        self._held = 0
        self.truncated = False

    @property
    def room(self) -> int:
        """How many more characters fit."""
        return max(self._room, 0)

    def add(self, text: str) -> None:
        """Append a text. Raises `Full` if it does not fit completely."""
        self._parts.append(text[: self._room])
        self._room -= len(text)
        if self._room < 0:
            self.truncated = True
            raise Full

    def require(self, characters: int) -> None:
        """Reserve space for text that will be added later. Raises `Full` if it will not fit."""
        self._held += characters
        if self._held > self._room:
            self.truncated = True
            raise Full

    def release(self) -> None:
        """Drop the reservation of `require`, once that text has been added or dropped."""
        self._held = 0

    def text(self) -> str:
        """Return the text, stripped at both ends and with at most one blank line in a row."""
        lines = [line.rstrip() for line in "".join(self._parts).splitlines()]
        kept = [
            line
            for number, line in enumerate(lines)
            if line or (number > 0 and lines[number - 1])  # keep one of several blank lines
        ]
        return "\n".join(kept).strip("\n")
