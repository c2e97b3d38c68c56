"""A running queue continues with other models, hosts and servers, in virtual time."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.catalog import Catalog
from queueing.core.errors import Refused, UnknownModel
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.snapshot import Rules, WaitCause
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec
from queueing.service.job_queue import JobQueue
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.samples import examples
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time

FLUX, SDXL = image_model("flux", "one", vram_mb=16000), image_model("sdxl", "one", vram_mb=6000)
LONG_S = 300.0


def installation(*models: ModelSpec, hosts: Sequence[HostSpec] = ()) -> Installation:
    return Installation.of(models or (FLUX, SDXL), hosts or (host("gpu", "one"),))


def change(
    old: Installation,
    queue: JobQueue,
    models: Iterable[ModelSpec],
    hosts: Iterable[HostSpec],
    *,
    moved: Sequence[str] = (),
) -> dict[str, FakeBackend]:
    """Give a queue another catalog, and new servers for what is new or `moved`."""
    catalog = Catalog(models, hosts)
    made: dict[str, FakeBackend] = {}
    for name, spec in catalog.backends.items():
        on = catalog.host_of[name]
        gpu = old.gpus.setdefault(
            on, FakeGpu(total_mb=catalog.hosts[on].vram_mb, budget_mb=catalog.hosts[on].usable_mb)
        )
        if name not in old.servers or name in moved:
            old.servers[name] = FakeServer(name, gpu)
        if queue.models.offer.catalog.backends.get(name) != spec:
            made[name] = FakeBackend(old.servers[name])
    old.catalog = catalog
    queue.reconfiguration.apply(catalog, made, Rules())
    return made


async def submit(queue: JobQueue, old: Installation, model: str) -> Job:
    return await old.ask(queue, model, model)


async def running(queue: JobQueue, job: Job) -> None:
    async def runs() -> bool:
        now = await queue.jobs.get(job.id)
        return now is not None and now.state is JobState.PROCESSING

    async with asyncio.timeout(LONG_S):
        while not await runs():  # noqa: ASYNC110 - virtual time: polling costs nothing
            await asyncio.sleep(0.25)


@in_virtual_time
async def test_a_job_runs_to_its_end_on_a_server_that_is_gone() -> None:
    """An hour of work would be lost because of an edit elsewhere in the file."""
    old = installation(FLUX, hosts=[host("gpu", "one"), host("attic", "two")])
    async with old.queue() as queue:
        both = replace(FLUX, backends=("two", "one"))
        change(old, queue, [both], old.catalog.hosts.values())
        first = await submit(queue, old, "flux")
        await running(queue, first)
        change(old, queue, [replace(both, backends=("one",))], [host("gpu", "one")])
        second = await submit(queue, old, "flux")
        done = await ended(queue, first)
        assert (done.state, done.backend) == (JobState.COMPLETED, "two")
        assert old.history(first.id) == [None, JobEvent.START, JobEvent.COMPLETE]
        assert (await ended(queue, second)).backend == "one"
        await until(lambda: "two" not in queue.backends)
        assert [each.name for each in queue.status.snapshot().hosts] == ["gpu"]
        assert not old.gpus["attic"].held
    assert not old.violations


@in_virtual_time
async def test_a_model_that_two_servers_offer_is_served_by_both_and_by_the_one_that_stays() -> None:
    """The second GPU would be idle while people wait, or the model leave with the other server."""
    offering = [
        replace(each, backends=tuple(replace(b, discover=True) for b in each.backends))
        for each in (host("gpu", "one"), host("attic", "two"))
    ]
    old = installation(SDXL, hosts=offering)
    async with old.queue() as queue:
        for backend in ("one", "two"):
            queue.models.extend([replace(FLUX, backends=(backend,))])
        jobs = [await submit(queue, old, "flux") for _ in range(12)]
        done = [await ended(queue, job) for job in jobs]
        assert {each.backend for each in done} == {"one", "two"}
        change(old, queue, [SDXL], offering[:1])
        assert queue.models.offer.catalog.models["flux"].backends == ("one",)
        assert (await ended(queue, await submit(queue, old, "flux"))).backend == "one"
    assert not old.violations


async def place(queue: JobQueue, job: Job) -> int | None:
    return (await queue.status.standings([job]))[job.id].position


def reorder(old: Installation, queue: JobQueue, order: str) -> None:
    rules = Rules(order="fair") if order == "fair" else Rules()
    queue.reconfiguration.apply(old.catalog, {}, rules)


@in_virtual_time
async def test_the_order_of_the_lines_changes_while_people_wait() -> None:
    """An operator would have to restart the bot because one person's twenty images come first."""
    old = installation(FLUX)
    async with old.queue() as queue:

        async def asks(owner: str) -> Job:
            return await old.ask(queue, "flux", "cat", owner=owner)

        flood = [await asks("web:flood") for _ in range(8)]
        await ended(queue, flood[0])
        await running(queue, flood[1])
        light = await asks("web:light")
        assert await place(queue, light) == 7
        reorder(old, queue, "fair")
        await asyncio.sleep(0.1)
        assert await place(queue, light) == 1
        reorder(old, queue, "fifo")
        await asyncio.sleep(0.1)
        assert await place(queue, light) == 7
        reorder(old, queue, "fair")
        await ended(queue, light)
        later = [await queue.jobs.get(job.id) for job in flood[3:]]
        assert all(job is not None and not job.state.final for job in later)
    assert not old.violations


