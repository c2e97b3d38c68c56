"""Servers that answer late, or accept work but never do it: disabled and automatically re-enabled.

The servers are separate processes, and the queue speaks to them over sockets.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.texts.reasons import sentence
from queueing.core.jobs import Job, JobState
from queueing.core.snapshot import WaitCause
from queueing.core.specs import HostSpec, ModelSpec, Timeouts
from queueing.engine import health_checker as health
from tests.fakes.process import respawning
from tests.patience import runs_out
from tests.processes.installation import (
    Installation,
    backend,
    die,
    image,
    image_model,
    installation,
    set_faults,
    told,
    until,
)

IMPATIENT = Timeouts(load_s=5.0, first_s=5.0, idle_s=5.0, total_s=60.0)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less between two checks and after failures; all else is as in a real installation."""
    monkeypatch.setattr("queueing.engine.health_checker.EVERY_S", 0.5)
    monkeypatch.setattr("queueing.engine.health_checker.FIRST_DOWN_S", 0.2)
    monkeypatch.setattr("queueing.planning.retry.FIRST_PAUSE_S", 0.5)


@asynccontextmanager
async def servers(
    folder: Path, count: int, **fields: Any
) -> AsyncIterator[tuple[Installation, list[str]]]:
    """Run this many ComfyUI processes, each on its own host, and a queue."""
    given: dict[str, Any] = {"timeouts": IMPATIENT} | fields
    async with (
        respawning("comfyui", "--step-s", "0.02") as first,
        respawning("comfyui", "--step-s", "0.02") as second,
    ):
        urls = [first, second][:count]
        hosts = [
            HostSpec(name=f"gpu-{n}", vram_mb=24_000, backends=(backend("comfyui", f"c{n}", url),))
            for n, url in enumerate(urls, 1)
        ]
        model: ModelSpec = image_model("sdxl", *(f"c{n}" for n in range(1, count + 1)), **given)
        async with installation(folder, hosts, [model]) as running:
            yield running, urls


async def waits_because(running: Installation, job: Job, why: WaitCause) -> str:
    """Return the sentence that a waiting job shows, once it gives that reason."""
    said: list[str] = []

    async def holds() -> bool:
        standing = (await running.queue.status.standings([job]))[job.id]
        if standing.reason is not None and standing.reason.why is why:
            said.append(sentence(standing.reason, "en", str))
        return bool(said)

    await until(holds)
    return said[0]


def is_up(running: Installation, name: str) -> bool:
    return next(one for one in running.queue.status.snapshot().backends if one.name == name).up


@pytest.mark.parametrize("loaded", [True, False], ids=["while it ran jobs", "before its load"])
async def test_jobs_of_a_wedged_server_go_elsewhere(tmp_path: Path, *, loaded: bool) -> None:
    """A hung worker that still answers HTTP would swallow everyone's jobs."""
    async with servers(tmp_path, 2) as (running, (wedged, healthy)):
        await until(lambda: is_up(running, "c1") and is_up(running, "c2"))
        if loaded:
            await running.done(image("sdxl"))
            assert (await told(wedged))["ran"], "the first server in the model's order was used"
        await set_faults(wedged, wedged=True)
        ended = await running.done(image("sdxl"), image("sdxl"))
        assert [job.state for job in ended] == [JobState.COMPLETED] * 2
        assert {job.backend for job in ended} == {"c2"}
        assert (await told(healthy))["ran"]


async def test_jobs_of_the_only_server_wait_while_it_is_wedged_and_go_on_after_its_restart(
    tmp_path: Path,
) -> None:
    """A restart of ComfyUI would not help, or its jobs would fail instead of waiting."""
    async with servers(tmp_path, 1, max_attempts=10) as (running, (url,)):
        await running.done(image("sdxl"))
        await set_faults(url, wedged=True)
        (job,) = await running.submit(image("sdxl"))
        await until(lambda: not is_up(running, "c1"))
        said = await waits_because(running, job, WaitCause.OFFLINE)
        assert said.startswith("gpu-1 has been offline since ")
        await die(url)
        (ended,) = await running.ends.of([job])
        assert ended.state is JobState.COMPLETED
        assert is_up(running, "c1")


async def test_a_server_that_answers_late_is_taken_out_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People would wait for a server that does not really work, or forever once it does."""
    async with servers(tmp_path, 1) as (running, (url,)):
        await running.done(image("sdxl"))
        await set_faults(url, hang="/system_stats")
        with monkeypatch.context() as patch:
            runs_out(patch, health, "ANSWER_S")
            await until(lambda: not is_up(running, "c1"))
        (job,) = await running.submit(image("sdxl"))
        await waits_because(running, job, WaitCause.OFFLINE)
        assert not (await told(url))["running"]
        await set_faults(url, hang="")
        (ended,) = await running.ends.of([job])
        assert (ended.state, ended.attempt) == (JobState.COMPLETED, 1)


async def test_a_server_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    """Jobs would fail because a server was restarted."""
    async with servers(tmp_path, 1) as (running, (url,)):
        await running.done(image("sdxl"))
        await set_faults(url, step_s=1.0)  # until it dies
        (job,) = await running.submit(image("sdxl", steps=50))

        async def runs() -> bool:
            return bool((await told(url))["running"])

        await until(runs)
        await die(url)
        (ended,) = await running.ends.of([job])
        assert (ended.state, ended.attempt) == (JobState.COMPLETED, 2)


async def test_a_deaf_websocket_costs_no_image(tmp_path: Path) -> None:
    """A proxy that swallows websockets would make every image time out."""
    async with servers(tmp_path, 1, timeouts=Timeouts()) as (running, (url,)):
        await set_faults(url, deaf=True)
        ended = await running.done(image("sdxl"), image("sdxl"))
        assert [job.attempt for job in ended] == [1, 1]
        assert [job.state for job in ended] == [JobState.COMPLETED] * 2
