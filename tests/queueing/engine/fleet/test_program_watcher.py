"""Leaving a GPU to a game: when it is noticed, what the queue does, and when it returns."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.catalog import Catalog
from queueing.core.jobs import Job, JobState
from queueing.core.ports import GpuLook
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.snapshot import Rules, WaitCause
from queueing.core.specs import HostSpec
from queueing.core.status import Pauses
from queueing.engine.program_watcher import BUSY, GONE_S, SURE, Yielding, after, is_used
from queueing.service.job_queue import JobQueue
from tests.fakes.clock import START
from tests.fakes.servers.backend import FakeProbe
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time

LEAST_MB = 1000


# ---------------------------------------------------------------- what is seen


def test_what_counts_as_another_program() -> None:
    """A model that is larger than expected would stop its own server."""
    for seen, use, foreign_mb, still, expected in (
        ("a game beside an image", GpuLook(others_mb=4000), 0, False, True),
        ("a desktop, a model larger than believed", GpuLook(others_mb=300), 9000, True, False),
        ("processes unknown, the GPU works", GpuLook(busy=0.5), 4000, True, True),
        ("processes unknown, the GPU rests", GpuLook(busy=0.01), 4000, True, False),
        ("our own work", GpuLook(busy=0.5), 4000, False, None),
        ("no memory", GpuLook(busy=0.5), 300, True, False),
        ("nothing known", GpuLook(), 4000, True, None),
        ("no answer", None, 4000, True, None),
    ):
        found = is_used(use, foreign_mb=foreign_mb, least_mb=LEAST_MB, still=still)
        assert found is expected, seen


def looks(*seen: bool | None, every_s: float = 5.0) -> list[float | None]:
    """Return since when a GPU is left to others after each check."""
    state, found = Yielding(), []
    for number, used in enumerate(seen):
        state = after(state, number * every_s, used=used)
        found.append(state.since)
    return found


def test_one_look_is_not_enough_and_a_pause_is_no_end() -> None:
    """A program that briefly uses a GPU would unload every model, as would a game's new levels."""
    assert looks(True, False, True) == [None, None, None]
    assert looks(True, True, True) == [None, 5.0, 5.0]
    pause = [False] * int(GONE_S / 5 - 1)
    assert set(looks(True, True, *pause)[1:]) == {5.0}
    assert looks(True, True, *pause, False)[-1] is None
    assert set(looks(True, True, *pause, True, *pause)[1:]) == {5.0}
    assert set(looks(True, True, *([None] * 100))[1:]) == {5.0}, "not seen is not gone"


def test_at_the_start_one_look_counts() -> None:
    assert after(Yielding(), 7.0, used=True, at_once=True).since == 7.0


@given(st.lists(st.sampled_from([True, False, None]), max_size=80))
def test_it_neither_begins_nor_ends_at_a_single_look(seen: list[bool | None]) -> None:
    since = looks(*seen)
    for index, now in enumerate(since):
        before = since[index - 1] if index else None
        if now is not None and before is None:
            told = [look for look in seen[: index + 1] if look is not None]
            assert told[-SURE:] == [True] * SURE
        if now is None and before is not None:
            last = max(i for i in range(index) if seen[i] is not False)
            assert (index - last) * 5.0 >= GONE_S
    assert BUSY > 0


# ---------------------------------------------------------------- a queue


@dataclass
class WatchedGpu:
    """A GPU on which a game holds memory, or none."""

    game_mb: int = 0
    asked: list[frozenset[str]] = field(default_factory=list)
    sick: bool = False

    async def use(self, host: HostSpec, loaded: frozenset[str]) -> GpuLook | None:
        self.asked.append(loaded)
        if self.sick:
            raise OSError("the driver is gone")
        return GpuLook(others_mb=self.game_mb)


def installation(
    gpu: WatchedGpu, quiet: QuietHours | None = None, vram_mb: int | None = 8000
) -> Installation:
    spec = replace(host("gpu", "comfy"), yields_above_mb=LEAST_MB, quiet=quiet)
    return Installation.of([image_model("flux", vram_mb=vram_mb)], [spec], gpus_watch=gpu)


