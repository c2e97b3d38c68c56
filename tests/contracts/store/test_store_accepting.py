"""What every store must do when a job comes: keep it whole, once, and within the limits."""

import asyncio

import pytest

from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, NewJob, SubmitLimits
from queueing.core.requests import Chat, ChatMessage, TextToImage
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import IMAGE, NOW, add, end, new, start


async def test_an_accepted_job_reads_back_as_it_was_returned(store: JobStore) -> None:
    """A job would change its request, its owner or its chat on the way through the database."""
    image = TextToImage(prompt="кот \N{CAT} \0 '\"", seed=2**64 - 1, strength=0.5)
    chat = Chat(messages=(ChatMessage(role="user", text="hi", images=(0,)),), max_tokens=5)
    for request in (image, chat):
        job = await add(
            store,
            NewJob(
                model="flux",
                request=request,
                files=(IMAGE,),
                owner="telegram:1",
                lane="vip",
                parent=7,
                reply_to="telegram:1:2",
                key=f"k{request.kind}",
            ),
        )
        assert await store.get(job.id) == job
        assert await store.find(f"k{request.kind}") == job
        assert job.request == request
        assert await store.inputs(job) == (IMAGE,)


async def test_unknown_jobs_are_none(store: JobStore) -> None:
    """A button on a message older than the retention would cause a crash."""
    assert await store.get(1) is None
    assert await store.find("nothing") is None
    assert await store.positions([1]) == {}


async def test_a_known_key_brings_the_first_job_whatever_the_limits(store: JobStore) -> None:
    """A redelivered update would make a second job, or be refused although its job runs."""
    asked = new()
    first = await add(store, asked)
    again = await store.add(asked, NOW + 1, limits=SubmitLimits(max_open=1, max_waiting=1))
    assert again == first
    ended = await end(store, first)
    assert await add(store, asked) == ended


async def test_the_same_key_at_the_same_moment_makes_one_job(store: JobStore) -> None:
    """Two simultaneous deliveries would both be accepted."""
    asked = new()
    jobs = await asyncio.gather(*(add(store, asked) for _ in range(5)), add(store))
    assert len({job.id for job in jobs}) == 2
    assert len(await store.open_jobs()) == 2


async def test_an_owner_at_the_limit_is_refused_until_a_job_ends(store: JobStore) -> None:
    """One person could fill the queue, or would stay locked out after the jobs ended."""
    limits = SubmitLimits(max_open=2)
    first, _ = [await store.add(new(), NOW, limits=limits) for _ in range(2)]
    with pytest.raises(LimitReached) as refusal:
        await store.add(new(), NOW, limits=limits)
    assert (refusal.value.scope, refusal.value.limit) == ("owner", 2)
    await store.add(new(owner="bob"), NOW, limits=limits)
    await end(store, first)
    await store.add(new(), NOW, limits=limits)


async def test_limits_hold_against_simultaneous_requests(store: JobStore) -> None:
    """Ten simultaneous requests would all pass a limit of three."""
    asked = [store.add(new(), NOW, limits=SubmitLimits(max_open=3)) for _ in range(10)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, Job) for answer in answers) == 3
    assert sum(isinstance(answer, LimitReached) for answer in answers) == 7


async def test_a_full_line_refuses_and_running_jobs_do_not_fill_it(store: JobStore) -> None:
    """A model's queue would grow without end, or its running jobs would count as waiting."""
    limits = SubmitLimits(max_waiting=2)
    first = await store.add(new(), NOW, limits=limits)
    await store.add(new(lane="vip"), NOW, limits=limits)
    with pytest.raises(LimitReached) as refusal:
        await store.add(new(owner="bob"), NOW, limits=limits)
    assert (refusal.value.scope, refusal.value.limit) == ("queue", 2)
    await store.add(new("sdxl"), NOW, limits=limits)
    await start(store, first)
    await store.add(new(owner="bob"), NOW, limits=limits)
