"""Second copies of a model on one host: when one is loaded, and how it gives way."""

import random
from dataclasses import replace

import pytest

from queueing.core.snapshot import (
    BackendView,
    Copy,
    Evict,
    Load,
    ModelView,
    Residency,
    Rules,
    Snapshot,
    WaitCause,
)
from queueing.forecast.simulation import Simulation
from queueing.planning.planner import plan
from tests.queueing.forecast.test_simulation import NAMES, Checked, drawn, in_lanes, ten_seconds
from tests.queueing.planning.worlds import GB, NOW, copy, host, jobs, model, queue, world
from tests.samples import seeds

TWO_SERVERS = ("b1", "b2")
ONE_GPU = tuple(BackendView(name=name, host="h1", serial=True) for name in (*TWO_SERVERS, "b3"))


def hot(waiting: int, *, copies: int = 2, vram_mb: int = 8 * GB) -> ModelView:
    """Return a model with a queue, on two servers of the GPU."""
    ages = [float(age) for age in range(waiting, 0, -1)]
    waits = (queue(jobs("hot", *ages)),) if waiting else ()
    view = model("hot", *waits, on=TWO_SERVERS, vram_mb=vram_mb)
    return replace(view, copies=copies)


def held(backend: str, *, ends_in_s: float | None = 5.0, pinned: bool = False) -> Copy:
    """Return a copy of it that runs a job, or is idle."""
    ends_at = () if ends_in_s is None else (NOW + ends_in_s,)
    return copy(
        "hot", backend, running=len(ends_at), vram_mb=8 * GB, ends_at=ends_at, pinned=pinned
    )


def gpu(*models: ModelView, copies: tuple[Copy, ...]) -> Snapshot:
    """Return a GPU of 20 GB with three servers."""
    return world(*models, copies=copies, backends=ONE_GPU)


def test_a_long_line_gets_a_second_copy_on_the_same_host() -> None:
    """A server beside it and half of the GPU would be unused while a hundred people wait."""
    assert plan(gpu(hot(20), copies=(held("b1"),))).loads == (Load(model="hot", backend="b2"),)


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_short_line_gets_none(waiting: int) -> None:
    """A short queue is served before a second copy would be loaded."""
    assert plan(gpu(hot(waiting), copies=(held("b1"),))).loads == ()


def test_a_host_holds_as_many_as_the_operator_allows() -> None:
    """Two images drawn at once on one GPU take longer each: most GPUs gain nothing by it."""
    assert plan(gpu(hot(50, copies=1), copies=(held("b1"),))).loads == ()
    three = replace(hot(50, vram_mb=4 * GB), backends=("b1", "b2", "b3"))
    assert plan(gpu(three, copies=(held("b1"), held("b2")))).loads == ()
    allowed = replace(three, copies=3)
    assert plan(gpu(allowed, copies=(held("b1"), held("b2")))).loads == (
        Load(model="hot", backend="b3"),
    )


def test_it_takes_free_memory_only() -> None:
    """The next request for another model would wait for a load that another queue caused."""
    beside = copy("calm", "b3", vram_mb=8 * GB)
    calm = model("calm", on=("b3",), vram_mb=8 * GB)
    assert plan(gpu(hot(200), calm, copies=(held("b1"), beside))).loads == ()


def test_it_is_not_loaded_while_another_model_waits_for_that_host() -> None:
    """It would occupy the loader, and the memory that others wait for."""
    large = model("large", queue(jobs("large", 1)), on=("b3",), vram_mb=14 * GB)
    assert plan(gpu(hot(200), large, copies=(held("b1"),))).loads == ()


def wanting(*copies: Copy, left: int = 8) -> Snapshot:
    """Return a GPU on which another model waits for the memory of the second copy."""
    other = model("other", queue(jobs("other", 2)), on=("b3",), vram_mb=9 * GB)
    return gpu(hot(left), other, copies=copies)


def test_an_idle_second_copy_leaves_at_once_for_a_model_that_waits() -> None:
    """The waiting model would have had room without the second copy."""
    answer = plan(wanting(held("b1"), held("b2", ends_in_s=None)))
    evict = (Evict(model="hot", backend="b2"),)
    assert answer.loads == (Load(model="other", backend="b3", evict=evict),)
    assert answer.starts == ()  # nothing begins on what leaves


def test_a_busy_second_copy_ends_its_job_and_starts_no_other() -> None:
    """The waiting model would wait for its age limit, two minutes and more."""
    both = wanting(held("b1", ends_in_s=9.0), held("b2", ends_in_s=4.0))
    reason = plan(both).reasons["other"]
    assert (reason.why, reason.other) == (WaitCause.ROOM_BUSY, "hot")
    ended = plan(wanting(held("b1", ends_in_s=9.0), held("b2", ends_in_s=None)))
    assert [load.model for load in ended.loads] == ["other"]