async def submit(there: Installation, queue: JobQueue, prompt: str) -> Job:
    return await there.ask(queue, "flux", prompt)


async def reason(queue: JobQueue, job: Job) -> WaitCause | None:
    found = (await queue.status.standings([job]))[job.id].reason
    return None if found is None else found.why


@in_virtual_time
async def test_a_game_gets_the_gpu_and_the_queue_takes_it_back() -> None:
    """The running image ends, the model leaves; two minutes after the game the queue goes on."""
    gpu = WatchedGpu()
    there = installation(gpu)
    server = there.servers["comfy"]
    server.service_s = 30.0
    async with there.queue() as queue:
        first, second = [await submit(there, queue, name) for name in "ab"]
        await asyncio.sleep(20)
        gpu.game_mb = 6000
        await ended(queue, first)
        await until(lambda: server.memory == set(), within_s=5)
        await asyncio.sleep(300)
        assert await reason(queue, second) is WaitCause.YIELDING
        standing = (await queue.status.standings([second]))[second.id]
        assert standing.ends is None
        (shown,) = queue.status.snapshot().hosts
        assert shown.rest is not None
        assert shown.rest.since == pytest.approx(START + 30, abs=10)
        gpu.game_mb = 0
        gone_at = asyncio.get_running_loop().time()
        done = await ended(queue, second)
        assert done.state is JobState.COMPLETED
        assert done.started_at is not None
        assert done.started_at - START - gone_at == pytest.approx(GONE_S + 10, abs=10)
    assert there.violations == []


@in_virtual_time
async def test_a_game_at_the_start_is_seen_before_anything_begins(tmp_path: Path) -> None:
    """After a restart a model would be loaded into the game's memory."""
    gpu = WatchedGpu(game_mb=6000)
    there = installation(gpu)
    there.url = f"sqlite:///{tmp_path}/queue.sqlite"
    async with there.queue() as queue:
        job = await submit(there, queue, "a")
        await asyncio.sleep(60)
    async with there.queue() as queue:
        await asyncio.sleep(60)
        assert await reason(queue, job) is WaitCause.YIELDING
        assert there.servers["comfy"].loads == []


@in_virtual_time
async def test_nothing_is_promised_on_a_gpu_that_has_just_been_taken() -> None:
    """An older forecast still shows a long queue, but knows nothing of the game."""
    gpu = WatchedGpu()
    there = installation(gpu)
    there.servers["comfy"].service_s = 30.0
    async with there.queue() as queue:
        jobs = [await submit(there, queue, name) for name in "abcdefghijklmnopqrstuvwxy"]
        await ended(queue, jobs[1])
        gpu.game_mb = 6000
        rests = (shown.rest for _ in range(200) for shown in queue.status.snapshot().hosts)
        while next(rests) is None:
            await queue.status.standings(jobs[4:])
            await asyncio.sleep(0.1)
        late = await submit(there, queue, "z")
        await queue.status.decided([late])
        told = (await queue.status.standings([late]))[late.id]
        assert told.reason is not None
        assert told.ends is None


@pytest.mark.parametrize(("before_mb", "after_mb"), [(0, 6000), (900, 0)], ids=["comes", "goes"])
@in_virtual_time
async def test_a_program_beside_a_load_is_not_taken_for_a_part_of_the_model(
    before_mb: int, after_mb: int
) -> None:
    """The model would be believed to be larger for good, or too small to be loaded safely."""
    gpu = WatchedGpu(game_mb=before_mb)
    there = installation(gpu, vram_mb=None)
    there.servers["comfy"].sizes["flux"] = 8000
    there.memory = FakeProbe(there.gpus)

    def change(mb: int) -> None:
        gpu.game_mb = there.gpus["gpu"].other_mb = mb

    change(before_mb)
    async with there.queue() as queue:
        await submit(there, queue, "a")
        asyncio.get_running_loop().call_later(5, change, after_mb)
        await asyncio.sleep(15)
        assert len(there.servers["comfy"].loads) == 1
        (model,) = queue.status.snapshot().models
        assert model.vram_mb is None


