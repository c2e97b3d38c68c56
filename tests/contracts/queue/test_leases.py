"""What every table of roles does, including the one of the tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest

from queueing.core.leases import LeaseStore
from queueing.store.postgres.lease_store import PostgresLeases
from tests.fakes.programs.postgres_server import end_leases
from tests.fakes.roles import FakeRoles, RoleTable

LEASE_S = 600.0

Open = Callable[[str], LeaseStore]
Lapse = Callable[[], Awaitable[None]]


@pytest.fixture(params=["in memory", "postgres", "postgres without locks and notices"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Open, Lapse]]:
    """Return how a process opens the roles, and what ends all running leases."""
    async with AsyncExitStack() as stack:
        if request.param == "in memory":
            table = RoleTable(LEASE_S)

            async def lapse_fake() -> None:
                table.until = dict.fromkeys(table.until, table.now())

            yield partial(FakeRoles, table), lapse_fake
            return
        url = request.getfixturevalue("postgres_url")

        def open_real(process: str) -> LeaseStore:
            roles = PostgresLeases(
                url, process=process, lease_s=LEASE_S, quick=request.param == "postgres"
            )
            stack.push_async_callback(roles.aclose)
            return roles

        yield open_real, partial(asyncio.to_thread, end_leases, url)


@pytest.fixture
def opened(database: tuple[Open, Lapse]) -> Open:
    """Return a function that opens the roles for a process."""
    return database[0]


@pytest.fixture
def lapse(database: tuple[Open, Lapse]) -> Lapse:
    """Return a function that ends all leases."""
    return database[1]


async def test_one_process_holds_a_post(opened: Open) -> None:
    """Two schedulers would start every job twice."""
    ada, eve = opened("ada"), opened("eve")
    taken = await asyncio.gather(*(each.take("queue", address="a:1") for each in (ada, eve)))
    (held,) = [lease for lease in taken if lease is not None]
    assert held.epoch == 1
    holder = (await ada.holders())[0]
    assert (holder.name, holder.address, holder.epoch) == ("queue", "a:1", 1)
    assert holder.holder == ("ada" if taken[0] else "eve")
    assert 0 < holder.left_s <= LEASE_S
    for each in (ada, eve):
        assert await each.take("queue", address="") is None
        other = await each.take(f"another of {holder.name}", address="")
        assert other is None or other.epoch == 1


async def test_every_lease_has_an_epoch_and_a_secret_of_its_own(opened: Open) -> None:
    """Writes under an older one could not be distinguished from current ones."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="")
    assert first is not None
    assert await eve.secret("queue", 1) == first.secret
    await ada.free(first)
    await ada.free(first)
    second = await eve.take("queue", address="")
    assert second is not None
    assert (second.epoch, second.secret != first.secret) == (2, True)
    assert await ada.secret("queue", 1) is None
    assert repr(second.secret) not in repr(second)
    await ada.free(first)  # late: it must not free what another holds
    assert await ada.take("queue", address="") is None
    assert (await ada.renew(first), await eve.renew(second)) == (False, True)


async def test_a_lease_ends_unless_it_is_renewed(opened: Open, lapse: Lapse) -> None:
    """A machine that hangs would hold its roles for good."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="")
    assert first is not None
    assert await eve.take("queue", address="") is None
    await lapse()
    second = await eve.take("queue", address="")
    assert second is not None
    assert second.epoch == 2
    assert not await ada.renew(first)


async def test_a_post_that_is_freed_can_be_taken_at_once(opened: Open) -> None:
    """After an orderly stop no process would perform the duty until the lease ends."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="")
    assert first is not None
    await ada.free(first)
    assert (await eve.holders())[0].holder == ""
    assert await eve.take("queue", address="") is not None


async def test_the_address_of_this_machine_is_known(opened: Open) -> None:
    """The others would have to be configured with the address of each process."""
    assert await opened("ada").local_host() == "127.0.0.1"


async def test_holders_tell_the_others_about_themselves(opened: Open) -> None:
    """Two configurations on one database would not be noticed."""
    ada, eve = opened("ada"), opened("eve")
    assert await eve.introductions() == []
    first = await ada.take("queue", address="a:1", about=lambda secret: f"ada {secret.hex()}")
    assert first is not None
    assert await eve.take("queue", address="", about=lambda _: "eve") is None
    (told,) = await eve.introductions()
    assert (told.role.holder, told.role.epoch, told.secret) == ("ada", 1, first.secret)
    assert told.about == f"ada {first.secret.hex()}"
    assert repr(first.secret) not in repr(told)
    await ada.free(first)
    assert await eve.introductions() == []
    assert await eve.take("queue", address="") is not None
    assert [each.about for each in await ada.introductions()] == [""]


async def test_a_holder_may_tell_something_else_later(opened: Open) -> None:
    """A process with the leader's new configuration would be refused because of the old one."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="", about=lambda _: "old")
    assert first is not None
    (told,) = await eve.introductions()
    await ada.introduce(told.role, "new")
    assert [each.about for each in await eve.introductions()] == ["new"]
    await ada.free(first)
    assert await eve.take("queue", address="", about=lambda _: "eve") is not None
    await ada.introduce(told.role, "late")
    assert [each.about for each in await eve.introductions()] == ["eve"]


async def test_a_lease_that_is_over_introduces_no_one(opened: Open, lapse: Lapse) -> None:
    """A process that has crashed would impose its configuration on later ones."""
    ada = opened("ada")
    assert await ada.take("queue", address="", about=lambda _: "ada") is not None
    assert await ada.introductions()
    await lapse()
    assert not await ada.introductions()
    assert (await ada.holders())[0].holder == "ada"