def test_the_copy_that_ends_first_is_the_one_that_leaves() -> None:
    """The copy that was loaded first might run a video."""
    answer = plan(wanting(held("b1", ends_in_s=None), held("b2", ends_in_s=600.0)))
    assert answer.loads[0].evict == (Evict(model="hot", backend="b1"),)


def test_one_that_is_ready_stays_rather_than_one_that_loads() -> None:
    """Its queue would have no copy at all for the rest of a load."""
    loading = copy("hot", "b2", residency=Residency.LOADING, vram_mb=8 * GB, ready_at=NOW + 20)
    answer = plan(wanting(held("b1", ends_in_s=None), loading))
    assert [start.backend for start in answer.starts] == ["b1"]


def test_a_pinned_copy_is_not_the_one_that_leaves() -> None:
    """A copy that an admin wants to keep would be unloaded."""
    answer = plan(
        wanting(held("b1", ends_in_s=60.0), held("b2", ends_in_s=None, pinned=True), left=9)
    )
    assert [start.backend for start in answer.starts] == ["b2"]
    assert answer.loads == ()


def test_it_is_the_first_to_leave_and_the_other_one_the_last() -> None:
    """A model in constant demand would be unloaded completely, as if it cost nothing."""
    busy = replace(hot(0), rate_per_s=0.5)
    calm = model("calm", on=("b3",), vram_mb=3 * GB, rate_per_s=0.001)
    idle = (held("b1", ends_in_s=None), held("b2", ends_in_s=None))
    beside = copy("calm", "b3", vram_mb=3 * GB)
    for needed_mb, gone in ((6 * GB, {"b2"}), (11 * GB, {"b2", "b3"})):
        other = model("other", queue(jobs("other", 2)), on=("b3",), vram_mb=needed_mb)
        load = plan(gpu(busy, calm, other, copies=(*idle, beside))).loads[0]
        assert {evict.backend for evict in load.evict} == gone


def test_a_model_that_fits_beside_it_needs_no_one_to_leave() -> None:
    """A second copy would be unused without reason."""
    small = model("small", queue(jobs("small", 2)), on=("b3",), vram_mb=3 * GB)
    answer = plan(gpu(hot(8), small, copies=(held("b1"), held("b2", ends_in_s=None))))
    assert [start.backend for start in answer.starts] == ["b2"]
    assert answer.loads == (Load(model="small", backend="b3"),)


def test_a_second_copy_leaves_a_server_it_shares_to_the_other_model() -> None:
    """That model would wait behind the queue of one that has its own server."""
    guest = model("guest", queue(jobs("guest", 1)), on=("b2",), vram_mb=3 * GB)
    beside = copy("guest", "b2", vram_mb=3 * GB)
    busy, idle = held("b1"), held("b2", ends_in_s=None)
    answer = plan(gpu(hot(40), guest, copies=(busy, idle, beside)))
    assert [(start.job.model, start.backend) for start in answer.starts] == [("guest", "b2")]
    alone = plan(gpu(hot(40), guest, copies=(idle, beside)))
    assert [start.job.model for start in alone.starts] == ["hot"]  # it is the oldest there


def test_a_model_that_fits_is_loaded_on_the_first_server_that_comes_to_rest() -> None:
    """Memory would be free, but one queue would keep both servers busy until the age limit."""
    guest = model("guest", queue(jobs("guest", 1)), on=TWO_SERVERS, vram_mb=3 * GB)
    answer = plan(gpu(hot(40), guest, copies=(held("b1"), held("b2", ends_in_s=None))))
    assert answer.loads == (Load(model="guest", backend="b2"),)
    assert answer.starts == ()


def test_two_models_with_two_copies_each_do_not_close_each_other() -> None:
    """Both servers would be blocked forever."""
    first = replace(hot(9), vram_mb=4 * GB)
    second = replace(model("second", queue(jobs("second", 8, 7)), on=TWO_SERVERS), vram_mb=4 * GB)
    copies = tuple(
        copy(name, on, vram_mb=4 * GB) for name in ("hot", "second") for on in TWO_SERVERS
    )
    answer = plan(gpu(first, replace(second, copies=2), copies=copies))
    assert len(answer.starts) == 2
    assert {start.backend for start in answer.starts} == set(TWO_SERVERS)


