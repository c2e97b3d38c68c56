"""A wire within one process: what the process that holds the queue uses to ask itself."""

import asyncio

from bot.app.cluster.wire import FRAME_LIMIT, WireBroken, too_long

_ENDED = "the connection has ended"


class MemoryWire:
    """One end of a pair; frames arrive at once, those sent before the end still do."""

    def __init__(self, arriving: "_Lane", leaving: "_Lane") -> None:
        self._arriving = arriving
        self._leaving = leaving

    @classmethod
    def pair(cls) -> "tuple[MemoryWire, MemoryWire]":
        """Return both ends of a new wire."""
        one, other = _Lane(), _Lane()
        return cls(one, other), cls(other, one)

    async def send(self, frame: bytes) -> None:
        """Send a frame to the other end. Raises `WireBroken`."""
        self._leaving.put(frame)

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame. Raises `WireBroken`."""
        frame = await self._arriving.next()
        if len(frame) > most:
            raise WireBroken(too_long(most))
        return frame

    def known(self) -> None:
        """Do nothing: both ends are in this process."""

    async def close(self) -> None:
        """End the connection. Idempotent."""
        self.cut()

    def cut(self) -> None:
        """End the connection at once: nothing sent afterwards arrives."""
        self._arriving.end()
        self._leaving.end()


class _Lane:
    """The frames on their way to one end."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended = False

    def put(self, frame: bytes) -> None:
        if self._ended:
            raise WireBroken(_ENDED)
        self._frames.put_nowait(frame)

    async def next(self) -> bytes:
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)  # the next one who asks is told as well
            raise WireBroken(_ENDED)
        return frame

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._frames.put_nowait(None)
