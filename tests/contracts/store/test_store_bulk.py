"""What every store must do with bulk, the many small jobs of programs: count it apart."""

from dataclasses import replace

import pytest

from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, NewJob, SubmitLimits
from queueing.core.requests import Embed
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NO_LIMITS, NOW, Open, add, end, heads, new

QUEUED = SubmitLimits(max_queued=1)
MODEL = "words"


def embedding(owner: str = "ada") -> NewJob:
    return replace(new(MODEL, owner=owner), request=Embed(inputs=("a cat",)))


async def embeddings(store: JobStore, count: int, limits: SubmitLimits = NO_LIMITS) -> list[Job]:
    return [await store.add(embedding(), NOW, limits=limits) for _ in range(count)]


async def test_a_limit_on_open_jobs_counts_bulk_apart(store: JobStore) -> None:
    """A document of hundreds of calls would forbid its owner any image, and the reverse."""
    two = SubmitLimits(max_open=2)
    await embeddings(store, 2, two)
    with pytest.raises(LimitReached):
        await store.add(embedding(), NOW, limits=two)
    usual = [await store.add(new(), NOW, limits=two) for _ in range(2)]
    with pytest.raises(LimitReached):
        await store.add(new(), NOW, limits=two)
    await end(store, usual[0])
    with pytest.raises(LimitReached):
        await store.add(embedding(), NOW, limits=two)
    await store.add(embedding("bob"), NOW, limits=two)


async def test_bulk_waits_in_an_overflow_of_its_own(store: JobStore, reopen: Open) -> None:
    """An image would wait behind hundreds of passages of a text, or let them pass."""
    first, second, third = await embeddings(store, 3, QUEUED)
    image = await store.add(new(), NOW, limits=QUEUED)
    behind = await store.add(new(), NOW, limits=QUEUED)
    assert [job.seq is None for job in (first, second, third, image, behind)] == [
        *(False, True, True),
        *(False, True),
    ]
    await end(store, image)
    assert await heads(store) == [behind.id]
    assert await heads(store, MODEL) == [first.id]
    store = await reopen()
    assert await store.positions([second.id, third.id]) == {second.id: 2, third.id: 3}
    await end(store, first)
    assert await heads(store, MODEL) == [second.id]
    assert await heads(store) == [behind.id]


async def test_bulk_has_no_line_in_a_history(store: JobStore) -> None:
    """A person's images would be hundreds of pages back."""
    image = await add(store)
    bulk = await embeddings(store, 3)
    newer = await add(store)
    assert await store.history("ada", limit=9) == [newer, image]
    whole = await store.history("ada", limit=9, made_for_jobs=True)
    assert whole == [newer, *reversed(bulk), image]
    assert await store.history("ada", limit=2, before=newer.id, made_for_jobs=True) == [
        *reversed(bulk[1:])
    ]


async def test_bulk_counts_against_no_hourly_quota(store: JobStore) -> None:
    """One document would use up a day of images."""
    one = SubmitLimits(max_per_hour=1)
    await embeddings(store, 3)
    await store.add(new(), NOW, limits=one)
    with pytest.raises(LimitReached):
        await store.add(new(), NOW, limits=one)


async def test_what_an_embedding_made_is_kept(store: JobStore, reopen: Open) -> None:
    """A call that is repeated after a restart would be computed again."""
    job = await end(store, await add(store, embedding()))
    store = await reopen()
    assert (await store.get(job.id)) == job
    assert isinstance(job.request, Embed)
    assert await store.output(job) is not None
