"""Counts loads and what leaves for them, by the queue's events; each once, at its first card."""

from bot.monitoring.metrics import Instruments
from queueing.core.events import CopyLeft, Event, LoadEnded


class LoadCounts:
    """Counts what happens to the copies of the queue in this process."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def on_event(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, LoadEnded):
            self._ended(event)
        elif isinstance(event, CopyLeft):
            counter = self._instruments.evictions
            counter(event.model, event.hosts[0], event.why.value).inc()

    def _ended(self, load: LoadEnded) -> None:
        instruments = self._instruments
        if load.failed:
            instruments.load_failures(load.model, load.hosts[0]).inc()
            return
        instruments.loads(load.model, load.hosts[0], load.cause.value).inc()
        instruments.load(load.model).observe(load.seconds)
