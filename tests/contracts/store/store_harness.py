"""The stores that are tested, and jobs for them; `ENGINES` and `url_of` add another engine."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from queueing.core.jobs import Job, JobEvent, NewJob, SubmitLimits
from queueing.core.requests import File, Output, TextToImage
from queueing.store.jobs.job_store import JobStore

NOW = 1_000.0
NO_LIMITS = SubmitLimits()
IMAGE = File(name="cat.png", mime="image/png", data=b"\x89PNG\x00")
Open = Callable[[], Awaitable[JobStore]]


ENGINES = ("sqlite", "postgres")
_numbers = iter(range(10**9))


def url_of(engine: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the address of a new database."""
    if engine == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{folder}/usher.db"


def new(
    model: str = "flux", *, owner: str = "ada", lane: str = "normal", delay_s: float = 0.0
) -> NewJob:
    return NewJob(
        model=model,
        request=TextToImage(prompt="cat"),
        owner=owner,
        lane=lane,
        delay_s=delay_s,
        key=f"update:{next(_numbers)}",
    )


async def add(store: JobStore, job: NewJob | None = None, *, now: float = NOW) -> Job:
    return await store.add(job or new(), now, limits=NO_LIMITS)


async def start(store: JobStore, job: Job) -> Job:
    return (await store.apply(job, JobEvent.START, NOW, runner="here", backend="gpu-1")).job


async def end(store: JobStore, job: Job) -> Job:
    return (await store.apply(await start(store, job), JobEvent.COMPLETE, NOW, output=Output())).job


async def heads(store: JobStore, model: str = "flux", *, now: float = NOW) -> list[int]:
    queues = await store.queues(now, per_queue=100)
    return [job.id for queue in queues if queue.model == model for job in queue.heads]
