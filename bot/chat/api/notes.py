"""Small texts kept across restarts, such as the hash of a command tree that was sent."""

from typing import Protocol


class Notes(Protocol):
    """Texts by name, durable once noted."""

    async def noted(self, name: str) -> str | None:
        """Return the text of that name, or None."""

    async def note(self, name: str, value: str) -> None:
        """Keep a text, in place of an earlier one of that name."""
