"""The GPUs of a machine in a running queue: memory, measuring, sleep, pauses and reports."""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from queueing.core.catalog import Catalog
from queueing.core.errors import OutOfMemory, ProblemKind, Refused, problem
from queueing.core.events import CopyLeft, Event, LoadEnded
from queueing.core.jobs import JobState
from queueing.core.ports import GpuLook
from queueing.core.snapshot import WaitCause
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec, WakeSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.host_availability import HostSleep
from queueing.service import queue_status
from tests.fakes.clock import SetClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.simulation.installation import Installation, ended, image_model, until
from tests.simulation.loop import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Mapping

BIG, COMFY = BackendSpec(name="big", kind="fake"), BackendSpec(name="comfy", kind="fake")
DRAW = BackendSpec(name="draw", kind="fake")
LEFT = HostSpec(name="box/0", machine="box", vram_mb=16000, margin=1.0, backends=(BIG, DRAW))
RIGHT = replace(LEFT, name="box/1", backends=(BIG, COMFY))
QWEN = image_model("qwen", "big", vram_mb=20000)
FLUX = image_model("flux", "comfy", vram_mb=8000)


class Probe:
    """GPUs whose free memory follows what is loaded, unevenly for a model that spans them."""

    def __init__(self) -> None:
        self.free = {"box/0": 16000, "box/1": 16000}

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        return (16000, self.free[host.name]) if host.name in self.free else None


def installation(*models: ModelSpec, **fields: object) -> Installation:
    """Return a machine with two GPUs; the fake servers have their own GPUs, which never fill."""
    catalog = Catalog(models, (LEFT, RIGHT))
    room = FakeGpu(total_mb=64000, budget_mb=64000)
    servers = {name: FakeServer(name, room) for name in catalog.backends}
    given: Mapping[str, object] = {"catalog": catalog, "gpus": {"room": room}, "servers": servers}
    return Installation(**{**given, **fields})  # type: ignore[arg-type]


@in_virtual_time
async def test_a_model_over_both_gpus_runs_and_is_told_on_each() -> None:
    """People would see an empty GPU that is full."""
    made = installation(QWEN, FLUX)
    async with made.queue() as queue:
        job = await made.ask(queue, "qwen", "a")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        hosts = {host.name: host.used_mb for host in queue.status.snapshot().hosts}
        assert hosts == {"box/0": 10000, "box/1": 10000}
        job = await made.ask(queue, "flux", "b")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        hosts = {host.name: host.used_mb for host in queue.status.snapshot().hosts}
        assert hosts == {"box/0": 0, "box/1": 8000}  # 10 and 8 GB do not fit on the right one


@in_virtual_time
async def test_a_size_is_learned_from_the_gpu_that_holds_most_for_its_share() -> None:
    """The fuller GPU would overflow at the next load."""
    probe = Probe()
    made = installation(QWEN, memory=probe)
    server = made.servers["big"]
    async with made.queue() as queue:
        taken = asyncio.get_running_loop().call_later(
            2.0, probe.free.update, {"box/0": 16000 - 9000, "box/1": 16000 - 12000}
        )
        job = await made.ask(queue, "qwen", "a")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        taken.cancel()
        (model,) = queue.status.snapshot().models
        assert model.vram_mb == 24000  # twice what the right GPU holds of it
    assert server.violations == []


@in_virtual_time
async def test_a_machine_is_paused_and_drained_with_all_its_gpus() -> None:
    """A drained machine would load again on its second GPU."""
    made = installation(QWEN, FLUX)
    async with made.queue() as queue:
        job = await made.ask(queue, "qwen", "a")
        await ended(queue, job)
        await queue.admin.drain("box")
        snapshot = queue.status.snapshot()
        assert [host.paused for host in snapshot.hosts] == [True, True]
        assert [host.used_mb for host in snapshot.hosts] == [0, 0]
        left = await queue.admin.resume(host="box")
        assert not left.hosts
        left = await queue.admin.pause(host="box/1")
        assert left.hosts == {"box/1"}
        with pytest.raises(Refused):
            await queue.admin.pause(host="box/2")


def test_a_copy_and_its_server_are_told_with_their_gpus() -> None:
    """The page would draw a model on only one GPU."""
    room = FakeGpu(total_mb=64000, budget_mb=64000)
    catalog = Catalog((QWEN, FLUX), (LEFT, RIGHT))
    backends = {name: FakeBackend(FakeServer(name, room)) for name in catalog.backends}
    fleet = Fleet(catalog, backends, SetClock())
    fleet.copies.ready(QWEN, "big")

    (copy,) = queue_status.copy_statuses(fleet, "qwen")
    assert (copy.hosts, copy.on("box/0"), copy.on("box/1")) == (("box/0", "box/1"), 10000, 10000)
    assert {each.name: each.hosts for each in queue_status.backend_statuses(fleet)} == {
        "big": ("box/0", "box/1"),
        "draw": ("box/0",),
        "comfy": ("box/1",),
    }
    assert catalog.place_of("big") == "box"
    assert catalog.host_names == ("box", "box/0", "box/1")


