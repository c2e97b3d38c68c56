"""What every store must do with starts that are announced, and may be sent before they are stored."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from queueing.core.errors import StaleJob
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.requests import TextToImage
from queueing.core.storage import Store
from tests.contracts.store_harness import NOW, Open, add, start

HERE = "gpu-1"


class Sent:
    """Whether a start was certain before it was stored."""

    def __init__(self) -> None:
        self.early = False
        self.storing: asyncio.Task[Job] | None = None

    def __call__(self) -> None:
        assert self.storing is not None
        assert not self.storing.done()
        self.early = True


def starting(store: Store, job: Job, backend: str = HERE) -> Sent:
    """Begin to store a start; tell what was certain before."""
    sent = Sent()

    async def change() -> Job:
        return (
            await store.apply(
                job, JobEvent.START, NOW, runner="here", backend=backend, certain=sent
            )
        ).job

    sent.storing = asyncio.create_task(change())
    return sent


async def begun(sent: Sent) -> Job:
    assert sent.storing is not None
    return await sent.storing


async def announced(store: Store) -> Job:
    """Return a waiting job whose start is announced, or skip where another process could write."""
    job = await add(store)
    await store.announce(job, HERE)
    if not await store.announced():
        pytest.skip("another process could write to it while this one lives")
    return job


async def test_an_announced_start_is_certain_before_it_is_stored(store: Store) -> None:
    """A server would idle until the disk has taken the next start."""
    job = await announced(store)
    sent = starting(store, job)
    after = await begun(sent)
    assert sent.early
    assert (after.state, after.backend, after.sendings) == (JobState.PROCESSING, HERE, 1)
    assert await store.announced() == []


async def test_a_start_that_is_not_announced_is_not_certain(store: Store) -> None:
    """What is not on disk in any form could run twice under one id after a crash."""
    job = await add(store)
    await store.announce(job, HERE)
    elsewhere = starting(store, job, "gpu-2")
    released = (await store.apply(await begun(elsewhere), JobEvent.RELEASE, NOW)).job
    again = starting(store, released)  # a later sending than the one announced
    await begun(again)
    plain = starting(store, await add(store))
    await begun(plain)
    assert not elsewhere.early
    assert not again.early
    assert not plain.early


@pytest.mark.parametrize(
    "change",
    [
        lambda store, job: store.apply(job, JobEvent.CANCEL, NOW),
        lambda store, job: store.move_first(job.id),
        lambda store, job: store.replace_request(job.id, TextToImage(prompt="dog")),
    ],
    ids=["cancel", "move", "replace"],
)
@pytest.mark.parametrize("done", [False, True])
async def test_a_job_that_has_changed_since_is_not_sent(
    store: Store, change: Callable[[Store, Job], asyncio.Future[object]], done: bool
) -> None:
    """The server would work at what no one wants any more."""
    await add(store)
    job = await announced(store)
    changing = asyncio.ensure_future(change(store, job))
    await asyncio.sleep(0)
    if done:
        await changing
    sent = starting(store, job)
    with pytest.raises(StaleJob):
        await begun(sent)
    await changing
    assert not sent.early


async def test_a_job_that_changes_while_it_is_announced_is_not_sent(store: Store) -> None:
    """The change may be made first although it is stored together with the announcement."""
    job, other = await add(store), await add(store)
    await asyncio.gather(
        store.announce(
            other, "gpu-2"
        ),  # so that announcements come first in what is stored together
        store.apply(job, JobEvent.CANCEL, NOW),
        store.announce(job, HERE),
    )
    sent = starting(store, job)
    with pytest.raises(StaleJob):
        await begun(sent)
    assert not sent.early


@pytest.mark.parametrize(
    "change",
    [
        lambda store, job: store.move_first(job.id),
        lambda store, job: store.replace_request(job.id, TextToImage(prompt="dog")),
    ],
    ids=["move", "replace"],
)
async def test_what_comes_after_a_sent_start_finds_it(
    store: Store, change: Callable[[Store, Job], Coroutine[None, None, Job | None]]
) -> None:
    """A request replaced a moment later would be shown beside a picture of the one before."""
    first, job = await add(store), await announced(store)
    # The first is of the kind that is then made first, although it is asked for later.
    amending = asyncio.create_task(change(store, first))
    sent = starting(store, job)
    late = asyncio.create_task(change(store, job))
    assert (await begun(sent)).state is JobState.PROCESSING
    assert sent.early
    assert await late is None
    assert await amending is not None


async def test_a_server_has_one_announced_start(store: Store) -> None:
    """After a crash it would be asked for jobs that were never near it."""
    job = await announced(store)
    other = await add(store)
    await store.announce(other, HERE)
    assert [(each.id, backend) for each, backend in await store.announced()] == [(other.id, HERE)]
    sent = starting(store, job)
    await begun(sent)
    assert not sent.early


async def test_a_job_is_announced_for_one_server(store: Store) -> None:
    """After a crash the wrong server would be asked for it, and the right one go on unseen."""
    job = await announced(store)
    await store.announce(job, "gpu-0")
    assert [(each.id, backend) for each, backend in await store.announced()] == [(job.id, "gpu-0")]
    sent = starting(store, job)
    await begun(sent)
    assert not sent.early


async def test_what_waits_no_longer_is_not_announced(store: Store) -> None:
    """A running job would be counted as started twice."""
    job = await add(store)
    await start(store, job)
    await store.announce(job, HERE)
    assert await store.announced() == []


async def test_announced_starts_outlive_the_process_until_they_are_taken_back(
    reopen: Open,
) -> None:
    """What was sent as the process died would be sent again."""
    store = await reopen()
    try:
        job = await announced(store)
    finally:
        await store.aclose()
    again = await reopen()
    assert [(each.id, backend) for each, backend in await again.announced()] == [(job.id, HERE)]
    sent = starting(again, job)  # announced by a run that has ended: it may be there already
    assert (await begun(sent)).sendings == 1
    assert not sent.early
    other = await add(again)
    await again.announce(other, HERE)
    await again.take_back_announced()
    assert await again.announced() == []
    late = starting(again, other)
    await begun(late)
    assert not late.early
    await again.aclose()
