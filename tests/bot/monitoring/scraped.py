"""What Prometheus would read from a running bot."""

from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bot.app.app import BotParts


@dataclass(frozen=True)
class Scraped:
    """One reading: the values by name and labels."""

    text: str

    def of(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a name that have these labels, or 0 without any."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self._lines_of(name))
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def _lines_of(self, name: str) -> str:
        """Leave out other metrics, as a test that waits for one reads hundreds of times."""
        return "\n".join(line for line in self.text.splitlines() if line.startswith(name))

    @property
    def names(self) -> set[str]:
        return {
            sample.name
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }


async def scrape(parts: BotParts) -> Scraped:
    """Read the metrics of a running bot over HTTP."""
    assert parts.meters is not None
    endpoint = parts.meters.endpoint
    await endpoint.connected.wait()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{endpoint.port}/metrics") as answer,
    ):
        assert answer.status == 200
        return Scraped(await answer.text())