def test_a_second_copy_comes_only_to_a_server_that_no_other_model_needs() -> None:
    """Long jobs of a few people would hold up everyone who uses that model."""
    calm = model("calm", on=("b2",), vram_mb=3 * GB)
    beside = copy("calm", "b2", vram_mb=3 * GB)
    crowded = gpu(hot(200), calm, copies=(held("b1"), beside))
    assert plan(crowded).loads == ()
    texts = replace(crowded.backends["b2"], serial=False)
    with_slots = replace(crowded, backends={**crowded.backends, "b2": texts})
    assert plan(with_slots).loads == (Load(model="hot", backend="b2"),)


def on_one_gpu(rng: random.Random) -> Snapshot:
    """Return a random world of three servers on one GPU, whose models may have two copies."""
    snapshot = in_lanes(rng, drawn(rng))
    models = {
        name: replace(view, copies=rng.choice([1, 2, 3]), vram_mb=rng.choice([4, 6, 9]) * GB)
        for name, view in snapshot.models.items()
    }
    copies: list[Copy] = []
    for each in snapshot.copies:
        mb = models[each.model].vram_mb
        if sum(other.vram_mb for other in copies) + mb <= 24 * GB:
            copies.append(replace(each, vram_mb=mb))
            other = NAMES[NAMES.index(each.backend) - 1]
            if rng.random() < 0.6 and sum(c.vram_mb for c in copies) + mb <= 24 * GB:
                copies.append(replace(copies[-1], backend=other, running=0, ends_at=()))
    return replace(
        snapshot,
        models=models,
        hosts={"h1": host("h1", 24 * GB)},
        backends={name: replace(b, host="h1") for name, b in snapshot.backends.items()},
        copies=tuple(copies),
    )


@seeds(range(30), quick=3)
def test_second_copies_are_foreseen_as_they_are_planned(seeds: range) -> None:
    """Forecasts would promise what the planner does not do."""
    for seed in seeds:
        print(f"seed {seed}")
        simulation = Checked(on_one_gpu(random.Random(seed)), ten_seconds, most_starts=300)
        for _ in range(120):
            if not simulation.over:
                simulation.step()
        assert simulation.decisions > 5


def foreseen(snapshot: Snapshot) -> Simulation:
    """Return a forecast of a hundred starts."""
    simulation = Simulation(snapshot, ten_seconds, most_starts=100)
    while not simulation.over:
        simulation.step()
    return simulation


def test_a_forecast_knows_which_copy_gives_way() -> None:
    """A model would be promised its turn after the longer of two jobs."""
    snapshot = wanting(held("b1", ends_in_s=60.0), held("b2", ends_in_s=4.0), left=40)
    assert foreseen(snapshot).queues["other", "normal"].starts[0].at == NOW + 4 + 30


def test_a_forecast_uses_both_copies() -> None:
    """A queue of twenty would be promised twice as late as it is served."""
    crowded = gpu(hot(20), copies=(held("b1"),))

    def last_start(snapshot: Snapshot) -> float:
        return foreseen(snapshot).queues["hot", "normal"].starts[19].at - NOW

    alone = last_start(replace(crowded, rules=Rules(double=False)))
    assert last_start(crowded) < 0.7 * alone


def test_a_copy_on_a_lost_server_replaces_none() -> None:
    """The only copy that can run jobs would give way to one that cannot, and nothing would run."""
    waiting = jobs("hot", 5)
    kept = [copy("hot", "b1"), copy("other", "b1"), copy("hot", "b2")]
    snapshot = world(
        model("hot", queue(waiting), vram_mb=GB, on=("b1",)),
        model("other", vram_mb=GB, on=("b1",)),
        copies=tuple(replace(each, pinned=True) for each in kept),
        hosts=(host("h1"),),
        backends=(
            BackendView(name="b1", host="h1", serial=True, can_unload=False),
            BackendView(name="b2", host="h1", up=False),
        ),
    )
    assert [start.job.id for start in plan(snapshot).starts] == [waiting[0].id]


def test_a_second_copy_gives_way_to_no_model_without_waiting_jobs() -> None:
    """Its jobs would wait while the server does nothing."""
    waiting = jobs("hot", 2)
    snapshot = world(
        model("hot", queue(waiting), vram_mb=GB, on=("b1", "b2")),
        model("other", vram_mb=GB, on=("b1",)),
        copies=(
            copy("hot", "b1", vram_mb=GB),
            copy("other", "b1", vram_mb=GB),
            copy("hot", "b2", vram_mb=GB, running=1),
        ),
        hosts=(host("h1"),),
        backends=(
            BackendView(name="b1", host="h1", serial=True),
            BackendView(name="b2", host="h1", busy=1),
        ),
    )
    assert [start.job.id for start in plan(snapshot).starts] == [waiting[0].id]
