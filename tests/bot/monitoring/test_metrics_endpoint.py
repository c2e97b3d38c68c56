"""The endpoint gives metrics only to those allowed, in the formats that Prometheus asks for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from bot.app.metering import MetricsEndpoint, MetricsPlace
from bot.app.supervisor import beside
from bot.monitoring.metrics import Metrics
from tests.bot.config.configs import problems, with_lines

TOKEN = "Zk4pX91mQv7sLr2T"


@asynccontextmanager
async def served(token: str | None = None) -> AsyncIterator[str]:
    endpoint = MetricsEndpoint(MetricsPlace(port=0, token=token), Metrics("1.2.3"))
    async with beside(endpoint.run()):
        await endpoint.connected.wait()
        yield f"http://127.0.0.1:{endpoint.port}/metrics"


async def status(url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status


async def test_a_token_is_needed_where_one_is_set() -> None:
    """Other machines would read what the people of a community ask for."""
    async with served(TOKEN) as url:
        assert await status(url) == 401
        assert await status(url, Authorization="Bearer wrong") == 401
        assert await status(url, Authorization=f"Bearer {TOKEN}") == 200
        assert await status(url, Authorization=f"Bearer {TOKEN}", Host="usher:9464") == 200


async def test_without_a_token_only_this_machine_reads() -> None:
    """A page in the operator's browser could read them under a name of its own."""
    async with served() as url:
        assert await status(url) == 200
        assert await status(url, Host="localhost:9464") == 200
        assert await status(url, Host="evil.example") == 401


async def test_openmetrics_is_spoken_to_those_who_ask() -> None:
    """Prometheus asks for OpenMetrics first."""
    async with (
        served() as url,
        aiohttp.ClientSession() as session,
        session.get(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as got,
    ):
        assert got.headers["Content-Type"].startswith("application/openmetrics-text")
        families = openmetrics(await got.text())  # type: ignore[no-untyped-call]
        assert "usher_build_info" in {family.name for family in families}


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{host: 0.0.0.0}", "required if other machines can read the metrics"),
        ("{host: 192.168.1.4, token: short}", "must have at least 16 characters"),
    ],
)
def test_what_other_machines_read_needs_a_good_token(section: str, told: str) -> None:
    """Anyone in the network could read how much a community asks for, and of what."""
    (problem,) = problems(with_lines(f"metrics: {section}"))
    assert told in problem
