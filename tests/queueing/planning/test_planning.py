"""The rules of `plan()`, one example each: R1 to R3, lanes, suspects, memory, admins' orders."""

import gc
from dataclasses import replace
from itertools import product

from queueing.core.snapshot import (
    BackendView,
    Evict,
    HostView,
    Load,
    ModelView,
    Plan,
    Reason,
    Residency,
    WaitCause,
    Waiting,
)
from queueing.planning.planner import plan
from tests.queueing.planning.worlds import GB, NOW, copy, host, jobs, model, queue, world

TWO_HOSTS = (host("h1"), host("h2"))
BOTH = ("b1", "b2")
TWO_GPUS = (BackendView(name="b1", host="h1"), BackendView(name="b2", host="h2"))
COMFY = BackendView(name="comfy", host="h1", serial=True, max_models=1, unloads_together=True)
TEXTS = BackendView(name="texts", host="h1")


def started(answer: Plan) -> list[tuple[int, str]]:
    return [(start.job.id, start.backend) for start in answer.starts]


def why(answer: Plan, name: str) -> WaitCause:
    return answer.reasons[name].why


# ---------------------------------------------------------------- R1: starting


def test_the_head_of_a_ready_model_starts() -> None:
    """Nothing would ever run."""
    waiting = jobs("flux", 5, 4)
    answer = plan(world(model("flux", queue(waiting)), copies=(copy("flux"),)))
    assert started(answer) == [(waiting[0].id, "b1")]
    assert answer.loads == ()
    assert why(answer, "flux") is WaitCause.QUEUED


def test_a_copy_runs_as_many_jobs_as_it_has_slots() -> None:
    """A text server that answers four people at once would answer one."""
    waiting = jobs("llama", 5, 4, 3, 2, 1)
    snapshot = world(model("llama", queue(waiting), parallel=4), copies=(copy("llama", running=1),))
    assert [job for job, _ in started(plan(snapshot))] == [job.id for job in waiting[:3]]


def going_on(backend: str, *, parallel: int = 2) -> ModelView:
    """Return a text model with copies on both GPUs, whose only job continues a conversation."""
    (job,) = jobs("llama", 1)
    return model("llama", queue((replace(job, remembered_by=backend),)), parallel=parallel, on=BOTH)


def test_a_conversation_goes_on_where_it_is_remembered() -> None:
    """The server would read thousands of words again that another server still remembers."""
    for backend, running in product(BOTH, (0, 1)):
        copies = tuple(copy("llama", b, running=running if b == backend else 0) for b in BOTH)
        snapshot = world(going_on(backend), copies=copies, hosts=TWO_HOSTS, backends=TWO_GPUS)
        assert [b for _, b in started(plan(snapshot))] == [backend], running


def test_nobody_waits_for_the_server_that_remembers() -> None:
    """People would queue for one server while another has nothing to do."""
    views = (*TWO_GPUS, BackendView(name="b3", host="h2"))
    for backend, free in (("b1", "b2"), ("b2", "b1"), ("gone", "b1"), ("b3", "b1")):
        copies = tuple(copy("llama", b, running=int(b == backend)) for b in BOTH)
        asked = going_on(backend, parallel=1)
        snapshot = world(asked, copies=copies, hosts=TWO_HOSTS, backends=views)
        assert [b for _, b in started(plan(snapshot))] == [free], backend


def test_a_conversation_leaves_a_gpu_on_which_others_draw() -> None:
    """An answer would be slow from start to end in order to save reading what comes before it."""
    comfy = BackendView(name="comfy", host="h1", serial=True)
    snapshot = world(
        going_on("b1"),
        model("flux", vram_mb=6 * GB, on=("comfy",)),
        copies=(
            *(copy("llama", b) for b in BOTH),
            copy("flux", "comfy", running=1, vram_mb=6 * GB),
        ),
        hosts=TWO_HOSTS,
        backends=(*TWO_GPUS, comfy),
    )
    assert [b for _, b in started(plan(snapshot))] == ["b2"]


def test_a_conversation_keeps_nobody_off_a_gpu() -> None:
    """A person who waits for a load would wait for an answer that another GPU could have given."""
    cold = jobs("flux", 60)
    copies = (copy("llama", "b1"), copy("llama", "b2"))
    there = replace(going_on("b2"), left_at=NOW - 500)
    hosts = (host("h1"), host("h2"))
    flux = model("flux", queue(cold), vram_mb=15 * GB, on=("b2",))
    snapshot = world(there, flux, copies=copies, hosts=hosts, backends=TWO_GPUS)
    answer = plan(snapshot)
    assert [b for _, b in started(answer)] == ["b1"]
    assert answer.loads == (
        Load(model="flux", backend="b2", evict=(Evict(model="llama", backend="b2"),)),
    )