@in_virtual_time
async def test_models_of_others_on_a_server_over_both_gpus_are_taken_memory_of_both() -> None:
    """A load beside them would fail, or unload what another program had loaded."""
    made = installation(QWEN, FLUX)
    made.servers["big"].others = {"theirs": 20000}
    async with made.queue() as queue:
        waits = await made.ask(queue, "flux", "a")
        await asyncio.sleep(60)
        assert [host.foreign_mb for host in queue.status.snapshot().hosts] == [10000, 10000]
        assert made.servers["comfy"].loads == []
        made.servers["big"].others = {}
        assert (await ended(queue, waits)).state is JobState.COMPLETED
        assert [host.foreign_mb for host in queue.status.snapshot().hosts] == [0, 0]


@in_virtual_time
async def test_models_of_others_count_where_nothing_is_measured() -> None:
    """A measured GPU would seem to hold them twice."""
    probe = Probe()
    probe.free = {"box/0": 6000}
    made = installation(QWEN, memory=probe)
    made.servers["big"].others = {"theirs": 20000}
    async with made.queue() as queue:
        await asyncio.sleep(30)
        assert [host.foreign_mb for host in queue.status.snapshot().hosts] == [10000, 10000]


@in_virtual_time
async def test_a_server_over_both_gpus_that_is_down_is_told_with_its_machine() -> None:
    """People would read that one of its GPUs is offline."""
    made = installation(QWEN)
    made.servers["big"].up = False
    async with made.queue() as queue:
        job = await made.ask(queue, "qwen", "a")
        await asyncio.sleep(30)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert (reason.why, reason.host) == (WaitCause.OFFLINE, "box")


@in_virtual_time
async def test_a_preload_that_finds_no_memory_names_all_its_gpus() -> None:
    """An admin would free memory on the GPU that already has it."""
    made = installation(QWEN)
    made.servers["big"].load_fates = lambda: OutOfMemory("20000 MB needed")
    async with made.queue() as queue:
        with pytest.raises(OutOfMemory) as failed:
            await queue.preloads.preload("qwen", None)
        assert failed.value.problem == problem(ProblemKind.FULL, host="box/0 + box/1")


def test_the_gpus_of_a_machine_sleep_and_wake_together() -> None:
    """Waking one GPU would leave the other asleep in every forecast."""
    wake = WakeSpec(mac="001a2b3c4d5e")
    left, right = replace(LEFT, wake=wake), replace(RIGHT, wake=wake)
    sleep = HostSleep(SetClock())
    sleep.observe(left, [False, False])

    assert sleep.is_asleep(right)
    sleep.woken(right)
    assert not sleep.is_asleep(left)


@dataclass
class GameOnOneGpu:
    """A game that holds memory of one GPU of the machine, or of none."""

    gpu: str = ""

    async def use(self, host: HostSpec, _loaded: frozenset[str]) -> GpuLook | None:
        return GpuLook(others_mb=6000 if host.name == self.gpu else 0)


@pytest.mark.parametrize("gpu", ["box/0", "box/1"])
@in_virtual_time
async def test_a_game_on_one_gpu_gets_it_from_a_model_that_spans_both(gpu: str) -> None:
    """The game would run beside half a model, or the other GPU would rest as well."""
    game = GameOnOneGpu()
    small = image_model("small", "draw", vram_mb=4000)
    made = installation(QWEN, FLUX, small, gpus_watch=game)
    hosts = [replace(each, yields_above_mb=1000) for each in made.catalog.hosts.values()]
    made.catalog = Catalog(made.catalog.models.values(), hosts)
    async with made.queue() as queue:
        await ended(queue, await made.ask(queue, "qwen", "a"))
        game.gpu = gpu
        await until(lambda: made.servers["big"].memory == set(), within_s=60)
        job = await made.ask(queue, "qwen", "b")
        await asyncio.sleep(600)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert (reason.why, reason.host) == (WaitCause.YIELDING, gpu)
        rests = {host.name: host.rest is not None for host in queue.status.snapshot().hosts}
        assert rests == {name: name == gpu for name in ("box/0", "box/1")}
        free = "small" if gpu == "box/1" else "flux"
        other = await made.ask(queue, free, "c")
        assert (await ended(queue, other)).state is JobState.COMPLETED
        game.gpu = ""
        assert (await ended(queue, job)).state is JobState.COMPLETED
    assert made.violations == []


@in_virtual_time
async def test_loads_and_what_leaves_are_told_with_the_gpus_they_lie_on() -> None:
    """A GPU would show loads on others, and none of its own."""
    right = replace(image_model("right", "big", vram_mb=14000), gpus=("1",))
    made = installation(QWEN, right)
    told: list[tuple[str, str, tuple[str, ...]]] = []

    def hear(event: Event) -> None:
        if isinstance(event, LoadEnded | CopyLeft):
            told.append((type(event).__name__, event.model, event.hosts))

    async with made.queue() as queue:
        queue.events.subscribe(hear)
        for model in ("qwen", "right"):
            await ended(queue, await made.ask(queue, model, model))
    both = ("box/0", "box/1")
    assert told == [
        ("LoadEnded", "qwen", both),
        ("CopyLeft", "qwen", both),
        ("LoadEnded", "right", ("box/1",)),
    ]
