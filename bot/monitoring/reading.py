"""The port of those who show an operator the bot: the page, and `usher top`."""

from typing import Protocol

from bot.monitoring.live_state import OperatorNow
from bot.monitoring.persons import OperatorPeople
from bot.monitoring.records import HourSpan, OperatorHours


class OperatorRecords(Protocol):
    """Reads what an operator is shown. Every call raises `StoreError`."""

    async def read_now(self) -> OperatorNow:
        """Return how everything stands."""

    async def read_hours(self, span: HourSpan) -> OperatorHours:
        """Return how it has been."""

    async def read_people(self) -> OperatorPeople:
        """Return by whom it is used."""
