"""Each process of a cluster shows its own metrics, and the holder of the queue also the queues'."""

import re
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.bot.monitoring.scraped import Scraped
from tests.fakes.programs.postgres_server import PostgresServer
from tests.processes.cluster.cluster import Usher, processes

pytest.importorskip("psycopg")


async def read(session: aiohttp.ClientSession, usher: Usher) -> Scraped:
    """Return the metrics of a process."""
    await usher.logged("/metrics")
    (address,) = re.findall(r"metrics are at (http://\S+)", usher.log)
    async with session.get(address) as answer:
        assert answer.status == 200
        return Scraped(await answer.text())


async def test_lines_are_shown_once_and_what_is_done_by_each(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A sum over the processes would count each queue as often as there are processes."""
    more = "metrics: {port: 0}\n"
    async with processes(tmp_path, postgres, (), (), more=more) as both:
        jobs = await both.ask(5)
        await both.all_done(jobs)
        holder = await both.holder()
        (other,) = (usher for usher in both.ushers if usher is not holder)
        shown, besides = await read(both.session, holder), await read(both.session, other)
        assert {"usher_jobs_waiting", "usher_backend_up"} <= shown.names
        assert not {"usher_jobs_waiting", "usher_backend_up"} & besides.names
        assert shown.of("usher_jobs_total", outcome="completed", platform="api") == 5
        assert besides.of("usher_jobs_total") == 0
        asked = [each.of("usher_api_requests_total") for each in (shown, besides)]
        assert sum(asked) >= 5
        assert besides.of("usher_event_loop_lag_seconds_count") > 0
        held = [each.of("usher_role_held", role="queue") for each in (shown, besides)]
        assert held == [1, 0]
        assert besides.of("usher_database_away_seconds_total") == 0
        assert abs(besides.of("usher_clock_off_seconds")) < 1
        await holder.end(signal.SIGTERM)
        assert await both.holder() is other
        await both.all_done(await both.ask(1))
        shown, before = await read(both.session, other), shown
        assert "usher_jobs_waiting" in shown.names
        terms = [each.of("usher_role_epoch", role="queue") for each in (before, shown)]
        assert terms[1] > terms[0]
