"""Small texts kept across restarts, such as the hash of a registered command tree."""

from typing import Protocol


class Notes(Protocol):
    """Texts by name, durable once noted."""

    async def noted(self, name: str) -> str | None:
        """Return the text stored under that name, or None."""

    async def note_first(self, name: str, value: str) -> str:
        """Store a text unless there is one of that name; return the one that is stored."""

    async def note(self, name: str, value: str) -> None:
        """Store a text, replacing an earlier one of that name."""
