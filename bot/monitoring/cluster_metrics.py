"""What one process of several shows of itself: its posts, the database, and the clocks."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


class ClusterState:
    """Collects it; `terms` has the epoch of each post this process applies for, 0 while not held."""

    def __init__(
        self,
        terms: Mapping[str, int],
        *,
        away_s: Callable[[], float],
        off_s: Callable[[], float],
    ) -> None:
        self._terms = terms
        self._away_s = away_s
        self._off_s = off_s

    def collect(self) -> Iterator[Metric]:
        """Yield each metric, of one moment."""
        held = GaugeMetricFamily(
            "usher_post_held", "1 for a post that this process holds, else 0.", labels=["post"]
        )
        epochs = GaugeMetricFamily(
            "usher_post_epoch",
            "How often a post has changed hands, while this process holds it.",
            labels=["post"],
        )
        for post, epoch in self._terms.items():
            held.add_metric([post], epoch > 0)
            if epoch:
                epochs.add_metric([post], epoch)
        yield held
        yield epochs
        yield CounterMetricFamily(
            "usher_database_away_seconds",
            "How long the database has given this process no answer.",
            self._away_s(),
        )
        yield GaugeMetricFamily(
            "usher_clock_off_seconds",
            "How far the database server's clock is ahead of this machine's.",
            self._off_s(),
        )
