"""Loading and unloading models, also when that fails."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from queueing.core.errors import (
    BadModel,
    ModelCrashed,
    OutOfMemory,
    Problem,
    ProblemKind,
    Refused,
    ShortOfMemory,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.jobs import JobState
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.specs import Timeouts
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.servers.backend import FakeProbe
from tests.simulation.installation import (
    FlakyStore,
    Installation,
    ended,
    flux_or_sdxl,
    host,
    image_model,
    one_gpu,
    until,
)
from tests.simulation.loop import in_virtual_time


def one_after_another(errors: Sequence[Exception | None]) -> Callable[[], Exception | None]:
    left = list(errors)
    return lambda: left.pop(0) if left else None


@in_virtual_time
async def test_a_load_waits_until_the_memory_is_really_free() -> None:
    """A load would begin while the last model's memory is still taken, and crash."""
    installation = flux_or_sdxl()
    gpu, server = installation.gpus["gpu"], installation.servers["comfy"]
    installation.memory = FakeProbe(installation.gpus)
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        server.lingers_s = 7.0  # the driver shows freed memory late
        job = await installation.ask(queue, "sdxl", "b")
        await ended(queue, job)
        (unloaded_at, _), *_ = server.unloads
        loaded_at = server.loads[-1][0]
        assert loaded_at - unloaded_at >= 7.0
        assert not gpu.violations


@in_virtual_time
async def test_out_of_memory_empties_the_gpu_and_tries_once_more() -> None:
    """A fragmented GPU would fail loads that would fit an empty one."""
    installation = Installation.of(
        [image_model("flux"), image_model("sdxl"), image_model("tiny", vram_mb=100)],
        [host("gpu", "comfy", "other")],
    )
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "tiny", "a"))
        server.load_fates = one_after_another([OutOfMemory("oom")])
        job = await installation.ask(queue, "flux", "b")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        assert [model for _, model in server.loads] == ["tiny", "flux", "flux"]
        assert "tiny" in {model for _, model in server.unloads}


@in_virtual_time
async def test_a_model_short_of_main_memory_is_told_after_its_tries_and_costs_nobody_a_model() -> (
    None
):
    """A machine without memory would empty its GPU three times for one request."""
    installation = one_gpu(image_model("flux"), image_model("good"))
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "good", "a"))
        server.load_fates = lambda: ShortOfMemory("not enough system memory")
        done = await ended(queue, await installation.ask(queue, "flux", "b"), within_s=300)
        told = Problem.read(done.error or "")
        assert (told.what, told.unloadable) == (ProblemKind.MEMORY, "flux")


@pytest.mark.parametrize(
    ("error", "tries", "what"),
    [
        (ModelCrashed("its process ended with exit code 1"), 1, ProblemKind.CRASHED),
        (UnknownFailure("status 500"), 3, ProblemKind.FAILED),
        (UnreadableAnswer("<html>"), 3, ProblemKind.UNREADABLE),
    ],
)
@in_virtual_time
async def test_a_load_that_fails_for_no_known_reason_costs_nobody_a_model(
    error: Exception, tries: int, what: ProblemKind, caplog: pytest.LogCaptureFixture
) -> None:
    """One half-downloaded file would empty a GPU at each try, and nobody would learn why."""
    installation = one_gpu(image_model("flux"), image_model("good"))
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "good", "a"))
        loads = len(server.loads)
        server.load_fates = lambda: error
        job = await installation.ask(queue, "flux", "b")
        done = await ended(queue, job, within_s=300)
        (said,) = (
            line for line in caplog.messages if line.startswith(f"jobs {job.id} of flux fail")
        )
        assert said.endswith(f"{type(error).__name__}: {error}")
        told = Problem.read(done.error or "")
        assert (done.state, told.what, told.unloadable) == (JobState.FAILED, what, "flux")
        assert len(server.loads) - loads == tries
        assert not [model for _, model in server.unloads if model == "good"]
        assert queue.status.snapshot().backends[0].up


