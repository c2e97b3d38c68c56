"""Measures several processes on one PostgreSQL database, next to one process on the same server.

`python -m benchmarks.chaos --cluster 3 --speed [--database postgresql://…] [--quick] [--json]`. Programs
call the HTTP API of every process, in equal shares. Each call submits a job without work and waits for
its end at the same process, so it passes through the whole bot. One process and several take turns, each
time with a new database; the figures are medians. Without `--database`, this starts a server with `fsync`
and `synchronous_commit` on. Keys of the JSON, each {"1", number of processes}:

- `serving`: how many of the processes answer programs.
- `jobs_per_s`: jobs submitted, done and reported in a second, by all processes together.
- `ack_ms_p50`, `ack_ms_p95`: from a call until its job's number is answered, under that load.
- `event_lag_ms_p50`, `event_lag_ms_p95`: with little else going on, from the commit of a job's end until a
  program that follows the job's events has received it. It follows them at another process than the one
  that the job was submitted to, if there is one. The clocks are those of the database and of this machine.
- `cpu_ms_per_job`: processor time of all processes together for a job under that load.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psycopg

from benchmarks.figures import medians, percentiles
from benchmarks.postgres import new_database
from benchmarks.processes import cpu_s, usher
from tests.fakes.ports import free_port
from tests.fakes.programs.postgres_server import NOT_INSTALLED, binaries, running_server

SETTINGS = (
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "autovacuum=on",
    "track_commit_timestamp=on",
)
ABLE = "capabilities: [text-to-text], vram: 4GB, parallel: 64, max_waiting: 100000"
CONFIG = """
database: {database}
hosts:
  box:
    vram: 24GB
    backends:
      quick: {{kind: demo, load_s: 0, service_s: 0, parallel: 64}}
      steady: {{kind: demo, load_s: 0, service_s: 0.2, parallel: 64}}
models:
  nothing: {{backends: [quick], {able}}}
  moment: {{backends: [steady], {able}}}
limits: {{open_per_person: 100000, queued_per_person: 100000}}
chats: {{}}
api: {{port: {port}, open: true}}
cluster: {{lease_s: 3}}
"""
SETTLED_S = 20.0  # after the first answer; a process that is silent until then does not serve
PATIENCE_S = 180.0
_COMMITTED = (
    "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM outputs"
    " WHERE job_id = $1 AND number = 0"
)
_ENDED = "SELECT finished_at FROM jobs WHERE id = $1"  # the queue writes it just before the commit


class Size(NamedTuple):
    """How much each round asks for."""

    callers: int
    calls: int
    warm_up: int
    followed: int
    rounds: int


WHOLE = Size(callers=60, calls=3_000, warm_up=300, followed=90, rounds=3)
QUICK = Size(callers=12, calls=120, warm_up=24, followed=9, rounds=1)


class Program:
    """A program that calls one process."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/v1"

    async def answers(self) -> bool:
        """Return whether the process serves programs now."""
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self._session.get(f"{self._url}/queue") as answer:
                return answer.status == 200
        return False

    async def submit(self, model: str) -> int:
        """Submit a job and return its number."""
        question = {"role": "user", "content": "Say one word."}
        body = {"model": model, "messages": [question], "max_tokens": 1}
        async with self._session.post(f"{self._url}/jobs", json=body) as answer:
            job = await answer.json()
            if answer.status != 202:
                raise SystemExit(f"{answer.status}: {job}")
            return int(job["id"])

    async def ended(self, job: int) -> None:
        """Wait until a job has completed."""
        state = "pending"
        while state in {"pending", "processing"}:
            async with self._session.get(f"{self._url}/jobs/{job}?wait=30") as answer:
                state = (await answer.json())["state"]
        if state != "completed":
            raise SystemExit(f"job {job}: {state}")

    async def completed_at(self, job: int) -> float:
        """Follow the events of a job; return when the one of its completion came."""
        async with self._session.get(f"{self._url}/jobs/{job}/events") as answer:
            async for line in answer.content:
                if line.startswith(b"data:") and b"completed" in line:
                    return time.time()
        raise SystemExit(f"there was no event for the completion of job {job}")


