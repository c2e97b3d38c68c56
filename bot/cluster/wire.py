"""A connection between two processes: frames of bytes in both directions, in order."""

from typing import Protocol


class WireBroken(Exception):
    """The connection has ended; frames on their way may or may not have arrived."""


class Wire(Protocol):
    """One end of a connection."""

    async def send(self, frame: bytes) -> None:
        """Send a frame, waiting while the other end is slow. Raises `WireBroken`."""

    async def receive(self) -> bytes:
        """Return the next frame. Raises `WireBroken` once none will come."""

    async def close(self) -> None:
        """End the connection. Idempotent."""
