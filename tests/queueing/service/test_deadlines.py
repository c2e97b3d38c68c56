"""Jobs wanted by a time (`--by`) are done by then, whatever else wants their GPU."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from queueing.core.errors import Unavailable
from queueing.core.events import JobChanged
from queueing.core.jobs import LATER, Job, JobState
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.requests import Work
from queueing.core.snapshot import Rules, WaitCause
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec, SleepSpec, Timeouts, WakeSpec
from queueing.service import deadlines
from queueing.service.job_queue import JobQueue
from tests.fakes.clock import START
from tests.fakes.servers.backend import FakeGpu, Fate, prompt_of
from tests.samples import seeds
from tests.simulation.installation import Installation, Looks, ended, host, image_model
from tests.simulation.loop import in_virtual_time, run
from tests.simulation.machines import FakeHostControl

MINUTE = 60.0
HOUR = 60 * MINUTE
EVERY_DAY = frozenset(range(7))
SILENT = Timeouts(first_s=None, idle_s=None)  # as a video that reports no progress


def quiet(begins: float, ends: float) -> QuietHours:
    """Return quiet hours from and to this many minutes after the start, which is midnight."""
    return QuietHours((WeeklyWindow(EVERY_DAY, int(begins), int(ends)),), "UTC")


def installation(
    *models: ModelSpec, hosts: tuple[HostSpec, ...] = (), url: str = "sqlite://", fair: bool = False
) -> Installation:
    """Return servers whose models take as long as they say; without hosts, one GPU."""
    there = Installation.of(models, hosts or [host("gpu", "comfy")], url=url)
    if fair:
        there.rules = Rules(order="fair")
    known = {model.name: model for model in models}
    for name, server in there.servers.items():
        server.load_s = max((m.usual_load_s for m in models if name in m.backends), default=1.0)
        server.fates = lambda work: Fate(
            service_s=known[prompt_of(work).split()[0]].usual_service_s
        )
    return there


async def ask(
    queue: JobQueue, there: Installation, model: str, owner: str = "web:1", **fields: float
) -> Job:
    lane = LATER if "due_at" in fields else "normal"
    return await there.ask(queue, model, f"{model} {there.keys}", lane=lane, owner=owner, **fields)


async def crowd(queue: JobQueue, there: Installation, model: str, *, waiting: int) -> None:
    """Keep this many jobs of a model waiting, forever."""
    open_: set[int] = set()
    ended = asyncio.Event()

    def told(event: object) -> None:
        if isinstance(event, JobChanged) and event.job.id in open_ and event.job.state.final:
            open_.discard(event.job.id)
            ended.set()

    queue.events.subscribe(told)
    while True:
        for _ in range(waiting + 1 - len(open_)):
            open_.add((await ask(queue, there, model, owner=f"web:{there.keys % 7 + 2}")).id)
        looks = Looks(5)
        await ended.wait()
        ended.clear()
        await looks.next()


async def beside(
    there: Installation, queue: JobQueue, waiting: dict[str, int]
) -> asyncio.Task[None]:
    """Let crowds ask for models until the returned task is cancelled."""

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for model, count in waiting.items():
                group.create_task(crowd(queue, there, model, waiting=count))

    return asyncio.create_task(all_of_them())


async def in_time(queue: JobQueue, jobs: list[Job]) -> list[float]:
    """Return how many seconds late each job is; less than zero is in time."""
    done = [await ended(queue, job, within_s=24 * HOUR) for job in jobs]
    assert {(job.state, job.error) for job in done} == {(JobState.COMPLETED, None)}
    return [(job.finished_at or 0.0) - (job.due_at or 0.0) for job in done]


def kept(
    there: Installation, asked: dict[str, int], waiting: dict[str, int], due_at: float
) -> None:
    """Ask for timed jobs beside crowds; every one must be done in time."""

    async def scenario() -> None:
        async with there.queue() as queue:
            crowds = await beside(there, queue, waiting)
            await asyncio.sleep(MINUTE)
            jobs = [
                await ask(queue, there, model, due_at=due_at)
                for model, count in asked.items()
                for _ in range(count)
            ]
            late_s = await in_time(queue, jobs)
            crowds.cancel()
            assert max(late_s) <= 0, sorted(late_s)
        assert not there.violations

    run(scenario())


@pytest.mark.parametrize("fair", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_video_that_runs_is_no_reason_to_be_late(*, fair: bool) -> None:
    """An image of seconds would seem to begin in time, but behind a video of 20 minutes."""
    there = installation(
        image_model("flux", vram_mb=16000, load_s=2.0),
        image_model("video", vram_mb=16000, load_s=2.0, service_s=20 * MINUTE, timeouts=SILENT),
        fair=fair,
    )
    kept(there, {"flux": 1}, {"video": 3}, START + 3 * HOUR)


@pytest.mark.parametrize("fair", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_model_that_loads_slowly_is_put_out_in_time(*, fair: bool) -> None:
    """It is kept for as long as its own load takes, which quick loads of others did not count."""
    there = installation(
        image_model("flux", "quick", vram_mb=16000, load_s=1.0),
        image_model("big", "slow", vram_mb=20000, load_s=120.0, service_s=30.0),
        image_model("huge", "slow", vram_mb=20000, load_s=120.0, service_s=30.0),
        hosts=(host("gpu", "quick", "slow"),),
        fair=fair,
    )
    kept(there, {"flux": 1}, {"big": 5, "huge": 5}, START + 2 * HOUR)


@pytest.mark.parametrize("fair", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_many_for_one_moment_begin_one_after_the_other(*, fair: bool) -> None:
    """Each would begin in time for itself alone, and the last be done an hour late."""
    there = installation(
        image_model("flux", vram_mb=16000, load_s=10.0, service_s=60.0),
        image_model("sdxl", vram_mb=16000, load_s=10.0, service_s=20.0),
        fair=fair,
    )
    kept(there, {"flux": 15, "sdxl": 10}, {"flux": 2, "sdxl": 4}, START + 90 * MINUTE)


def test_a_fault_in_the_estimate_neither_ends_the_queue_nor_makes_a_job_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One odd job would stop all others."""

    def fail(*_: object, **__: object) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(deadlines, "kept_s", fail)
    there = installation(image_model("flux", vram_mb=16000, load_s=2.0))
    kept(there, {"flux": 1}, {"flux": 2}, START + HOUR)