@in_virtual_time
async def test_jobs_of_a_model_that_is_gone_wait_with_a_true_reason_and_go_on_when_it_is_back() -> (
    None
):
    """Requests would vanish with a line of the file, or people would not know why they wait."""
    old = installation()
    async with old.queue() as queue:
        first, second = await submit(queue, old, "flux"), await submit(queue, old, "flux")
        await running(queue, first)
        change(old, queue, [SDXL], [host("gpu", "one")])
        with pytest.raises(UnknownModel):
            await submit(queue, old, "flux")
        assert (await ended(queue, first)).state is JobState.COMPLETED
        standing = (await queue.status.standings([second]))[second.id]
        assert standing.reason is not None
        assert standing.reason.why is WaitCause.OFFLINE
        await until(lambda: not old.gpus["gpu"].held)
        assert [each.name for each in queue.status.snapshot().models] == ["sdxl"]
        change(old, queue, [FLUX, SDXL], [host("gpu", "one")])
        assert (await ended(queue, second)).state is JobState.COMPLETED
    assert not old.violations


@in_virtual_time
async def test_a_model_with_other_options_is_loaded_again() -> None:
    """The old context length or checkpoint would stay until the model happens to be unloaded."""
    old = installation(FLUX)
    async with old.queue() as queue:
        await ended(queue, await submit(queue, old, "flux"))
        other = replace(FLUX, options={"steps": 4})
        change(old, queue, [other], [host("gpu", "one")])
        await ended(queue, await submit(queue, old, "flux"))
        change(old, queue, [replace(other, load_s=3.0)], [host("gpu", "one")])
        await ended(queue, await submit(queue, old, "flux"))
    assert len(old.servers["one"].loads) == 2
    assert not old.violations


@in_virtual_time
async def test_a_server_at_another_address_takes_over_while_the_old_one_ends_its_job() -> None:
    """A job would be cut off, or the next one sent to the old address."""
    old = installation(FLUX)
    async with old.queue() as queue:
        before = queue.backends["one"]
        first = await submit(queue, old, "flux")
        await running(queue, first)
        moved = BackendSpec(name="one", kind="fake", url="http://elsewhere")
        gpu = replace(host("gpu", "one"), backends=(moved,))
        change(old, queue, [FLUX], [gpu], moved=["one"])
        second = await submit(queue, old, "flux")
        assert (await ended(queue, first)).state is JobState.COMPLETED
        assert (await ended(queue, second)).state is JobState.COMPLETED
        assert isinstance(before, FakeBackend)
        await until(lambda: before.closed)
    assert old.servers["one"].loads