def test_a_job_of_a_ready_model_does_not_wait_for_another_load() -> None:
    """A load of ninety seconds would delay people whose model is ready."""
    ready, cold = jobs("sdxl", 1), jobs("flux", 60)
    snapshot = world(
        model("sdxl", queue(ready), vram_mb=4 * GB),
        model("flux", queue(cold)),
        copies=(copy("sdxl", vram_mb=4 * GB), copy("flux", residency=Residency.LOADING)),
    )
    assert started(plan(snapshot)) == [(ready[0].id, "b1")]


def test_a_serial_backend_starts_nothing_while_it_loads() -> None:
    """ComfyUI would be sent a prompt while the warm-up of another model still runs."""
    waiting = jobs("sdxl", 1)
    snapshot = world(
        model("sdxl", queue(waiting), vram_mb=4 * GB),
        model("flux"),
        copies=(copy("sdxl", vram_mb=4 * GB), copy("flux", residency=Residency.LOADING)),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    answer = plan(snapshot)
    assert answer.starts == ()
    assert why(answer, "sdxl") is WaitCause.LOADER_BUSY


def test_on_a_serial_backend_the_oldest_head_comes_first() -> None:
    """Two models in one process would starve each other by their order in the configuration."""
    young, old = jobs("a", 5), jobs("b", 9)
    snapshot = world(
        model("a", queue(young), vram_mb=GB),
        model("b", queue(old), vram_mb=GB),
        copies=(copy("a", vram_mb=GB), copy("b", vram_mb=GB)),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    answer = plan(snapshot)
    assert started(answer) == [(old[0].id, "b1")]
    assert why(answer, "a") is WaitCause.ROOM_BUSY


def test_the_host_with_the_fewest_running_jobs_is_preferred() -> None:
    """One GPU would work through a queue while another is idle."""
    waiting = jobs("llama", 5)
    snapshot = world(
        model("llama", queue(waiting), parallel=4, on=("b1", "b2")),
        copies=(copy("llama", running=2), copy("llama", "b2", running=1)),
        hosts=TWO_HOSTS,
        backends=TWO_GPUS,
    )
    assert started(plan(snapshot)) == [(waiting[0].id, "b2")]


def test_nothing_starts_on_a_paused_or_lost_backend() -> None:
    """Jobs would be sent to servers that are away or paused by an admin."""
    waiting = jobs("flux", 5)
    for backend in (
        BackendView(name="b1", host="h1", up=False, since=900.0),
        BackendView(name="b1", host="h1", paused=True),
    ):
        snapshot = world(model("flux", queue(waiting)), copies=(copy("flux"),), backends=(backend,))
        answer = plan(snapshot)
        assert answer.starts == ()
        assert answer.loads == ()
        assert why(answer, "flux") in {WaitCause.OFFLINE, WaitCause.PAUSED}


def test_a_paused_model_neither_starts_nor_loads() -> None:
    """An admin's pause would change nothing."""
    waiting = jobs("flux", 500)
    for copies in ((copy("flux"),), ()):
        answer = plan(world(model("flux", queue(waiting), paused=True), copies=copies))
        assert (answer.starts, answer.loads) == ((), ())
        assert why(answer, "flux") is WaitCause.PAUSED


def test_a_line_whose_jobs_all_pause_is_looked_at_when_the_first_may_start() -> None:
    """A job would wait after its pause until something else happens."""
    pausing = queue((), more=2, next_start_at=NOW + 20)
    answer = plan(world(model("flux", pausing), copies=(copy("flux"),)))
    assert answer.look_at == NOW + 20
    assert answer.reasons["flux"].until == NOW + 20
    assert why(answer, "flux") is WaitCause.RETRY_PAUSE


def test_a_line_whose_only_job_has_its_prompt_improved_says_so() -> None:
    """A person who has just asked would read about a failed attempt."""
    held = replace(queue((), more=1, next_start_at=NOW + 8), held=True)
    answer = plan(world(model("flux", held), copies=(copy("flux"),)))
    assert why(answer, "flux") is WaitCause.ENHANCING


# ---------------------------------------------------------------- lanes


def test_lanes_take_turns_by_their_weights() -> None:
    """One lane would starve the others, or the weights would have no effect."""
    lanes = {
        name: list(jobs("flux", *range(100, 60, -1), lane=name))
        for name in ("vip", "normal", "relaxed")
    }
    order: list[str] = []
    spent: dict[tuple[str, str], int] = {}
    for _ in range(14):
        waiting = [queue(tuple(heads)) for heads in lanes.values()]
        snapshot = world(model("flux", *waiting), copies=(copy("flux"),), lane_spent=spent)
        answer = plan(snapshot)
        spent = dict(answer.lane_spent)
        lane = answer.starts[0].job.lane
        assert answer.starts[0].job == lanes[lane].pop(0)
        order.append(lane)
    assert order.count("vip") == 8
    assert order.count("normal") == 4
    assert order.count("relaxed") == 2
    assert order[:7] == order[7:]
    assert "vip vip vip" not in " ".join(order)


def test_what_was_spent_is_forgotten_once_a_lane_is_alone() -> None:
    """The order of the lanes would depend on how often the planner looks."""
    queues = [queue(jobs("flux", 9, lane="vip")), queue(jobs("flux", 8, lane="normal"))]
    assert plan(world(model("flux", *queues), copies=(copy("flux"),))).lane_spent == {}


# ---------------------------------------------------------------- suspects


def test_a_suspect_waits_until_its_backend_is_empty_and_keeps_it_empty() -> None:
    """A job that crashes servers would cost its neighbours their work, or never get its turn."""
    suspect, younger = jobs("a", 9, suspect=True), jobs("b", 5)
    models = (
        model("a", queue(suspect), vram_mb=GB),
        model("b", queue(younger), vram_mb=GB, parallel=4),
    )
    busy = world(*models, copies=(copy("a", vram_mb=GB), copy("b", vram_mb=GB, running=1)))
    answer = plan(busy)
    assert answer.starts == ()
    assert why(answer, "a") is WaitCause.SUSPECT
    assert why(answer, "b") is WaitCause.SUSPECT
    empty = world(*models, copies=(copy("a", vram_mb=GB), copy("b", vram_mb=GB)))
    answer = plan(empty)
    assert started(answer) == [(suspect[0].id, "b1")]
    assert why(answer, "b") is WaitCause.SUSPECT


def test_jobs_older_than_a_suspect_go_first() -> None:
    """A suspect would start before its turn."""
    suspect, older = jobs("a", 5, suspect=True), jobs("b", 9)
    snapshot = world(
        model("a", queue(suspect), vram_mb=GB),
        model("b", queue(older), vram_mb=GB, parallel=4),
        copies=(copy("a", vram_mb=GB), copy("b", vram_mb=GB, running=1)),
    )
    assert started(plan(snapshot)) == [(older[0].id, "b1")]


# ---------------------------------------------------------------- R2, R3: loading


def test_a_model_that_waits_is_loaded_once() -> None:
    """Two simultaneous first requests would load two copies."""
    waiting = jobs("flux", 5, 4)
    snapshot = world(
        model("flux", queue(waiting), on=("b1", "b2")), hosts=TWO_HOSTS, backends=TWO_GPUS
    )
    answer = plan(snapshot)
    assert answer.loads == (Load(model="flux", backend="b1"),)
    assert why(answer, "flux") is WaitCause.LOADING
    coming = copy("flux", residency=Residency.LOADING, ready_at=NOW + 12)
    answer = plan(
        world(
            model("flux", queue(waiting), on=("b1", "b2")),
            copies=(coming,),
            hosts=TWO_HOSTS,
            backends=TWO_GPUS,
        )
    )
    assert answer.loads == ()


def test_free_memory_is_taken_before_anything_is_evicted() -> None:
    """Models would be unloaded while another GPU is empty."""
    snapshot = world(
        model("flux", queue(jobs("flux", 5)), on=("b1", "b2")),
        model("sdxl"),
        copies=(copy("sdxl"),),
        hosts=TWO_HOSTS,
        backends=TWO_GPUS,
    )
    assert plan(snapshot).loads == (Load(model="flux", backend="b2"),)


def test_the_copy_that_is_missed_least_is_evicted() -> None:
    """The model that everyone asks for would be unloaded for one that no one does."""
    snapshot = world(
        model("flux", queue(jobs("flux", 5)), vram_mb=8 * GB),
        model("hot", vram_mb=8 * GB, rate_per_s=0.1),
        model("cold", vram_mb=8 * GB, rate_per_s=0.001),
        copies=(copy("hot", vram_mb=8 * GB), copy("cold", vram_mb=8 * GB)),
    )
    gone = (Evict(model="cold", backend="b1"),)
    assert plan(snapshot).loads == (Load(model="flux", backend="b1", evict=gone),)


def test_no_more_leaves_than_is_needed() -> None:
    """Small models would be unloaded beside one whose memory is enough."""
    snapshot = world(
        model("flux", queue(jobs("flux", 5)), vram_mb=12 * GB),
        model("small", vram_mb=2 * GB, rate_per_s=0.001),
        model("large", vram_mb=14 * GB, rate_per_s=0.01),
        copies=(copy("small", vram_mb=2 * GB), copy("large", vram_mb=14 * GB)),
    )
    assert plan(snapshot).loads[0].evict == (Evict(model="large", backend="b1"),)


def test_a_server_that_cannot_unload_keeps_its_model_unless_it_swaps_itself() -> None:
    """A load would begin in memory that cannot be freed."""
    models = (model("b", queue(jobs("b", 5)), on=("old", "b1")), model("a", on=("old",)))
    copies = (copy("a", "old"),)
    backends = (
        BackendView(name="old", host="h1", can_unload=False),
        BackendView(name="b1", host="h1"),
    )
    assert plan(world(*models, copies=copies, backends=backends)).loads == ()
    swaps = (BackendView(name="old", host="h1", can_unload=False, max_models=1), backends[1])
    gone = (Evict(model="a", backend="old"),)
    assert plan(world(*models, copies=copies, backends=swaps)).loads == (
        Load(model="b", backend="old", evict=gone),
    )


def test_a_pinned_copy_stays() -> None:
    """What an admin keeps loaded would be unloaded for anyone's request."""
    snapshot = world(
        model("flux", queue(jobs("flux", 5))), model("sdxl"), copies=(copy("sdxl", pinned=True),)
    )
    answer = plan(snapshot)
    assert answer.loads == ()
    assert why(answer, "flux") is WaitCause.PINNED
    assert answer.reasons["flux"].other == "sdxl"


STAYS = BackendView(name="vllm", host="h1", can_unload=False)


def test_a_model_that_its_server_cannot_unload_is_named_where_it_keeps_others_out() -> None:
    """People would wait for a job to end, and so forever."""
    models = (
        model("flux", queue(jobs("flux", 5))),
        model("llama", on=("vllm",)),
        model("small", on=("b1",), vram_mb=4 * GB),
    )
    busy = (copy("small", vram_mb=4 * GB, running=1),)
    for more in ((), busy):  # what runs ends, and nothing is gained
        snapshot = world(
            *models,
            copies=(copy("llama", "vllm"), *more),
            backends=(BackendView(name="b1", host="h1"), STAYS),
        )
        answer = plan(snapshot)
        assert answer.loads == ()
        assert answer.reasons["flux"] == Reason(
            why=WaitCause.KEPT, model="flux", host="h1", other="llama"
        )


def test_where_another_host_will_take_a_model_that_one_is_told_of() -> None:
    """A model that stays on one GPU would be blamed for what another GPU is busy with."""
    flux = model("flux", queue(jobs("flux", 5)), on=("b1", "b2"))
    copies = (copy("llama", "vllm"), copy("sdxl", "b2", running=1, ends_at=(NOW + 5,)))
    snapshot = world(
        flux,
        model("llama", on=("vllm",)),
        model("sdxl", on=("b2",)),
        copies=copies,
        hosts=TWO_HOSTS,
        backends=(*TWO_GPUS, STAYS),
    )
    reason = plan(snapshot).reasons["flux"]
    assert (reason.why, reason.host, reason.other) == (WaitCause.ROOM_BUSY, "h2", "sdxl")


def test_a_small_model_that_stays_is_not_blamed_for_a_busy_gpu() -> None:
    """A GPU that is free in a minute would seem to be blocked for good."""
    models = (
        model("flux", queue(jobs("flux", 5))),
        model("llama", on=("vllm",), vram_mb=3 * GB),
        model("sdxl"),
    )
    snapshot = world(
        *models,
        copies=(copy("llama", "vllm", vram_mb=3 * GB), copy("sdxl", running=1)),
        backends=(BackendView(name="b1", host="h1"), STAYS),
    )
    assert plan(snapshot).reasons["flux"].other == "sdxl"


def test_an_admins_preload_is_loaded_where_it_was_asked_for() -> None:
    """`/preload` would do nothing, or load somewhere else."""
    wish = model("flux", on=("b1", "b2"), wanted_by_admin=("b2",))
    assert plan(world(wish, hosts=TWO_HOSTS, backends=TWO_GPUS)).loads == (
        Load(model="flux", backend="b2"),
    )


def test_an_admins_preload_gets_its_turn_on_a_busy_host() -> None:
    """A preload would wait forever behind a model that is always in demand."""
    snapshot = world(
        model("flux", wanted_by_admin=("b1",)),
        model("sdxl", queue(jobs("sdxl", 5))),
        copies=(copy("sdxl", running=1),),
    )
    assert [reservation.model for reservation in plan(snapshot).reservations] == ["flux"]


def test_a_failed_load_is_not_repeated_before_its_pause_ends() -> None:
    """A server that crashes on a load would be crashed in a tight loop."""
    snapshot = world(model("flux", queue(jobs("flux", 5)), load_after=NOW + 30))
    answer = plan(snapshot)
    assert answer.loads == ()
    assert answer.look_at == NOW + 30
    assert why(answer, "flux") is WaitCause.LOAD_PAUSE


def test_a_model_about_to_be_used_again_is_not_evicted() -> None:
    """A job pausing for ten seconds would find its model unloaded."""
    retrying = queue((), more=1, next_start_at=NOW + 10)
    snapshot = world(
        model("flux", queue(jobs("flux", 5))), model("sdxl", retrying), copies=(copy("sdxl"),)
    )
    assert plan(snapshot).loads == ()


# ---------------------------------------------------------------- memory


def test_a_model_larger_than_its_host_takes_it_alone() -> None:
    """A model that can offload would be refused, or loaded beside others."""
    huge = model("huge", queue(jobs("huge", 5)), vram_mb=30 * GB)
    assert plan(world(huge)).loads == (Load(model="huge", backend="b1"),)
    beside = world(huge, model("a", vram_mb=GB), copies=(copy("a", vram_mb=GB),))
    assert plan(beside).loads[0].evict == (Evict(model="a", backend="b1"),)
    pinned = world(huge, model("a", vram_mb=GB), copies=(copy("a", vram_mb=GB, pinned=True),))
    assert plan(pinned).loads == ()


def test_a_large_model_prefers_a_host_it_fits_on() -> None:
    """A model would be offloaded from a small GPU while a large one could hold all of it."""
    snapshot = world(
        model("large", queue(jobs("large", 5)), vram_mb=30 * GB, on=("b1", "b2")),
        hosts=(host("h1"), host("h2", 40 * GB)),
        backends=TWO_GPUS,
    )
    assert plan(snapshot).loads == (Load(model="large", backend="b2"),)


def test_idle_copies_leave_when_other_programs_take_memory() -> None:
    """The GPU would be overfull until a person asks for something."""
    squeezed = HostView(name="h1", usable_mb=9 * GB, budget_mb=20 * GB)
    snapshot = world(
        model("a", vram_mb=8 * GB),
        model("b", vram_mb=8 * GB),
        copies=(copy("a", vram_mb=8 * GB, running=1), copy("b", vram_mb=8 * GB)),
        hosts=(squeezed,),
    )
    assert plan(snapshot).evictions == (Evict(model="b", backend="b1"),)


def test_memory_that_is_still_being_freed_is_not_given_away() -> None:
    """A load would begin before the memory of the last model is free."""
    leaving = copy("sdxl", residency=Residency.UNLOADING)
    snapshot = world(model("flux", queue(jobs("flux", 5))), model("sdxl"), copies=(leaving,))
    assert plan(snapshot).loads == ()


# ---------------------------------------------------------------- the whole answer


def test_an_empty_world_needs_nothing() -> None:
    """A fresh installation would crash before its first request."""
    assert plan(world()) == Plan()


def test_a_model_no_host_serves_says_so() -> None:
    """A person would wait without ever being told that nothing can serve them."""
    answer = plan(world(model("ghost", queue(jobs("ghost", 5)), on=("gone",))))
    assert why(answer, "ghost") is WaitCause.OFFLINE


def test_a_line_that_starts_whole_says_so() -> None:
    """The last state of a queue would claim that it still waits."""
    answer = plan(world(model("flux", queue(jobs("flux", 5))), copies=(copy("flux"),)))
    assert why(answer, "flux") is WaitCause.STARTING


def test_an_empty_line_is_no_reason_to_load() -> None:
    """A model no one waits for would be loaded."""
    empty = Waiting(lane="normal", count=0, heads=(), oldest_at=NOW)
    assert plan(world(model("flux", empty))) == Plan()


# ---------------------------------------------------------------- what is left of a decision


def test_a_plan_leaves_nothing_to_the_garbage_collector() -> None:
    """Every decision would pay part of the collector's work, which nearly doubled its cost."""
    snapshot = world(model("flux", queue(jobs("flux", 3, 2))), copies=(copy("flux"), copy("sdxl")))
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            plan(snapshot)
        assert gc.collect() == 0
    finally:
        gc.enable()