def test_on_several_machines() -> None:
    """A model of two machines would wait for the one with the longer queue."""
    there = installation(
        image_model("flux", "one", "two", vram_mb=16000, service_s=60.0),
        image_model("sdxl", "two", vram_mb=16000, service_s=90.0),
        image_model("video", "one", vram_mb=16000, service_s=10 * MINUTE, timeouts=SILENT),
        hosts=(host("a", "one"), host("b", "two", serial=True)),
    )
    kept(there, {"flux": 6, "sdxl": 3, "video": 2}, {"video": 2, "sdxl": 4}, START + 2 * HOUR)


def test_before_quiet_hours_if_they_end_too_late() -> None:
    """What is wanted for eight o'clock would begin when the GPU is free again, at nine."""
    resting = replace(host("gpu", "comfy"), quiet=quiet(60, 9 * 60))
    there = installation(
        image_model("flux", vram_mb=16000, service_s=60.0),
        image_model("sdxl", vram_mb=16000, service_s=20.0),
        hosts=(resting,),
    )
    kept(there, {"flux": 3}, {"sdxl": 4}, START + 8 * HOUR)
    assert max(at for at, model, _ in there.servers["comfy"].starts if model == "flux") < HOUR


@in_virtual_time
async def test_it_is_said_at_once_that_quiet_hours_end_too_late() -> None:
    """A person would sleep relying on a promise that cannot be kept."""
    resting = replace(host("gpu", "comfy"), quiet=quiet(5, 9 * 60))
    there = installation(
        image_model("flux", vram_mb=16000, service_s=10 * MINUTE),
        image_model("sdxl", vram_mb=16000, service_s=20.0),
        hosts=(resting,),
    )
    async with there.queue() as queue:
        crowds = await beside(there, queue, {"sdxl": 9})
        await asyncio.sleep(MINUTE)
        job = await ask(queue, there, "flux", due_at=START + 8 * HOUR)
        await queue.status.decided([job])
        await asyncio.sleep(1)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert (reason.why, reason.until) == (WaitCause.LATE, START + 8 * HOUR)
        crowds.cancel()


@in_virtual_time
async def test_those_due_first_go_first_also_after_restarts(tmp_path: Path) -> None:
    """Each look put the job due last before all others, and each restart reversed them."""
    there = installation(
        image_model("flux", vram_mb=16000, load_s=1.0, service_s=60.0),
        url=f"sqlite:///{tmp_path}/usher.db",
    )
    async with there.queue() as queue:
        await queue.admin.pause(model="flux")
        await ask(queue, there, "flux")
        jobs = [
            await ask(queue, there, "flux", due_at=START + minutes * MINUTE)
            for minutes in (40, 25, 30, 25, 35)
        ]
        await asyncio.sleep(24 * MINUTE)
    for minutes in (2, 10):
        async with there.queue() as queue:
            await asyncio.sleep(minutes * MINUTE)
    async with there.queue() as queue:
        await queue.admin.resume(model="flux")
        done = [await ended(queue, job) for job in jobs]
    started = sorted(done, key=lambda job: job.started_at or 0.0)
    assert [job.id for job in started] == [jobs[n].id for n in (1, 3, 2, 4, 0)]


def test_an_attempt_that_failed_is_repeated_in_time() -> None:
    """Its time was forgotten with its failure: it waited until nothing else did, so forever."""
    there = installation(
        image_model("flux", vram_mb=16000, load_s=1.0, service_s=60.0),
        image_model("sdxl", vram_mb=16000, load_s=1.0, service_s=20.0),
    )
    usual, failures = there.servers["comfy"].fates, 1

    def fate(work: Work) -> Fate:
        nonlocal failures
        if prompt_of(work).startswith("flux") and failures:
            failures -= 1
            return Fate(service_s=40.0, error=Unavailable("it broke"))
        return usual(work)

    there.servers["comfy"].fates = fate
    kept(there, {"flux": 1}, {"sdxl": 4}, START + 60 * MINUTE)


