"""Collects the text of a document up to a number of characters. Pure."""


class Full(Exception):
    """No more text is asked for."""


class Paper:
    """Text being written; more than `most` characters end it with `Full`."""

    def __init__(self, most: int) -> None:
        self._parts: list[str] = []
        self._room = most
        self._held = 0
        self.truncated = False

    @property
    def room(self) -> int:
        """How many characters may still be written."""
        return max(self._room, 0)

    def add(self, text: str) -> None:
        """Append a text. Raises `Full` if there is more of it than room."""
        self._parts.append(text[: self._room])
        self._room -= len(text)
        if self._room < 0:
            self.truncated = True
            raise Full

    def require(self, characters: int) -> None:
        """Count text that is still held back. Raises `Full` if it will not have room."""
        self._held += characters
        if self._held > self._room:
            self.truncated = True
            raise Full

    def release(self) -> None:
        """Forget the text that was held back: it is written, or dropped."""
        self._held = 0

    def text(self) -> str:
        """Return what was written, without blanks at the ends and without stacks of blank lines."""
        lines = [line.rstrip() for line in "".join(self._parts).splitlines()]
        kept = [
            line
            for number, line in enumerate(lines)
            if line or (number > 0 and lines[number - 1])  # one blank line of several
        ]
        return "\n".join(kept).strip("\n")
