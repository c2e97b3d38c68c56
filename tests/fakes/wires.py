"""A wire within one process, which can be cut."""

import asyncio

from bot.cluster.wire import WireBroken


class MemoryWire:
    """One end of a pair; frames arrive at once."""

    def __init__(self) -> None:
        self._arriving: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._other: MemoryWire = self
        self._cut = False

    async def send(self, frame: bytes) -> None:
        """Send a frame to the other end."""
        if self._cut:
            raise WireBroken("cut")
        self._other._arriving.put_nowait(frame)  # the other end of the same wire

    async def receive(self) -> bytes:
        """Return the next frame that arrived before the cut."""
        frame = await self._arriving.get()
        if frame is None:
            self._arriving.put_nowait(None)
            raise WireBroken("cut")
        return frame

    async def close(self) -> None:
        """Cut the wire at both ends."""
        self.cut()

    def cut(self) -> None:
        """Cut the wire: nothing sent afterwards arrives."""
        for end in (self, self._other):
            if not end._cut:
                end._cut = True
                end._arriving.put_nowait(None)

    def join(self, other: "MemoryWire") -> None:
        """Make two ends one wire."""
        self._other, other._other = other, self


def wire() -> tuple[MemoryWire, MemoryWire]:
    """Return both ends of a new wire."""
    ends = MemoryWire(), MemoryWire()
    ends[0].join(ends[1])
    return ends
