"""What the operator's page shows: the port to the rest of the bot."""

from typing import Protocol

SPANS = ("hour", "day", "week")


class OperatorPicture(Protocol):
    """Draws the bot for its operators, as JSON. Awaited calls raise `QueueError`s only.

    Equal states give equal bytes: an answer contains no clock that runs by itself. The shapes are
    those of the records in `bot/history/`, with reasons in words.
    """

    async def now(self, language: str) -> bytes:
        """Return the hosts and what is in their memory, what runs, and every line."""

    async def hours(self, span: str) -> bytes:
        """Return what happened in the last hour, day or week: one of `SPANS`."""

    async def people(self) -> bytes:
        """Return who used how much today, who is barred, and the newest acts of admins."""
