"""Idle copies leave when the operator wants it: the rule, and what a queue does with it."""

import asyncio
from dataclasses import replace

import pytest

from queueing.core.catalog import Catalog
from queueing.core.snapshot import BackendView, Evict, EvictionCause, Plan
from queueing.core.specs import IDLE_UNLOAD_S
from queueing.planning.planner import plan
from tests.fakes.servers.backend import FakeServer
from tests.queueing.planning.worlds import GB, NOW, copy, jobs, model, queue, world
from tests.simulation.installation import Installation, ended, host, image_model, one_gpu, until
from tests.simulation.loop import in_virtual_time

COMFY = BackendView(name="b1", host="h1", unloads_together=True)


def leaving(answer: Plan) -> list[str]:
    return [evict.model for evict in answer.evictions if evict.why is EvictionCause.IDLE]


# ---------------------------------------------------------------- the rule


def test_a_copy_leaves_once_it_was_idle_for_long_enough() -> None:
    """A GPU stayed full all night after one image in the evening."""
    flux = copy("flux", idle_since=NOW - 600, idle_unload_s=600)
    assert leaving(plan(world(model("flux"), copies=(flux,)))) == ["flux"]
    soon = plan(world(model("flux"), copies=(flux,), now=NOW - 5))
    assert leaving(soon) == []
    assert soon.look_at == NOW


def test_a_copy_that_will_be_missed_soon_stays_longer_and_not_for_ever() -> None:
    """Loading takes 60 s: at one request in 8 minutes, every eighth would wait for a load."""
    often = model("flux", load_s=60.0, rate_per_s=1 / 480)
    seldom = model("flux", load_s=60.0, rate_per_s=1 / 720)
    flux = copy("flux", idle_since=NOW - 600, idle_unload_s=600)
    assert leaving(plan(world(seldom, copies=(flux,)))) == ["flux"]
    waits = plan(world(often, copies=(flux,)))
    assert leaving(waits) == []
    assert waits.look_at == NOW + 600
    assert leaving(plan(world(often, copies=(flux,), now=NOW + 600))) == ["flux"]


def test_what_is_pinned_or_runs_or_takes_no_memory_or_may_idle_stays() -> None:
    """A model that nobody wanted to unload would be loaded again and again."""
    for stays in (
        copy("flux", idle_unload_s=600, pinned=True),
        copy("flux", idle_unload_s=600, running=1),
        copy("flux", idle_unload_s=600, vram_mb=0),
        copy("flux"),
    ):
        assert plan(world(model("flux"), copies=(stays,))).evictions == (), stays


def test_a_copy_that_jobs_wait_for_stays() -> None:
    """It would be unloaded before the job that it is about to serve."""
    paused = model("flux", queue(jobs("flux", 5.0)), on=("b1",))
    busy = BackendView(name="b1", host="h1", serial=True, max_models=2)
    copies = (copy("flux", idle_unload_s=600), copy("sdxl", running=1, vram_mb=6 * GB))
    answer = plan(world(paused, model("sdxl"), copies=copies, backends=(busy,)))
    assert answer.evictions == ()


def test_a_server_that_frees_all_at_once_waits_for_its_last_idle_copy() -> None:
    """ComfyUI's `/free` drops every model, also the one just used."""
    old = copy("flux", idle_unload_s=600, vram_mb=8 * GB)
    young = copy("sdxl", idle_since=NOW - 10, idle_unload_s=600, vram_mb=8 * GB)
    both = (model("flux", vram_mb=8 * GB), model("sdxl", vram_mb=8 * GB))
    assert plan(world(*both, copies=(old, young), backends=(COMFY,))).evictions == ()
    answer = plan(world(*both, copies=(old, young), backends=(COMFY,), now=NOW + 600))
    assert set(answer.evictions) == {
        Evict(model="flux", backend="b1"),
        Evict(model="sdxl", backend="b1"),
    }


