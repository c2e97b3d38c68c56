"""Several `usher run` on one PostgreSQL database, and programs that use whichever of them serve."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from benchmarks.api import free_port

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 64
CONFIG = """
database: {database}
hosts:
  box:
    vram: 24GB
    backends:
      quick: {{kind: demo, load_s: 0, service_s: 0, parallel: {at_once}}}
      steady: {{kind: demo, load_s: 0, service_s: 0.2, parallel: {at_once}}}
models:
  nothing: {{backends: [quick], {able}, parallel: {at_once}, max_waiting: 100000}}
  moment: {{backends: [steady], {able}, parallel: {at_once}, max_waiting: 100000}}
limits: {{open_per_person: 100000, in_line_per_person: 100000}}
chats: {{}}
api: {{port: {port}, open: true}}
cluster: {{lease_s: 3}}
"""
ABLE = "capabilities: [text-to-text], vram: 4GB"
SETTLED_S = 20.0
"""A process that does not answer this long after another one does is taken not to serve programs."""
PATIENCE_S = 180.0
_TICK_S = 0.1
_COMMITTED = (
    "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM outputs"
    " WHERE job_id = $1 AND number = 0"
)
_ENDED = "SELECT finished_at FROM jobs WHERE id = $1"


class Program:
    """A program that calls one process."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.port = port
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
            told = await answer.json()
            if answer.status != 202:
                raise SystemExit(f"{answer.status}: {told}")
            return int(told["id"])

    async def ended(self, job: int) -> None:
        """Wait until a job has ended well."""
        state = ""
        while state != "completed":
            if state not in {"", "pending", "processing"}:
                raise SystemExit(f"job {job}: {state}")
            async with self._session.get(f"{self._url}/jobs/{job}?wait=30") as answer:
                state = (await answer.json())["state"]

    async def told_at(self, job: int) -> float:
        """Follow the events of a job; return when it was told that the job has completed."""
        async with self._session.get(f"{self._url}/jobs/{job}/events") as answer:
            async for line in answer.content:
                if line.startswith(b"data:") and b"completed" in line:
                    return time.time()
        raise SystemExit(f"no event tells that job {job} has completed")


def metered(database: str) -> tuple["psycopg.Connection[tuple[Any, ...]]", str]:
    """Return a connection, and the query for when a job's end was committed.

    A server that does not note its commits (`track_commit_timestamp`) has the moment that the queue
    wrote into the row instead, shortly before.
    """
    connection = psycopg.connect(database, autocommit=True, cursor_factory=psycopg.RawCursor)
    row = connection.execute("SHOW track_commit_timestamp").fetchone()
    return connection, _COMMITTED if row == ("on",) else _ENDED


@asynccontextmanager
async def processes(
    folder: Path, database: str, count: int
) -> AsyncIterator[tuple[Sequence[Program], Callable[[], float]]]:
    """Run so many processes; give a program for each that serves programs, and what tells their time.

    It returns the seconds of processor time that all of them have used.
    """
    ports = [free_port() for _ in range(count)]
    running = [await _started(folder, database, port) for port in ports]
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            programs = [Program(session, port) for port in ports]
            yield await _serving(programs), partial(_cpu_s, running)
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()


async def _started(folder: Path, database: str, port: int) -> asyncio.subprocess.Process:
    own = folder / str(port)
    own.mkdir()
    config = CONFIG.format(database=json.dumps(database), port=port, able=ABLE, at_once=AT_ONCE)
    (own / "config.yaml").write_text(config, encoding="utf-8")
    with (own / "log.txt").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "run", "-c", str(own / "config.yaml")),
            cwd=own,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )


def _cpu_s(running: Sequence[asyncio.subprocess.Process]) -> float:
    ticks = 0
    for process in running:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def _serving(programs: Sequence[Program]) -> Sequence[Program]:
    """Wait until one process serves, and a while for the others."""
    until, found = time.monotonic() + PATIENCE_S, list[Program]()
    while len(found) < len(programs) and time.monotonic() < until:
        before = len(found)
        found = [each for each in programs if await each.answers()]
        if found and not before:
            until = min(until, time.monotonic() + SETTLED_S)
        await asyncio.sleep(_TICK_S)
    if not found:
        raise SystemExit("no process serves programs")
    return found
