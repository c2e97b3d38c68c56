"""Roles in virtual time: one process at a time performs a duty, whatever happens to the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bot.app.cluster.leases import GivesWay, HeldLease, LeaseKeeper
from queueing.core.errors import Fenced, StoreError
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.loop import Inside, in_virtual_time

LEASE_S = 15.0


@dataclass
class Process:
    """A process that applies for one role."""

    table: RoleTable
    name: str
    doing: "list[str]"
    roles: FakeRoles = field(init=False)
    leases: list[HeldLease] = field(default_factory=list)
    asleep_s: float = 0.0
    stopping_s: float = 0.0

    def __post_init__(self) -> None:
        self.roles = FakeRoles(self.table, self.name)
        keeper = LeaseKeeper(self.roles, lease_s=LEASE_S, clock=self._clock)
        self.task = asyncio.ensure_future(keeper.serve("queue", self._duty))

    def _clock(self) -> float:
        return asyncio.get_running_loop().time() + self.asleep_s

    async def _duty(self, lease: HeldLease) -> None:
        self.leases.append(lease)
        self.doing.append(self.name)
        assert self.doing == [self.name]  # no two at the same time
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.stopping_s)
            self.doing.remove(self.name)

    def kill(self) -> None:
        """End the process as `kill -9` does: nothing is freed, and its session ends."""
        self.roles.mute = True
        self.task.cancel()
        self.roles.end_session()


@dataclass
class Two:
    """Two processes, and which of them performs the duty."""

    doing: list[str]
    first: Process
    second: Process

    async def takes_over(self) -> float:
        """Return how long it takes until the second process performs the duty."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(600):
            while self.doing != ["second"]:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.01)
        return loop.time() - began


@asynccontextmanager
async def both() -> AsyncIterator[Two]:
    table, doing = RoleTable(LEASE_S), list[str]()
    first = Process(table, "first", doing)
    await asyncio.sleep(1)
    two = Two(doing, first, Process(table, "second", doing))
    await asyncio.sleep(60)
    assert doing == ["first"]
    try:
        yield two
    finally:
        tasks = {two.first.task, two.second.task}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@Inside(both)
async def test_an_orderly_stop_hands_over_at_once(two: Two) -> None:
    """People would wait for the end of a lease at every upgrade."""
    two.first.stopping_s = 40.0  # longer than a lease: it is renewed until the duty has ended
    two.first.task.cancel()
    await asyncio.sleep(39)
    assert two.doing == ["first"]
    assert await two.takes_over() < 1.1


@Inside(both)
async def test_a_killed_process_is_followed_as_soon_as_its_session_ends(two: Two) -> None:
    """No process would perform the duty until the lease ends."""
    two.first.kill()
    assert await two.takes_over() < 1.5


@Inside(both)
async def test_a_holder_whose_session_broke_begins_another_one_and_goes_on(two: Two) -> None:
    """A broken connection would move the role, and two would do the duty until it is noticed."""
    two.first.roles.end_session()
    assert two.first.leases[-1].held
    await asyncio.sleep(60)
    assert len(two.first.leases) == 1
    assert two.first.leases[-1].held
    assert two.doing == ["first"]


@Inside(both)
async def test_a_holder_without_a_session_says_so_before_another_takes_its_post(two: Two) -> None:
    """Cut off from the database alone, it would go on serving beside the next holder."""
    two.first.roles.away = True
    two.first.roles.end_session()
    await asyncio.sleep(0.5)
    assert not two.first.leases[-1].held
    assert len(two.second.leases) == 0
    assert await two.takes_over() < 1.5


@pytest.mark.parametrize("how", ["away", "mute"])
@Inside(both)
async def test_nothing_is_said_while_a_duty_stops_whose_post_is_lost(two: Two, how: str) -> None:
    """A call in progress when the lease ends would arrive beside those of the next holder."""
    two.first.stopping_s = LEASE_S / 20
    setattr(two.first.roles, how, True)
    lease = two.first.leases[-1]
    while lease.held:  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.01)
    assert two.doing == ["first"]
    assert lease.left_s > LEASE_S / 10


@Inside(both)
async def test_what_a_lease_has_denied_it_does_not_take_back(two: Two) -> None:
    """A call that was left to the next holder would reach no one."""
    two.first.roles.away = two.second.roles.away = True
    two.first.roles.end_session()
    await asyncio.sleep(0.5)
    assert not two.first.leases[-1].held
    two.first.roles.away = two.second.roles.away = False
    await asyncio.sleep(5)
    assert not two.first.leases[0].held
    assert len(two.first.leases) + len(two.second.leases) == 2  # free, and taken again


@Inside(both)
async def test_a_frozen_process_is_followed_when_its_lease_is_over(two: Two) -> None:
    """A machine that hangs would hold the queue for good."""
    two.first.roles.mute = True  # its session lives on
    assert await two.takes_over() < LEASE_S + 1