@in_virtual_time
async def test_a_load_is_not_tried_again_at_the_cost_of_others() -> None:
    """A model that does not load would unload the others again with each try."""
    installation = one_gpu(image_model("flux", vram_mb=20000), image_model("good", vram_mb=8000))
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "good", "a"))
        server.load_fates = one_after_another([UnknownFailure("status 500")])
        bad = await installation.ask(queue, "flux", "b")
        assert (await ended(queue, bad, within_s=300)).state is JobState.FAILED
        assert [model for _, model in server.unloads].count("good") == 1
        assert len([model for _, model in server.loads if model == "flux"]) == 1


@in_virtual_time
async def test_what_came_while_a_failed_load_paused_need_not_leave_for_it() -> None:
    """The second try would cost what the first did not."""
    installation = one_gpu(image_model("flux", vram_mb=20000), image_model("good", vram_mb=8000))
    server = installation.servers["comfy"]
    server.load_fates = one_after_another([UnknownFailure("status 500")])
    async with installation.queue() as queue:
        bad = await installation.ask(queue, "flux", "b")
        await until(lambda: server.loads)
        await asyncio.sleep(11)
        await ended(queue, await installation.ask(queue, "good", "a"))
        assert (await ended(queue, bad, within_s=300)).state is JobState.FAILED
        assert [model for _, model in server.loads] == ["flux", "good"]
        assert not [model for _, model in server.unloads if model == "good"]


@in_virtual_time
async def test_a_load_that_keeps_failing_fails_its_jobs_after_growing_pauses() -> None:
    """A broken model would crash its server in a tight loop, or its jobs wait forever."""
    installation = flux_or_sdxl()
    server = installation.servers["comfy"]
    server.load_fates = lambda: Unavailable("it crashed") if server.broken else None
    server.broken = True
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        done = await ended(queue, job)
        assert done.state is JobState.FAILED
        assert done.error is not None
        assert Problem.read(done.error).unloadable == "flux"
        moments = [moment for moment, _ in server.loads]
        pauses = [after - before for before, after in pairwise(moments)]
        assert len(moments) == 3
        assert pauses == sorted(pauses)
        assert pauses[0] >= server.load_s + 5.0
        assert not server.memory
        server.broken = False
        again = await installation.ask(queue, "flux", "b")
        assert (await ended(queue, again)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_job_is_told_how_often_its_own_load_was_tried() -> None:
    """Each later request would report one more try, including tries for other people's jobs."""
    installation = flux_or_sdxl()
    server = installation.servers["comfy"]
    server.load_fates = lambda: Unavailable("it crashed")
    told = []
    async with installation.queue() as queue:
        for prompt in ("a", "b", "c"):
            job = await installation.ask(queue, "flux", prompt)
            before = len(server.loads)
            done = await ended(queue, job)
            tried = Problem.read(done.error or "").attempts
            told.append(tried)
            assert tried == len(server.loads) - before
    assert told == [3, 1, 1]


@in_virtual_time
async def test_a_load_that_never_ends_is_given_up_and_leaves_no_ghost() -> None:
    """Memory would stay occupied by an unknown copy."""
    installation = one_gpu(image_model("flux", timeouts=Timeouts(load_s=50.0)))
    server = installation.servers["comfy"]
    server.load_fates = one_after_another([TimeoutError()])
    server.stubborn = True
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(51)
        assert not server.loading
        assert not installation.gpus["gpu"].held
        (model,) = queue.status.snapshot().models
        assert model.copies == ()
        assert model.reason is not None
        assert model.reason.why is WaitCause.LOAD_PAUSE
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_backend_that_cannot_serve_a_model_is_not_asked_again() -> None:
    """One wrong setting would keep a model from the host where it would work."""
    installation = Installation.of(
        [image_model("flux", "comfy-1", "comfy-2")],
        [host("gpu-1", "comfy-1"), host("gpu-2", "comfy-2")],
    )
    installation.servers["comfy-1"].load_fates = lambda: BadModel("models.flux.workflow: no file")
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        done = await ended(queue, job)
        assert (done.state, done.backend) == (JobState.COMPLETED, "comfy-2")
        assert len(installation.servers["comfy-1"].loads) == 1


@in_virtual_time
async def test_a_model_that_works_nowhere_is_refused_from_then_on() -> None:
    """People would wait for a model whose configuration can never work."""
    installation = flux_or_sdxl()
    installation.servers["comfy"].load_fates = lambda: BadModel("models.flux.workflow: no file")
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        assert (await ended(queue, job, within_s=60)).state is JobState.FAILED
        with pytest.raises(Refused):
            await installation.ask(queue, "flux", "b")


@in_virtual_time
async def test_a_model_of_unknown_size_has_a_gpu_alone_until_it_was_measured() -> None:
    """`vram_mb: auto` would overfill the GPU, or keep it empty forever."""
    installation = one_gpu(image_model("flux", vram_mb=None), image_model("sdxl"))
    installation.memory = FakeProbe(installation.gpus)
    server = installation.servers["comfy"]
    server.sizes["flux"] = 9000
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "sdxl", "a"))
        await ended(queue, await installation.ask(queue, "flux", "b"))
        assert server.memory == {"flux"}
        await ended(queue, await installation.ask(queue, "sdxl", "c"))
        assert server.memory == {"flux", "sdxl"}