def drawn(chance: Random) -> tuple[Installation, dict[str, int]]:
    """Return random models on one or two GPUs, perhaps with quiet hours, and who asks for which."""
    backends = ["one", "two"][: chance.randint(1, 2)]
    hosts = [host(f"gpu-{name}", name, serial=chance.random() < 0.3) for name in backends]
    if chance.random() < 0.5:
        begins = chance.randint(30, 120)
        hosts[0] = replace(hosts[0], quiet=quiet(begins, begins + chance.randint(10, 60)))
    models = [
        image_model(
            f"m{number}",
            *sorted(chance.sample(backends, chance.randint(1, len(backends)))),
            vram_mb=chance.choice([9000, 16000]),
            load_s=chance.uniform(1, 60),
            service_s=chance.uniform(5, 100),
        )
        for number in range(chance.randint(2, 4))
    ]
    there = installation(*models, hosts=tuple(hosts), fair=chance.random() < 0.5)
    return there, {model.name: chance.randint(0, 3) for model in models}


def far(chance: Random) -> HostSpec:
    """Return a separate machine, which perhaps sleeps when no one needs it."""
    sleeps = chance.random() < 0.6
    takes_s = chance.uniform(60, 200)
    return replace(
        host("far", "far", vram_mb=16000),
        wake=WakeSpec(mac="001a2b3c4d5e", takes_s=takes_s) if sleeps else None,
        sleep=SleepSpec(after_s=120.0, command=("suspend",)) if sleeps else None,
    )


def several_kinds(chance: Random) -> tuple[Installation, dict[str, int], list[str]]:
    """Return two GPUs in one machine, another machine, crowds, and the servers that are away."""
    both, left, right = (BackendSpec(name=name, kind="fake") for name in ("both", "left", "right"))
    gpu = HostSpec(name="box/0", machine="box", vram_mb=16000, margin=1.0, backends=(both, left))
    away = chance.sample(["left", "right", "far"], chance.randint(0, 2))
    hosts = (gpu, replace(gpu, name="box/1", backends=(both, right)), far(chance))
    models = [
        image_model(
            f"m{number}",
            *dict.fromkeys([chance.choice([each for each in served if each not in away]), *served]),
            vram_mb=chance.choice([9000, 14000]) * (2 if served == ["both"] else 1),
            load_s=chance.uniform(1, 60),
            service_s=chance.uniform(5, 100),
        )
        for number in range(chance.randint(2, 5))
        for served in [chance.choice([["both"], chance.sample(["left", "right", "far"], 3)])]
    ]
    there = installation(*models, hosts=hosts)
    room = FakeGpu(total_mb=96000, budget_mb=96000)
    for name in ("both", "left", "right"):
        there.servers[name].gpu = room
    there.machines = FakeHostControl(there.servers, takes_s=chance.uniform(20, 100))
    return there, {model.name: chance.choice([0, 0, 2, 3]) for model in models}, away


@seeds([4, 1, 0, 2, 3, 5, 6, 7])
def test_what_is_not_said_to_be_late_is_in_time(seeds: list[int]) -> None:
    """A person relies on the sentence they read when they asked."""
    for seed in seeds:
        print(f"seed {seed}")
        chance = Random(seed)
        promised(*drawn(chance), chance)


@seeds(range(4))
def test_servers_over_gpus_and_those_away_or_asleep_make_nothing_late(seeds: range) -> None:
    """A job would wait for the free GPU of the two it needs, or for a server that is not there."""
    for seed in seeds:
        print(f"seed {seed}")
        chance = Random(seed)
        there, waiting, away = several_kinds(chance)
        promised(there, waiting, chance, away)


def promised(
    there: Installation, waiting: dict[str, int], chance: Random, away: Sequence[str] = ()
) -> None:
    """Ask for timed jobs beside crowds; those not said to be late must not be late."""

    async def scenario() -> None:
        for name in away:
            there.servers[name].die(restart_s=-1)
        async with there.queue() as queue:
            crowds = await beside(there, queue, waiting)
            warned: list[tuple[Job, bool]] = []
            for _ in range(12):
                await asyncio.sleep(chance.uniform(1, 5 * MINUTE))
                due_at = there.clock.now() + chance.uniform(5 * MINUTE, 2 * HOUR)
                job = await ask(queue, there, chance.choice(list(waiting)), due_at=due_at)
                await asyncio.sleep(1)
                reason = (await queue.status.standings([job]))[job.id].reason
                warned.append((job, reason is not None and reason.why is WaitCause.LATE))
            late_s = await in_time(queue, [job for job, _ in warned])
            crowds.cancel()
        broken = [
            (job.id, round(late))
            for (job, was_warned), late in zip(warned, late_s, strict=True)
            if late > 0 and not was_warned
        ]
        assert not broken
        assert not there.violations

    run(scenario())
