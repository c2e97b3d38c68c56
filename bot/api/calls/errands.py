"""What one call may have fetched: addresses, one after another, within bytes and time."""

import asyncio

from bot.api.calls.fetch_targets import NotFetched
from bot.api.calls.fetcher import Fetcher
from bot.requests.images import PICTURE_MB
from queueing.core.concurrency import timeout_at

BYTES_MOST = 64 * 1024 * 1024  # as much as a body may have
ADDRESSES_MOST = 16
WHOLE_S = 60.0


class Errands:
    """Fetches the addresses of one call."""

    def __init__(self, fetcher: Fetcher, *, whole_s: float = WHOLE_S) -> None:
        self._fetcher = fetcher
        self._bytes = BYTES_MOST
        self._addresses = ADDRESSES_MOST
        self._ends = asyncio.get_running_loop().time() + whole_s

    async def get(self, text: str) -> bytes:
        """Return the picture at an address. Raises `NotFetched`."""
        if self._addresses == 0:
            raise NotFetched(f"a request must not contain more than {ADDRESSES_MOST} addresses")
        self._addresses -= 1
        most = min(PICTURE_MB * 1_000_000, self._bytes)
        try:
            async with timeout_at(self._ends):
                data = await self._fetcher.get(text, most)
        except TimeoutError:
            raise NotFetched("the pictures of this request took too long to fetch") from None
        self._bytes -= len(data)
        return data
