"""The configuration of several processes on one database is changed, one after the other."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.fakes.process import ROOT
from tests.fakes.programs.postgres_server import PostgresServer
from tests.processes.cluster.cluster import Usher, processes

pytest.importorskip("psycopg")


async def reload_of(usher: Usher, change: tuple[str, str]) -> tuple[int | None, list[str]]:
    """Change the file of one process and have it reload."""
    usher.rewrite(*change)
    called = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "reload", "-c", str(usher.config)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await called.communicate()
    return called.returncode, told.decode().splitlines()


async def test_processes_are_reloaded_one_after_the_other(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """One would go on with the old limits unseen, and end the other at the next takeover."""
    change = ("open_per_person: 1000", "open_per_person: 900")
    async with processes(tmp_path, postgres, (), ()) as cluster:
        await cluster.ask(2)
        leader = await cluster.holder()
        (other,) = [usher for usher in cluster.ushers if usher is not leader]
        status, told = await reload_of(other, change)
        assert (status, told[0]) == (0, "applied: limits.open_per_person")
        assert told[1].startswith("warning: the process that holds the queue")
        assert "limits.open_per_person differs; reload it too" in told[1]
        assert await reload_of(leader, change) == (0, ["applied: limits.open_per_person"])
        assert await reload_of(other, ("", "")) == (0, ["nothing has changed"])
        await cluster.all_done(await cluster.ask(2))