@pytest.mark.parametrize("how", ["away", "mute"])
@Inside(both)
async def test_a_duty_ends_before_its_lease_if_the_database_is_out_of_reach(
    two: Two, how: str
) -> None:
    """Two processes would run the queue, one of them cut off from the database."""
    setattr(two.first.roles, how, True)
    began = asyncio.get_running_loop().time()
    while two.first.leases[-1].held and two.doing == ["first"]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert two.first.leases[-1].left_s > 0
    assert asyncio.get_running_loop().time() - began < LEASE_S
    assert await two.takes_over() < LEASE_S


@Inside(both)
async def test_a_short_absence_of_the_database_ends_nothing(two: Two) -> None:
    """A restart of the database server would stop the bot."""
    two.first.roles.away = two.second.roles.away = True
    await asyncio.sleep(LEASE_S / 2)
    two.first.roles.away = two.second.roles.away = False
    await asyncio.sleep(60)
    assert len(two.first.leases) == 1
    assert two.doing == ["first"]


@Inside(both)
async def test_a_slow_database_moves_no_post(two: Two) -> None:
    """With a busy server, processes would take roles from each other, and none would work."""
    two.first.roles.slow_s = two.second.roles.slow_s = LEASE_S * 0.4
    await asyncio.sleep(60)
    assert two.first.leases[-1].held
    two.first.kill()
    await two.takes_over()
    await asyncio.sleep(60)
    assert (len(two.first.leases), len(two.second.leases)) == (1, 1)
    assert two.second.leases[-1].held


@Inside(both)
async def test_a_machine_that_slept_knows_that_its_lease_is_over(two: Two) -> None:
    """It would go on for the rest of a lease that ended hours ago, as its clock stood still."""
    two.first.roles.away = True
    two.first.asleep_s = 3600.0
    assert not two.first.leases[-1].held
    await asyncio.sleep(LEASE_S / 2)
    assert two.doing == []


@Inside(both)
async def test_a_holder_that_was_replaced_applies_once_more(two: Two) -> None:
    """A process that was frozen once would never take a role again."""
    two.first.roles.mute = True
    await two.takes_over()
    two.first.roles.mute = False
    await asyncio.sleep(60)
    two.second.kill()
    await asyncio.sleep(1)
    assert two.doing == ["first"]
    assert [lease.stored.epoch for lease in two.first.leases] == [1, 3]


@in_virtual_time
async def test_a_duty_that_fails_frees_its_post() -> None:
    """The next process would wait for the lease of a process that has given up."""

    async def fails(_lease: HeldLease) -> None:
        raise ZeroDivisionError

    table = RoleTable(LEASE_S)
    roles = FakeRoles(table, "first")
    clock = asyncio.get_running_loop().time
    with pytest.raises(ZeroDivisionError):
        await LeaseKeeper(roles, lease_s=LEASE_S, clock=clock).serve("queue", fails)
    assert (await roles.holders())[0].holder == ""


@in_virtual_time
async def test_a_duty_that_was_fenced_begins_anew_at_once_where_its_lease_still_runs() -> None:
    """After a failover that lost commits, nothing would be served until the lease is over."""
    table, epochs = RoleTable(LEASE_S), list[int]()

    async def duty(lease: HeldLease) -> None:
        epochs.append(lease.stored.epoch)
        if lease.stored.epoch == 1:
            raise ExceptionGroup("several at once", [Fenced("the database has gone back")])
        await asyncio.Event().wait()

    roles = FakeRoles(table, "first")
    keeper = LeaseKeeper(roles, lease_s=LEASE_S, clock=asyncio.get_running_loop().time)
    task = asyncio.ensure_future(keeper.serve("queue", duty))
    await asyncio.sleep(LEASE_S / 10)
    assert (epochs, roles.in_order) == ([1, 2], [False])
    task.cancel()
    await asyncio.wait({task})
    assert roles.in_order == [False, True]


@pytest.mark.parametrize("error", [GivesWay("not from here"), StoreError("the server is away")])
@in_virtual_time
async def test_a_duty_that_cannot_be_done_here_is_left_to_another_process(error: Exception) -> None:
    """A process that reaches the database, but nothing else, would keep a chat silent."""
    table, began = RoleTable(LEASE_S), list[str]()

    async def cannot(_lease: HeldLease) -> None:
        began.append("first")
        raise ExceptionGroup("several at once", [error])

    async def does(_lease: HeldLease) -> None:
        began.append("second")
        await asyncio.Event().wait()

    clock = asyncio.get_running_loop().time
    keepers = [
        LeaseKeeper(FakeRoles(table, name), lease_s=LEASE_S, clock=clock)
        for name in ("first", "second")
    ]
    tasks = [asyncio.ensure_future(keepers[0].serve("telegram", cannot))]
    await asyncio.sleep(LEASE_S * 2.5)
    assert began == ["first"] * 3  # alone, it tries again
    tasks.append(asyncio.ensure_future(keepers[1].serve("telegram", does)))
    await asyncio.sleep(60)
    assert began == ["first"] * 3 + ["second"]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
