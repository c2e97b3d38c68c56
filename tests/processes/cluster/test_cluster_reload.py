"""The configuration of several processes on one database is changed, one process after another."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.fakes.process import ROOT
from tests.fakes.programs.postgres_server import PostgresServer
from tests.processes.cluster.cluster import Processes, Usher, processes

pytest.importorskip("psycopg")

NOTHING_CHANGED = "nothing was changed: the bot keeps its previous configuration"


async def reload_of(usher: Usher, change: tuple[str, str]) -> tuple[int | None, list[str]]:
    """Change the file of one process and let it reload."""
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
    """One would unnoticed keep the old limits, and end the other at the next takeover."""
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


RULES = """
rules:
  - who: [api:somebody@discord:7]
  - kinds: [ask]
"""


async def test_a_mistake_in_the_rules_changes_nothing_while_people_wait(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A typing error would let people do anything, or cost them what they wait for."""
    mistakes = {
        "kinds: [aks]": "rules[1].kinds[0]: must be one of 'image', 'edit'",
        "models: [lama]": "rules[1].models[0]: there is no model 'lama'",
    }
    async with processes(tmp_path, postgres, (), (), more=RULES) as cluster:
        for usher in cluster.ushers:
            await usher.logged("the API is at")
        jobs = await cluster.ask(1)
        asking = asyncio.create_task(cluster.ask(150))
        for usher, (mistake, told) in zip(cluster.ushers, mistakes.items(), strict=True):
            status, (problem, end) = await reload_of(usher, ("kinds: [ask]", mistake))
            assert (status, end) == (1, NOTHING_CHANGED)
            assert told in problem
        for usher in cluster.ushers:
            assert await answer_of(cluster, usher, "chat") == 202
            assert await answer_of(cluster, usher, "image") == 403
        jobs += await asking
        for usher, mistake in zip(cluster.ushers, mistakes, strict=True):
            assert (await reload_of(usher, (mistake, "kinds: [image]")))[0] == 0
            assert await answer_of(cluster, usher, "chat") == 403
        await cluster.all_done(jobs)


async def answer_of(cluster: Processes, usher: Usher, kind: str) -> int:
    """Return the status with which a process answers a job of a kind."""
    said = [{"role": "user", "content": "why?"}]
    asked = {"messages": said} if kind == "chat" else {"prompt": "a cat"}
    body = {"model": "llama", "kind": kind} | asked
    url = f"http://127.0.0.1:{usher.port}/v1/jobs"
    async with cluster.session.post(url, json=body) as answer:
        return answer.status
