"""GPU seconds are counted once each, whichever process ends a job and dies doing so."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Connection
from tests.fakes.programs.postgres_server import end_leases

pytest.importorskip("psycopg")

ROOT = Path(__file__).resolve().parents[4]
CHANGES_OF_HOLDER = int(os.environ.get("USHER_STORE_KILLS", "4"))  # more in a nightly run
SECONDS = 0.25  # of each job; sums of it are exact
NAMES = ("ada", "eve")

# Waits for the queue's role; then ends what the holder before it left, and a stream of its own. Each
# end that is acknowledged is printed.
HOLDER = """
import asyncio, os, sys, uuid
from queueing.core.errors import StaleJob
from queueing.core.jobs import JobEvent, NewJob
from queueing.core.requests import Output, TextToImage
from queueing.core.jobs import SubmitLimits
from queueing.store.jobs.job_store import JobStore
from queueing.store.engines import open_database
from queueing.store.postgres.lease_store import PostgresLeases

LEASE_S, SECONDS = 15.0, float(sys.argv[3])

async def end(store, job):
    try:
        await store.apply(job, JobEvent.COMPLETE, 3.0, output=Output(), gpu_s=SECONDS)
    except StaleJob:
        return
    os.write(1, f"{job.id}\\n".encode())

async def caller(store, number):
    while True:
        prompt = TextToImage(prompt="cat")
        new = NewJob(model="m", request=prompt, owner=f"o{number % 3}", key=str(uuid.uuid4()))
        job = await store.add(new, 1.0, limits=SubmitLimits())
        job = (await store.apply(job, JobEvent.START, 2.0, runner="r", backend="b")).job
        await end(store, job)

async def renew(roles, lease):
    while True:
        await asyncio.sleep(LEASE_S / 4)
        await roles.renew(lease)

async def main():
    roles = PostgresLeases(sys.argv[1], process=sys.argv[2], lease_s=LEASE_S)
    while (lease := await roles.take("queue", address="")) is None:
        await roles.freed(0.05)
    store = JobStore(await open_database(sys.argv[1], lease=lease))
    async with asyncio.TaskGroup() as group:
        group.create_task(renew(roles, lease))
        for job in await store.processing():
            group.create_task(end(store, job))
        for number in range(12):
            group.create_task(caller(store, number))

asyncio.run(main())
"""


@contextmanager
def holder(url: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLDER, url, name, str(SECONDS)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    ) as child:
        try:
            yield child
        finally:
            child.kill()  # a stopped one, too


def read_ends(child: subprocess.Popen[bytes], lines: int) -> set[int]:
    assert child.stdout is not None
    return {int(child.stdout.readline()) for _ in range(lines)}


def last_ends(child: subprocess.Popen[bytes]) -> set[int]:
    """Return the ids that an ending process has printed and that were not read yet."""
    assert child.stdout is not None
    return {int(line) for line in child.stdout if line.endswith(b"\n")}


@pytest.mark.timeout(300 + 30 * CHANGES_OF_HOLDER)
@pytest.mark.parametrize(
    ("how", "changes"),
    [
        ("frozen", 1),
        pytest.param("killed", CHANGES_OF_HOLDER, marks=pytest.mark.thorough),
        pytest.param("frozen", CHANGES_OF_HOLDER // 2, marks=pytest.mark.thorough),
    ],
)
def test_the_count_is_exact_after_failovers(postgres_url: str, how: str, changes: int) -> None:
    """A person would pay twice for what two holders ended, or a video would be free."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    told: set[int] = set()
    for _ in range(changes):
        with holder(postgres_url, NAMES[0]) as first:
            told |= read_ends(first, dice.randint(1, 120))
            with holder(postgres_url, NAMES[1]) as second:
                first.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                if how == "frozen":
                    end_leases(postgres_url)
                told |= read_ends(second, dice.randint(1, 120))
                if how == "frozen":  # it thaws, and finds that it has lost its role
                    first.send_signal(signal.SIGCONT)
                told |= last_ends(first)
                first.wait()
                second.kill()
                told |= last_ends(second)
    ended, used_s = asyncio.run(_counted(postgres_url))
    assert told <= ended.keys()
    counts = {owner: sum(each == owner for each in ended.values()) for owner in ended.values()}
    assert used_s == {owner: SECONDS * count for owner, count in counts.items()}


async def _counted(url: str) -> tuple[dict[int, str], dict[str, float]]:
    """Return who owns each ended job, and what is counted for each person."""
    database = await open_database(url)
    store = JobStore(database)
    used_s = dict(await store.gpu_used(0.0))

    def rows(connection: Connection) -> list[tuple[int, str]]:
        query = "SELECT id, owner FROM jobs WHERE state = 'completed'"
        return [(int(job_id), str(owner)) for job_id, owner in connection.execute(query)]

    ended = dict(await database.read(rows))
    await store.aclose()
    return ended, used_s