@pytest.mark.parametrize("kept", ["by its server", "by an admin"])
@pytest.mark.parametrize("known", [True, False])
@in_virtual_time
async def test_a_model_of_unknown_size_is_measured_beside_what_never_leaves(
    kept: str, known: bool
) -> None:
    """Without any size in the configuration, a llama-server would keep every other model out."""
    models = [
        image_model("flux", vram_mb=None),
        image_model("llama", "old", vram_mb=6000 if known else None),
    ]
    installation = Installation.of(models, [host("gpu", "comfy", "old")])
    installation.memory = FakeProbe(installation.gpus)
    installation.servers["comfy"].sizes["flux"] = 9000
    installation.servers["old"].sizes["llama"] = 6000
    if kept == "by its server":
        installation.keepers = frozenset({"old"})
    async with installation.queue() as queue:
        if kept == "by an admin":
            await queue.preloads.preload("llama", None)
        else:
            first = await installation.ask(queue, "llama", "a")
            await ended(queue, first)
        job = await installation.ask(queue, "flux", "b")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        sizes = {model.name: model.vram_mb for model in queue.status.snapshot().models}
        assert sizes["flux"] == 9000
        assert installation.servers["old"].memory == {"llama"}


@in_virtual_time
async def test_a_load_waits_for_a_database_that_cannot_note_it() -> None:
    """After a crash during a load, no restart would know that memory is occupied."""
    installation = flux_or_sdxl()
    store = FlakyStore(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        await asyncio.sleep(1)
        store.failing = {"note_residency"}
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(30)
        assert not installation.servers["comfy"].loads
        store.failing = set()
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_what_could_not_work_is_tried_again_after_a_while() -> None:
    """After repairing a server's files, the bot would have to be restarted as well."""
    installation = flux_or_sdxl()
    server = installation.servers["comfy"]
    server.load_fates = one_after_another([BadModel("models.flux.workflow: no file")])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await ended(queue, job)
        await asyncio.sleep(700)
        again = await installation.ask(queue, "flux", "b")
        assert (await ended(queue, again)).state is JobState.COMPLETED


# ------------------------------------------------------------ preload and unload


@in_virtual_time
async def test_a_preloaded_model_stays_and_the_caller_learns_where_it_is() -> None:
    """An admin's preload would be unloaded by the next job of another model."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        assert await queue.preloads.preload("flux", None) == "comfy"
        job = await installation.ask(queue, "sdxl", "a")
        await asyncio.sleep(300)
        flux, sdxl = queue.status.snapshot().models
        assert [copy.pinned for copy in flux.copies] == [True]
        assert sdxl.reason is not None
        assert sdxl.reason.why is WaitCause.PINNED
        assert await queue.preloads.preload("flux", "gpu") == "comfy"
        assert list(await queue.preloads.unload("flux", None)) == ["comfy"]
        assert (await ended(queue, job)).state is JobState.COMPLETED


@pytest.mark.parametrize("vram_mb", [16000, None])
@in_virtual_time
async def test_what_a_server_keeps_for_ever_is_named_and_nothing_is_promised(
    vram_mb: int | None,
) -> None:
    """People would read of a running job that will end, or loads fail beside what fills the GPU."""
    models = [
        image_model(name, to, vram_mb=vram_mb)
        for name, to in (("flux", "comfy"), ("llama", "vllm"))
    ]
    installation = Installation.of(models, [host("gpu", "comfy", "vllm")])
    installation.keepers = frozenset({"vllm"})
    async with installation.queue() as queue:
        first = await installation.ask(queue, "llama", "a")
        await ended(queue, first)
        job = await installation.ask(queue, "flux", "b")
        await asyncio.sleep(1000)
        standing = (await queue.status.standings([job]))[job.id]
        assert standing.reason == Reason(
            why=WaitCause.KEPT, model="flux", host="gpu", other="llama"
        )
        assert standing.ends is None
        installation.servers["vllm"].evict("llama")  # a person ended it by hand
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_unloading_a_busy_model_waits_for_its_job_and_starts_no_other() -> None:
    """`/unload` would cut a person's image short, or never succeed for a busy model."""
    installation = flux_or_sdxl()
    server = installation.servers["comfy"]
    server.service_s = 50.0
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: server.running)
        assert list(await queue.preloads.unload("flux", None)) == ["comfy"]
        (copy,) = queue.status.snapshot().models[0].copies
        assert copy.residency is Residency.UNLOADING
        assert server.memory == {"flux"}
        assert (await ended(queue, job)).state is JobState.COMPLETED
        await asyncio.sleep(1)
        assert server.memory == set()
        assert not installation.violations


