"""A connection between two processes: frames of bytes in both directions, in order."""

from typing import Protocol

FRAME_LIMIT = 512_000_000  # bytes: a call carries the files of one request

BODY_LIMIT = FRAME_LIMIT - 1000  # the head of a frame is some tens of bytes


class WireBroken(Exception):
    """The connection has ended; frames on their way may or may not have arrived."""


class Wire(Protocol):
    """One end of a connection."""

    async def send(self, frame: bytes) -> None:
        """Send a frame, waiting while the other end is slow; one at a time. Raises `WireBroken`."""

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame. Raises `WireBroken` once none will come, and for a longer one."""

    def known(self) -> None:
        """Record that the other end has proven who it is: it is no stranger any more."""

    async def close(self) -> None:
        """End the connection. Idempotent."""


def too_long(most: int) -> str:
    """Return why a frame was not received."""
    return f"a frame of more than {most} bytes"
