"""The roles of a process, the database and the clocks as they are scraped, in virtual time."""

import asyncio
from typing import Any, cast

import pytest
from prometheus_client import generate_latest

from bot.app.cluster.leases import HeldLease, LeaseKeeper
from bot.app.metering import Meters
from bot.monitoring.metrics import Metrics
from queueing.core.ports import SystemClock
from tests.bot.monitoring.scraped import Scraped
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.loop import in_virtual_time

LEASE_S = 15.0


class Process:
    """A process that applies for a role and shows its metrics."""

    def __init__(self, table: RoleTable, name: str) -> None:
        self.roles, self.clock = FakeRoles(table, name), SystemClock()
        now = asyncio.get_running_loop().time
        keeper = LeaseKeeper(self.roles, lease_s=LEASE_S, clock=now)
        self._meters = Meters(Metrics(""), cast("Any", None))
        self._meters.on_roles(keeper, self.clock)
        self.task = asyncio.ensure_future(keeper.serve("queue", self._duty))

    async def _duty(self, lease: HeldLease) -> None:
        del lease
        await asyncio.Event().wait()

    def shown(self, name: str) -> dict[str, float]:
        text = generate_latest(cast("Any", self._meters.instruments.now())).decode()
        scraped = Scraped(text)
        return {name: scraped.of(name)} if name in scraped.names else {}


@in_virtual_time
async def test_a_post_that_moves_is_shown_where_it_is() -> None:
    """A failover would go unnoticed, and people would be the first to notice a missing role."""
    table = RoleTable(LEASE_S)
    one = Process(table, "a")
    await asyncio.sleep(1)
    other = Process(table, "b")
    await asyncio.sleep(1)
    assert one.shown("usher_role_held") == {"usher_role_held": 1}
    assert one.shown("usher_role_epoch") == {"usher_role_epoch": 1}
    assert other.shown("usher_role_held") == {"usher_role_held": 0}
    assert other.shown("usher_role_epoch") == {}
    one.task.cancel()
    await asyncio.sleep(LEASE_S + 1)
    assert one.shown("usher_role_held") == {"usher_role_held": 0}
    assert one.shown("usher_role_epoch") == {}
    assert other.shown("usher_role_epoch") == {"usher_role_epoch": 2}
    other.task.cancel()


@pytest.mark.parametrize("holds", [True, False])
@in_virtual_time
async def test_a_database_that_is_away_is_counted(holds: bool) -> None:
    """Nobody would be told until people ask why nothing happens."""
    table, away_s = RoleTable(LEASE_S), 60.0
    first = Process(table, "a")
    await asyncio.sleep(1)
    process = first if holds else Process(table, "b")
    await asyncio.sleep(1)
    assert process.shown("usher_database_away_seconds_total").popitem()[1] == 0
    process.roles.away = True
    await asyncio.sleep(away_s)
    counted = process.shown("usher_database_away_seconds_total").popitem()[1]
    assert away_s - LEASE_S / 2 < counted <= away_s + 1
    process.roles.away = False
    await asyncio.sleep(2 * LEASE_S)
    counted = process.shown("usher_database_away_seconds_total").popitem()[1]
    await asyncio.sleep(LEASE_S)
    assert process.shown("usher_database_away_seconds_total").popitem()[1] == counted
    assert counted < away_s + LEASE_S / 2
    for task in {first.task, process.task}:
        task.cancel()


@in_virtual_time
async def test_a_clock_that_is_off_is_shown() -> None:
    """A process that takes no role because of its clock would be found at the next failover."""
    process = Process(RoleTable(LEASE_S), "a")
    process.clock.compare(-90.5)
    assert process.shown("usher_clock_off_seconds") == {"usher_clock_off_seconds": -90.5}
    process.task.cancel()