@in_virtual_time
async def test_an_unload_that_frees_everything_spares_running_neighbours() -> None:
    """Freeing one ComfyUI model would kill another one's running image."""
    installation = one_gpu(image_model("flux"), image_model("sdxl"))
    installation.unloads_together = True
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        server.service_s = 50.0
        job = await installation.ask(queue, "sdxl", "b")
        await until(lambda: server.running)
        await queue.preloads.unload("flux", None)
        assert (await ended(queue, job)).state is JobState.COMPLETED
        assert not installation.violations
        await asyncio.sleep(1)
        assert server.memory == set()


@in_virtual_time
async def test_a_model_that_loads_nothing_evicts_nothing_and_is_always_there() -> None:
    """Each image that is enlarged would cost two loads of the model that drew it."""
    gpu = host("gpu", "comfy", serial=True)
    gpu = replace(gpu, backends=tuple(replace(b, max_models=1) for b in gpu.backends))
    models = [image_model("flux", vram_mb=16000), image_model("lens", vram_mb=16000)]
    installation = Installation.of([*models, image_model("sdxl", vram_mb=16000)], [gpu])
    installation.unloads_together = True
    server = installation.servers["comfy"]
    server.weightless = {"lens"}
    async with installation.queue() as queue:
        for model in ("flux", "lens", "flux", "lens", "flux", "sdxl", "lens", "sdxl"):
            job = await installation.ask(queue, model, model)
            assert (await ended(queue, job, within_s=60)).state is JobState.COMPLETED
        (lens,) = [m for m in queue.status.snapshot().models if m.name == "lens"]
        assert lens.vram_mb == 0
    assert [model for _, model in server.loads] == ["flux", "sdxl"]
    assert [model for _, model in server.unloads] == ["flux"]
    assert not installation.violations