async def _serving(programs: Sequence[Program]) -> Sequence[Program]:
    """Wait until one process serves, and a while for the others."""
    until, found = time.monotonic() + PATIENCE_S, list[Program]()
    while len(found) < len(programs) and time.monotonic() < until:
        before = len(found)
        found = [each for each in programs if await each.answers()]
        if found and not before:
            until = min(until, time.monotonic() + SETTLED_S)
        await asyncio.sleep(0.1)
    if not found:
        raise SystemExit("no process serves programs")
    return found


async def _ask(programs: Sequence[Program], callers: int, calls: int) -> list[float]:
    """Let callers ask, each again once its job has ended; return the seconds of each acceptance."""
    left, acks = iter(range(calls)), list[float]()

    async def caller(program: Program) -> None:
        for _ in left:
            began = time.perf_counter()
            job = await program.submit("nothing")
            acks.append(time.perf_counter() - began)
            await program.ended(job)

    shared = zip(range(callers), cycle(programs), strict=False)
    await asyncio.gather(*(caller(program) for _, program in shared))
    return acks


async def _lags(programs: Sequence[Program], database: str, count: int) -> list[float]:
    """Follow jobs one after the other; return the seconds from each end's commit to its event."""
    found = []
    connecting = psycopg.connect(database, autocommit=True, cursor_factory=psycopg.RawCursor)
    with closing(connecting) as connection:
        noted = connection.execute("SHOW track_commit_timestamp").fetchone() == ("on",)
        for number in range(count):
            here = programs[number % len(programs)]
            there = programs[(number + 1) % len(programs)]
            job = await here.submit("moment")
            completed_at = await there.completed_at(job)
            row = connection.execute(_COMMITTED if noted else _ENDED, [job]).fetchone()
            assert row is not None
            found.append(completed_at - row[0])
    return found


async def _measure_once(folder: Path, server: str, count: int, size: Size) -> dict[str, float]:
    """Measure this many processes once."""
    with ExitStack() as stack:
        database = stack.enter_context(new_database(server))
        ports, pids = [free_port() for _ in range(count)], []
        for port in ports:
            config = CONFIG.format(database=json.dumps(database), port=port, able=ABLE)
            pids.append(stack.enter_context(usher(folder / str(port), config)).pid)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            programs = await _serving([Program(session, port) for port in ports])
            await _ask(programs, size.callers, size.warm_up)
            before, began = sum(map(cpu_s, pids)), time.perf_counter()
            acks = await _ask(programs, size.callers, size.calls)
            took, used = time.perf_counter() - began, sum(map(cpu_s, pids)) - before
            lags = await _lags(programs, database, size.followed)
    return {
        "serving": len(programs),
        "jobs_per_s": size.calls / took,
        **percentiles("ack_ms", acks),
        **percentiles("event_lag_ms", lags),
        "cpu_ms_per_job": used * 1000 / size.calls,
    }


async def _measure(server: str, count: int, size: Size) -> dict[str, dict[str, float]]:
    """Let one process and several take turns; return the medians by figure and number."""
    rounds: dict[int, list[dict[str, float]]] = {1: [], count: []}
    for _ in range(size.rounds):
        for each, figures in rounds.items():
            with tempfile.TemporaryDirectory() as folder:
                figures.append(await _measure_once(Path(folder), server, each, size))
    found = {
        str(each): medians(figures, partial(round, ndigits=2)) for each, figures in rounds.items()
    }
    return {name: {each: found[each][name] for each in found} for name in found["1"]}


def measure(database: str | None, processes: int, *, quick: bool) -> dict[str, dict[str, float]]:
    """Return the figures of one process and of this many; start a server if none is named."""
    with ExitStack() as stack:
        if database is None:
            if (programs := binaries()) is None:
                raise SystemExit(NOT_INSTALLED)
            server = stack.enter_context(running_server(programs, *SETTINGS))
            database = server.url("postgres")
        return asyncio.run(_measure(database, processes, QUICK if quick else WHOLE))
