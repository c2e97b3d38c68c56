"""Counts what the chats of this process are told."""

from bot.monitoring.delivery_meter import EditOutcome
from bot.monitoring.metrics import Instruments


class DeliveryCounts:
    """Implements `bot.monitoring.delivery_meter.DeliveryMeter`."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Count an edit of a status message."""
        self._instruments.edits(platform, outcome).inc()

    def delivered(self, platform: str, seconds: float) -> None:
        """Measure how long after its end a result was shown whole."""
        self._instruments.delivery(platform).observe(seconds)