def test_the_nearest_setting_counts_and_a_gpu_of_this_machine_is_given_back() -> None:
    def after_s(model_s: float | None, server_s: float | None, host_s: float | None) -> float:
        gpu = host("gpu", "comfy")
        server = replace(gpu.backends[0], idle_unload_s=server_s)
        gpu = replace(gpu, backends=(server,), idle_unload_s=host_s)
        spec = replace(image_model("flux"), idle_unload_s=model_s)
        return Catalog([spec], [gpu]).idle_unload_s("flux", "comfy")

    assert after_s(1.0, 2.0, 3.0) == 1.0
    assert after_s(None, 2.0, 3.0) == 2.0
    assert after_s(None, None, 3.0) == 3.0
    assert after_s(None, None, None) == float("inf")
    local = Catalog([image_model("flux")], [replace(host("gpu", "comfy"), gpu="0")])
    assert local.idle_unload_s("flux", "comfy") == IDLE_UNLOAD_S


# ---------------------------------------------------------------- a queue


def installation(**fields: float) -> Installation:
    spec = replace(image_model("flux"), **{"idle_unload_s": 600.0, **fields})  # type: ignore[arg-type]
    return one_gpu(spec)


def memory(world: Installation) -> FakeServer:
    return world.servers["comfy"]


@in_virtual_time
async def test_a_queue_frees_the_memory_of_a_model_not_used_and_loads_it_for_the_next_job() -> None:
    there = installation()
    async with there.queue() as queue:
        first = await there.ask(queue, "flux", "a")
        await ended(queue, first)
        await asyncio.sleep(590)
        assert memory(there).memory == {"flux"}
        await asyncio.sleep(20)
        assert memory(there).memory == set()
        again = await there.ask(queue, "flux", "b")
        await ended(queue, again)
    assert len(memory(there).loads) == 2
    assert there.violations == []


@in_virtual_time
async def test_each_job_begins_the_time_again() -> None:
    there = installation()
    async with there.queue() as queue:
        for name in "abc":
            job = await there.ask(queue, "flux", name)
            await ended(queue, job)
            await asyncio.sleep(500)
        assert len(memory(there).loads) == 1


@in_virtual_time
async def test_a_copy_found_after_a_restart_gets_its_whole_time() -> None:
    """It would leave at once, as no job of this run has used it."""
    there = installation()
    store = "sqlite://"
    assert there.url == store
    memory(there).begin_load("flux", 8000)
    await asyncio.sleep(20)
    async with there.queue():
        await asyncio.sleep(595)
        assert memory(there).memory == {"flux"}
        await asyncio.sleep(15)
        assert memory(there).memory == set()


# ---------------------------------------------------------------- what servers do by themselves


@pytest.mark.parametrize("pinned", [False, True])
@in_virtual_time
async def test_a_model_its_server_has_dropped_is_not_loaded_without_a_job(
    pinned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A pinned model would be loaded again each time Ollama's or llama-swap's own timer ends."""
    caplog.set_level("INFO")
    there = installation(idle_unload_s=float("inf"))
    async with there.queue() as queue:
        if pinned:
            await queue.preloads.preload("flux", None)
        else:
            job = await there.ask(queue, "flux", "a")
            await ended(queue, job)
        await asyncio.sleep(15)
        memory(there).evict("flux")
        await asyncio.sleep(120)
        assert len(memory(there).loads) == 1
        assert queue.status.snapshot().models[0].copies == ()
        assert "flux: unloaded by its server comfy" in caplog.messages
        job = await there.ask(queue, "flux", "b")
        await ended(queue, job)
        (there_again,) = queue.status.snapshot().models[0].copies
        assert there_again.pinned is pinned


@in_virtual_time
async def test_a_pinned_model_lost_in_a_restart_of_its_server_returns_by_itself() -> None:
    there = installation()
    async with there.queue() as queue:
        await queue.preloads.preload("flux", None)
        await asyncio.sleep(15)
        memory(there).die(30.0)
        await until(lambda: len(memory(there).loads) == 2, within_s=120)