@in_virtual_time
async def test_a_driver_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    there = installation(WatchedGpu(sick=True))
    async with there.queue() as queue:
        done = await ended(queue, await submit(there, queue, "a"))
        assert done.state is JobState.COMPLETED
    said = [text for text in caplog.messages if "programs on the GPU of gpu" in text]
    assert len(said) == 1, "at every look"


@in_virtual_time
async def test_a_host_that_need_not_yield_any_more_works_at_once() -> None:
    """After a change of the configuration, the GPU would be left to the game until that ends."""
    there = installation(WatchedGpu(game_mb=6000))
    (spec,) = there.catalog.hosts.values()
    async with there.queue() as queue:
        job = await submit(there, queue, "a")
        await asyncio.sleep(30)
        assert await reason(queue, job) is WaitCause.YIELDING
        works = Catalog(there.catalog.models.values(), [replace(spec, yields_above_mb=None)])
        queue.reconfiguration.apply(works, {}, Rules())
        assert (await ended(queue, job)).state is JobState.COMPLETED


# ---------------------------------------------------------------- an admin wins


@in_virtual_time
async def test_an_admin_takes_the_gpu_back_from_a_game_until_it_has_gone(tmp_path: Path) -> None:
    """Also across a restart; the next game gets the GPU again."""
    gpu = WatchedGpu(game_mb=6000)
    there = installation(gpu)
    there.url = f"sqlite:///{tmp_path}/queue.sqlite"
    async with there.queue() as queue:
        job = await submit(there, queue, "a")
        await asyncio.sleep(30)
        assert await reason(queue, job) is WaitCause.YIELDING
        await queue.admin.resume(host="gpu")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        (shown,) = queue.status.snapshot().hosts
        assert shown.rest is None
        assert shown.awake_until is not None
    async with there.queue() as queue:
        await asyncio.sleep(30)
        job = await submit(there, queue, "b")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        gpu.game_mb = 0
        await asyncio.sleep(GONE_S + 30)
        gpu.game_mb = 6000
        await asyncio.sleep(30)
        job = await submit(there, queue, "c")
        await asyncio.sleep(30)
        assert await reason(queue, job) is WaitCause.YIELDING


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@in_virtual_time
async def test_an_admin_takes_the_gpu_back_in_quiet_hours_until_they_end() -> None:
    windows = tuple(WeeklyWindow(frozenset(range(7)), at, at + 60) for at in (0, 120))
    hours = QuietHours(windows, "UTC")
    there = installation(WatchedGpu(), quiet=hours)
    async with there.queue() as queue:
        job = await submit(there, queue, "a")
        await asyncio.sleep(30)
        assert await reason(queue, job) is WaitCause.QUIET
        await queue.admin.resume(host="gpu")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        (shown,) = queue.status.snapshot().hosts
        assert shown.awake_until == START + 3600
        await queue.admin.pause(host="gpu")
        (shown,) = queue.status.snapshot().hosts
        assert shown.paused
        assert shown.awake_until is None
        await queue.admin.resume(host="gpu")
        await asyncio.sleep(2 * 3600)
        job = await submit(there, queue, "b")
        await asyncio.sleep(30)
        assert await reason(queue, job) is WaitCause.QUIET, "the next hours are quiet again"


def test_what_an_admin_took_back_is_told_by_a_value() -> None:
    paused = Pauses(hosts=frozenset({"gpu"})).waking("gpu", 5.0)
    assert paused.awake == {"gpu": 5.0}
    assert paused.is_awake("gpu", 4.0)
    assert not paused.is_awake("gpu", 5.0)
    assert paused.adding(model=None, host="gpu").awake == {}
    assert paused.asleep("gpu").awake == {}