@in_virtual_time
async def test_a_smaller_gpu_is_kept_to() -> None:
    """The next load would fill memory that an operator has just given to something else."""
    old = installation(FLUX, SDXL)
    async with old.queue() as queue:
        for name in ("flux", "sdxl"):
            await ended(queue, await submit(queue, old, name))
        assert old.gpus["gpu"].used_mb == 22000
        change(old, queue, [FLUX, SDXL], [host("gpu", "one", vram_mb=17000)])
        await until(lambda: old.gpus["gpu"].used_mb <= 17000)
    assert not old.violations


# ------------------------------------------------------------ any change while anything goes on

NAMES = ("a", "b", "c")
SERVERS = ("one", "two", "three")


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[tuple[ModelSpec, ...], tuple[HostSpec, ...]]:
    used = draw(st.lists(st.sampled_from(SERVERS), min_size=1, unique=True))
    split = draw(st.integers(0, len(used)))
    hosts = tuple(
        host(name, *servers)
        for name, servers in (("gpu", used[:split]), ("attic", used[split:]))
        if servers
    )
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    models = tuple(
        image_model(
            name,
            *draw(st.lists(st.sampled_from(used), min_size=1, unique=True)),
            vram_mb=draw(st.sampled_from((4000, 9000, 16000))),
            options={"v": draw(st.integers(0, 1))},
        )
        for name in names
    )
    return models, hosts


@examples(25, quick=5)
@given(
    changes=st.lists(st.tuples(catalogs(), st.floats(0.0, 30.0)), min_size=2, max_size=5),
    asked=st.lists(st.sampled_from(NAMES), min_size=1, max_size=8),
)
@in_virtual_time
async def test_whatever_changed_meanwhile_the_last_configuration_is_all_there_is(
    changes: Sequence[tuple[tuple[tuple[ModelSpec, ...], tuple[HostSpec, ...]], float]],
    asked: Sequence[str],
) -> None:
    """A server, model or copy of an earlier file would live on, or a job be lost."""
    (models, hosts), _ = changes[0]
    old = installation(*models, hosts=hosts)
    jobs: list[Job] = []
    async with old.queue() as queue:
        for (models, hosts), pause_s in changes:
            change(old, queue, models, hosts)
            for name in asked:
                with suppress(Refused):
                    jobs.append(await submit(queue, old, name))
            await asyncio.sleep(pause_s)
        offered = {model.name for model in models}
        for job in jobs:
            if job.model in offered:
                assert (await ended(queue, job)).state is JobState.COMPLETED
        servers = {backend.name for each in hosts for backend in each.backends}
        await until(lambda: queue.backends.keys() == servers)
        snapshot = queue.status.snapshot()
        assert [each.name for each in snapshot.models] == [model.name for model in models]
        assert {each.name for each in snapshot.hosts} == {each.name for each in hosts}
        assert {each.name for each in snapshot.backends} == servers
        at = {model.name: model.backends for model in models}
        gpus = old.gpus.values()
        await until(
            lambda: all(server in at.get(model, ()) for gpu in gpus for server, model in gpu.held)
        )
    assert not [each for each in old.violations if not each.startswith("over budget")]


@in_virtual_time
async def test_a_server_that_runs_one_at_a_time_is_taken_out_while_it_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every step of the scheduler would fail until its job has ended."""
    old = installation(FLUX, hosts=[host("gpu", "one", serial=True)])
    old.servers["one"].service_s = LONG_S / 2
    async with old.queue() as queue:
        first, second = await submit(queue, old, "flux"), await submit(queue, old, "flux")
        await running(queue, first)
        await asyncio.sleep(1)
        other = image_model("flux", "two", vram_mb=16000)
        change(old, queue, [other], [host("attic", "two", serial=True)])
        done = await ended(queue, second)
        assert (done.state, done.backend) == (JobState.COMPLETED, "two")
        assert (await ended(queue, first)).state is JobState.COMPLETED
    assert not old.violations
    assert "failed" not in caplog.text
    assert "bug" not in caplog.text
