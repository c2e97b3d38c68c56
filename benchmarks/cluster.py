"""Measures several processes on one PostgreSQL database, beside one process on the same server.

`python -m benchmarks.cluster [--processes 3] [--database postgresql://…] [--quick] [--json]`. Programs
call the HTTP API of every process that serves it, in equal shares; each call submits a job without
work and waits for its end at the same process, so it goes through the whole bot. One process and several
take turns, each with a database of its own; the figures are medians. Without `--database` a server is started,
with `fsync` and `synchronous_commit` on. Keys of the JSON, each {"1", number of processes}:

- `serving`: how many of the processes serve programs. One that refuses the connection is not counted.
- `jobs_per_s`: jobs submitted, done and reported in a second, by all processes together.
- `ack_ms_p50`, `ack_ms_p95`: from a call until its job's number is answered, under that load.
- `event_lag_ms_p50`, `event_lag_ms_p95`: while little else happens, from the commit of a job's end in the
  database until a program that follows the job's events at another process than the one it was submitted
  to has been told. Both clocks are this machine's if the server runs here. With one process, it is the same one.
- `cpu_ms_per_job`: processor time of all processes together for a job under that load.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.cluster_world import Program, metered, processes
from benchmarks.store_postgres import new_database
from tests.fakes.postgres_server import NOT_INSTALLED, binaries, running_server

SAFE = ("fsync=on", "synchronous_commit=on", "full_page_writes=on", "autovacuum=on")
NOTED = "track_commit_timestamp=on"


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is asked, in each round."""

    callers: int
    calls: int
    warm_up: int
    followed: int
    rounds: int


WHOLE = Size(callers=60, calls=3_000, warm_up=300, followed=90, rounds=3)
QUICK = Size(callers=12, calls=120, warm_up=24, followed=9, rounds=1)
Figures = dict[str, float]


@contextmanager
def server_at(url: str | None) -> Iterator[str]:
    """Give the address of a server, which is started if none is named."""
    if url is not None:
        yield url
        return
    programs = binaries()
    if programs is None:
        raise SystemExit(NOT_INSTALLED)
    with running_server(programs, *SAFE, NOTED) as server:
        yield server.url("postgres")


async def asked(programs: Sequence[Program], callers: int, calls: int) -> list[float]:
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


async def lags(programs: Sequence[Program], database: str, count: int) -> list[float]:
    """Follow jobs one after the other; return the seconds from each end's commit to its event."""
    found = []
    connection, query = metered(database)
    with closing(connection):
        for number in range(count):
            here = programs[number % len(programs)]
            there = programs[(number + 1) % len(programs)]
            job = await here.submit("moment")
            told = await there.told_at(job)
            row = connection.execute(query, [job]).fetchone()
            assert row is not None
            found.append(told - row[0])
    return found


async def measured(folder: Path, server: str, count: int, size: Size) -> Figures:
    """Measure so many processes once."""
    with new_database(server) as database:
        async with processes(folder, database, count) as (programs, cpu_s):
            await asked(programs, size.callers, size.warm_up)
            before, began = cpu_s(), time.perf_counter()
            acks = await asked(programs, size.callers, size.calls)
            took, used = time.perf_counter() - began, cpu_s() - before
            waits = await lags(programs, database, size.followed)
    return {
        "serving": len(programs),
        "jobs_per_s": size.calls / took,
        "ack_ms_p50": median(acks) * 1000,
        "ack_ms_p95": quantiles(acks, n=20, method="inclusive")[18] * 1000,
        "event_lag_ms_p50": median(waits) * 1000,
        "event_lag_ms_p95": quantiles(waits, n=20, method="inclusive")[18] * 1000,
        "cpu_ms_per_job": used * 1000 / size.calls,
    }


async def measure(server: str, count: int, size: Size) -> dict[str, dict[str, float]]:
    """Let one process and several take turns; return the medians by figure and number."""
    rounds: dict[int, list[Figures]] = {1: [], count: []}
    for _ in range(size.rounds):
        for each, figures in rounds.items():
            with tempfile.TemporaryDirectory() as folder:
                figures.append(await measured(Path(folder), server, each, size))
    return {
        name: {
            str(each): round(median(one[name] for one in figures), 2)
            for each, figures in rounds.items()
        }
        for name in rounds[1][0]
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a small run of some seconds")
    parser.add_argument("--processes", type=int, default=3, help="how many share the database")
    parser.add_argument("--database", default=None, metavar="postgresql://…", help="this server")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else WHOLE
    with server_at(options.database) as server:
        found = asyncio.run(measure(server, options.processes, size))
    if options.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(f"{name:18}", *(f"{each}: {figure:<10g}" for each, figure in figures.items()))


if __name__ == "__main__":
    main()
