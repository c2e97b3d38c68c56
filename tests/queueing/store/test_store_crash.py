"""What was acknowledged survives a process that is killed during its work."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from queueing.core.jobs import JobState
from queueing.store import maintenance
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore

KILLS = int(os.environ.get("USHER_STORE_KILLS", "6"))  # more in a nightly run

# Twenty callers accept, start and complete without end; each acknowledgement is printed.
CHILD = """
import asyncio, os, sys
from queueing.core.jobs import JobEvent, NewJob
from queueing.core.jobs import SubmitLimits
from queueing.core.requests import Output, TextToImage
from queueing.store.jobs.job_store import JobStore
from queueing.store.engines import open_database

async def caller(store, number):
    for turn in range(10**9):
        key = f"{os.getpid()}:{number}:{turn}"
        new = NewJob(model=f"m{number % 3}", request=TextToImage(prompt="cat"), owner="o", key=key)
        job = await store.add(new, 1.0, limits=SubmitLimits())
        os.write(1, f"pending {job.id}\\n".encode())
        if turn % 3:
            job = (await store.apply(job, JobEvent.START, 2.0, runner="r", backend="b")).job
            os.write(1, f"processing {job.id}\\n".encode())
        if turn % 3 == 2:
            await store.apply(job, JobEvent.COMPLETE, 3.0, output=Output(text=f"done {job.id}"))
            os.write(1, f"completed {job.id}\\n".encode())

async def main():
    store = JobStore(await open_database(sys.argv[1]))
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(caller(store, number))

asyncio.run(main())
"""

_ORDER = [JobState.PENDING, JobState.PROCESSING, JobState.COMPLETED]


def _run_and_kill(url: str, lines: int) -> dict[int, JobState]:
    """Kill a child after this many acknowledgements; return the newest one of each job."""
    acknowledged: dict[int, JobState] = {}
    command = [sys.executable, "-c", CHILD, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=os.getcwd()) as child:  # noqa: PTH109
        assert child.stdout is not None
        for _ in range(lines):
            state, job_id = child.stdout.readline().decode().split()
            acknowledged[int(job_id)] = JobState(state)
        child.kill()
        for line in child.stdout:  # acknowledged before the kill, read after it
            if line.endswith(b"\n"):
                state, job_id = line.decode().split()
                acknowledged[int(job_id)] = JobState(state)
    return acknowledged


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/usher.db"


@pytest.mark.timeout(300 + 30 * KILLS)
@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.thorough)])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(url: str, kills: int) -> None:
    """A person would have been promised an image that no one remembers after a crash."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    acknowledged: dict[int, JobState] = {}
    for _ in range(kills):
        acknowledged |= _run_and_kill(url, dice.randint(1, 400))
        asyncio.run(_compare(url, acknowledged))
        assert maintenance.damage_of(url) == []


async def _compare(url: str, acknowledged: dict[int, JobState]) -> None:
    database = await open_database(url)
    store = JobStore(database)
    for job_id, state in acknowledged.items():
        job = await store.get(job_id)
        assert job is not None, f"job {job_id} is lost"
        assert _ORDER.index(job.state) >= _ORDER.index(state)
        output = await store.output(job)
        assert (output is not None) == (job.state is JobState.COMPLETED)
    for queue in await store.queues(9.0, per_queue=10**6):
        positions = await store.positions([job.id for job in queue.heads])
        assert list(positions.values()) == list(range(1, queue.waiting + 1))
    await store.aclose()
