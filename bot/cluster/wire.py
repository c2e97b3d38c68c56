"""A connection between two processes: frames of bytes in both directions, in order."""

from typing import Protocol

FRAME_LIMIT = 512_000_000  # bytes: a call carries the files of one request or one result


class WireBroken(Exception):
    """The connection has ended; frames on their way may or may not have arrived."""


class Wire(Protocol):
    """One end of a connection."""

    async def send(self, frame: bytes) -> None:
        """Send a frame, waiting while the other end is slow; one at a time. Raises `WireBroken`."""

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame. Raises `WireBroken` once none will come, and for a longer one."""

    async def close(self) -> None:
        """End the connection. Idempotent."""


def too_long(most: int) -> str:
    """Return why a frame was not received."""
    return f"a frame of more than {most} bytes"
