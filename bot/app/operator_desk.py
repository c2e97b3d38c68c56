"""OperatorDesk: what this process tells the person at the machine, as long as it knows anything."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from bot.monitoring.dashboard import OperatorRecords, to_json
from bot.monitoring.records import HourSpan

NOW, HOUR, PEOPLE = "now", "hour", "people"
_READ: Mapping[str, Callable[[OperatorRecords], Awaitable[bytes]]]


class OperatorDesk:
    """Answers by what a duty of this process offers; without any, it knows nothing."""

    def __init__(self) -> None:
        self._offered: list[OperatorRecords] = []

    @contextmanager
    def offering(self, records: OperatorRecords) -> Iterator[None]:
        """Answer by these records until the block ends."""
        self._offered.append(records)
        try:
            yield
        finally:
            self._offered.remove(records)

    async def answer(self, call: str) -> bytes | None:
        """Return a record as JSON; None for another call, or if nothing is known here.

        Raises `StoreError`.
        """
        if not self._offered or call not in _READ:
            return None
        return await _READ[call](self._offered[-1])


async def _now(records: OperatorRecords) -> bytes:
    return to_json(await records.read_now())


async def _hour(records: OperatorRecords) -> bytes:
    return to_json(await records.read_hours(HourSpan.HOUR))


async def _people(records: OperatorRecords) -> bytes:
    return to_json(await records.read_people())


_READ = {NOW: _now, HOUR: _hour, PEOPLE: _people}
