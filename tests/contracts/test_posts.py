"""What every table of posts does, the one of the tests included."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from queueing.core.posts import Posts
from tests.fakes.posts import FakePosts, PostTable

LONG_S = 600.0
SHORT_S = 0.2

Open = Callable[[str], Posts]


@pytest.fixture(params=["in memory", "postgres", "postgres without locks and notices"])
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Posts]]:
    """Return a function that opens the posts for a process, with the length of its leases."""
    async with AsyncExitStack() as stack:
        if request.param == "in memory":
            table = PostTable(LONG_S)

            def open_fake(process: str, lease_s: float = LONG_S) -> Posts:
                table.lease_s = lease_s
                return FakePosts(table, process)

            yield open_fake
            return
        url = request.getfixturevalue("postgres_url")
        from queueing.store.postgres.posts import PostgresPosts  # noqa: PLC0415  # an extra

        def open_real(process: str, lease_s: float = LONG_S) -> Posts:
            posts = PostgresPosts(
                url, process=process, lease_s=lease_s, quick=request.param == "postgres"
            )
            stack.push_async_callback(posts.aclose)
            return posts

        yield open_real


async def test_one_process_holds_a_post(opened: Callable[..., Posts]) -> None:
    """Two schedulers would start every job twice."""
    ada, eve = opened("ada"), opened("eve")
    taken = await asyncio.gather(*(each.take("queue", address="a:1") for each in (ada, eve)))
    (held,) = [tenure for tenure in taken if tenure is not None]
    assert held.epoch == 1
    holder = (await ada.holders())[0]
    assert (holder.name, holder.address, holder.epoch) == ("queue", "a:1", 1)
    assert holder.holder == ("ada" if taken[0] else "eve")
    assert 0 < holder.left_s <= LONG_S
    for each in (ada, eve):
        assert await each.take("queue", address="") is None
        other = await each.take(f"another of {holder.name}", address="")
        assert other is None or other.epoch == 1


async def test_every_tenure_has_an_epoch_and_a_secret_of_its_own(
    opened: Callable[..., Posts],
) -> None:
    """What was written under an older one could not be told from what counts."""
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


async def test_a_lease_ends_unless_it_is_renewed(opened: Callable[..., Posts]) -> None:
    """A machine that hangs would hold its posts for good."""
    ada, eve = opened("ada", SHORT_S), opened("eve", SHORT_S)
    first = await ada.take("queue", address="")
    assert first is not None
    async with asyncio.timeout(60):
        while (second := await eve.take("queue", address="")) is None:
            await eve.freed(SHORT_S)
    assert second.epoch == 2
    assert not await ada.renew(first)


async def test_a_post_that_is_freed_can_be_taken_at_once(opened: Callable[..., Posts]) -> None:
    """An orderly stop would leave the duty undone for a lease."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="")
    assert first is not None
    await ada.free(first)
    assert (await eve.holders())[0].holder == ""
    assert await eve.take("queue", address="") is not None


async def test_the_address_of_this_machine_is_known(opened: Callable[..., Posts]) -> None:
    """The others would have to be told where each process listens."""
    assert await opened("ada").local_host() == "127.0.0.1"


async def test_holders_tell_the_others_about_themselves(opened: Callable[..., Posts]) -> None:
    """Two configurations on one database would not be noticed."""
    ada, eve = opened("ada"), opened("eve")
    assert await eve.introductions() == []
    first = await ada.take("queue", address="a:1", about=lambda secret: f"ada {secret.hex()}")
    assert first is not None
    assert await eve.take("queue", address="", about=lambda _: "eve") is None
    (told,) = await eve.introductions()
    assert (told.post.holder, told.post.epoch, told.secret) == ("ada", 1, first.secret)
    assert told.about == f"ada {first.secret.hex()}"
    assert repr(first.secret) not in repr(told)
    await ada.free(first)
    assert await eve.introductions() == []
    assert await eve.take("queue", address="") is not None
    assert [each.about for each in await ada.introductions()] == [""]


async def test_a_holder_may_tell_something_else_later(opened: Callable[..., Posts]) -> None:
    """A process with the leader's new configuration would be refused for the old one."""
    ada, eve = opened("ada"), opened("eve")
    first = await ada.take("queue", address="", about=lambda _: "old")
    assert first is not None
    (told,) = await eve.introductions()
    await ada.introduce(told.post, "new")
    assert [each.about for each in await eve.introductions()] == ["new"]
    await ada.free(first)
    assert await eve.take("queue", address="", about=lambda _: "eve") is not None
    await ada.introduce(told.post, "late")
    assert [each.about for each in await eve.introductions()] == ["eve"]


async def test_a_lease_that_is_over_introduces_no_one(opened: Callable[..., Posts]) -> None:
    """A process that has crashed would bind those after it."""
    ada = opened("ada", SHORT_S)
    assert await ada.take("queue", address="", about=lambda _: "ada") is not None
    async with asyncio.timeout(60):
        while await ada.introductions():
            await ada.freed(SHORT_S)
    assert (await ada.holders())[0].holder == "ada"
