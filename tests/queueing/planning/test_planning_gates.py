"""Rules R4 and R5 of `plan()`: reservations, age cutoffs and further copies."""

from dataclasses import replace

from queueing.core.snapshot import (
    BackendView,
    Evict,
    Load,
    Plan,
    Reservation,
    Residency,
    Snapshot,
    WaitCause,
)
from queueing.planning.planner import plan
from tests.queueing.planning.worlds import GB, NOW, copy, host, jobs, model, queue, world

LOAD_S = 30.0
LIMIT_S = 120.0 + 2 * LOAD_S
TWO_HOSTS = (host("h1"), host("h2"))
TWO_GPUS = (BackendView(name="b1", host="h1"), BackendView(name="b2", host="h2"))
HOT_GONE = (Evict(model="hot", backend="b1"),)


def hot_and_cold(cold_age_s: float, *hot_ages_s: float, ready_at: float = 0.0) -> Snapshot:
    """Return a host on which `hot` runs and for which `cold` has waited this many seconds."""
    return world(
        model("hot", queue(jobs("hot", *hot_ages_s)), rate_per_s=0.1),
        model("cold", queue(jobs("cold", cold_age_s))),
        copies=(copy("hot", running=1, ready_at=ready_at),),
    )


def after(snapshot: Snapshot, answer: Plan, *, running: int = 0, later_s: float = 0.0) -> Snapshot:
    """Return the world after an answer, with this many jobs still running on `hot`."""
    hot = replace(snapshot.copies[0], running=running)
    return replace(
        snapshot,
        now=snapshot.now + later_s,
        copies=(hot,),
        reservations=answer.reservations,
        backends={"b1": replace(snapshot.backends["b1"], busy=running)},
    )


# ---------------------------------------------------------------- R4: reserving


def test_a_model_waits_its_age_limit_before_a_host_is_reserved() -> None:
    """Hosts would be reserved for everyone who has just arrived, or for no one."""
    early = plan(hot_and_cold(LIMIT_S - 1, 5))
    assert early.reservations == ()
    assert early.look_at == NOW + 1
    due = plan(hot_and_cold(LIMIT_S, 5))
    assert due.reservations == (
        Reservation(host="h1", backend="b1", model="cold", due=NOW, victims=HOT_GONE),
    )
    assert due.reasons["cold"].why is WaitCause.ROOM_BUSY


def test_a_young_job_moved_first_does_not_make_its_line_younger() -> None:
    """An admin's `/move first` would cost everyone behind the job their turn."""
    snapshot = hot_and_cold(LIMIT_S, 5)
    moved = replace(snapshot.models["cold"], waiting=(queue(jobs("cold", 1, LIMIT_S)),))
    snapshot = replace(snapshot, models={**snapshot.models, "cold": moved})
    assert [kept.due for kept in plan(snapshot).reservations] == [NOW]


def test_an_eviction_restarts_the_age_limit() -> None:
    """A model that has just had its turn would reserve the host again at once."""
    snapshot = hot_and_cold(LIMIT_S + 300, 5)
    cold = replace(snapshot.models["cold"], left_at=NOW - 10)
    snapshot = replace(snapshot, models={**snapshot.models, "cold": cold})
    assert plan(snapshot).reservations == ()


def test_the_host_is_reserved_for_who_is_overdue_longest_not_for_the_oldest_head() -> None:
    """A long queue that had its turn would get it again and again, before a queue that had none."""
    snapshot = hot_and_cold(LIMIT_S + 10, 5)
    had_its_turn = replace(
        model("twin", queue(jobs("twin", LIMIT_S + 900)), load_s=LOAD_S), left_at=NOW - LIMIT_S - 5
    )
    snapshot = replace(snapshot, models={"twin": had_its_turn, **snapshot.models})
    assert [kept.model for kept in plan(snapshot).reservations] == ["cold"]


def test_a_host_that_loads_is_not_reserved_before_others_could_fit_beside_the_load() -> None:
    """Half a GPU would stay empty behind a cutoff although a small waiting model fits into it."""
    loading = copy("hot", residency=Residency.LOADING, ready_at=NOW + 10)
    for age_s, is_reserved in [(LIMIT_S, False), (2 * LIMIT_S - 1, False), (2 * LIMIT_S, True)]:
        snapshot = replace(hot_and_cold(age_s, 5), copies=(loading,))
        assert bool(plan(snapshot).reservations) is is_reserved, age_s


def test_behind_the_gate_only_older_jobs_start() -> None:
    """A model in demand would keep the host for as long as people ask for it."""
    snapshot = hot_and_cold(LIMIT_S + 10, 60)  # due ten seconds ago; this one came before
    reserved = plan(snapshot)
    old = plan(after(snapshot, reserved))
    assert [start.job.model for start in old.starts] == ["hot"]
    late = hot_and_cold(LIMIT_S + 10, 5)  # this one came after
    answer = plan(after(late, reserved))
    assert answer.starts == ()
    assert answer.loads == (Load(model="cold", backend="b1", evict=HOT_GONE),)
    assert answer.reservations == ()


def test_a_copy_just_loaded_is_worth_its_load_before_it_leaves() -> None:
    """Two models in demand would spend the day loading each other."""
    snapshot = hot_and_cold(LIMIT_S + 10, 5, ready_at=NOW - 20)
    answer = plan(after(snapshot, plan(snapshot)))
    assert [start.job.model for start in answer.starts] == ["hot"]


def test_a_gate_closes_for_everybody_in_the_end() -> None:
    """A very long queue of old jobs would keep the waiting model out for hours."""
    snapshot = hot_and_cold(LIMIT_S, *range(900, 0, -10))
    reserved = plan(snapshot)
    open_s = 4 * 2 * LOAD_S
    during = plan(after(snapshot, reserved, later_s=open_s - 1))
    assert [start.job.model for start in during.starts] == ["hot"]
    closed = plan(after(snapshot, reserved, later_s=open_s))
    assert closed.starts == ()
    assert closed.loads == (Load(model="cold", backend="b1", evict=HOT_GONE),)


def test_a_reserved_host_takes_no_other_load() -> None:
    """The memory for which a person has waited minutes would go to a newcomer."""
    snapshot = hot_and_cold(LIMIT_S + 10, 60)
    small = model("small", queue(jobs("small", 3)), vram_mb=GB)
    snapshot = replace(snapshot, models={**snapshot.models, "small": small})
    reserved = plan(hot_and_cold(LIMIT_S + 10, 60)).reservations
    answer = plan(replace(snapshot, reservations=reserved))
    assert answer.loads == ()
    assert answer.reasons["small"].why is WaitCause.RESERVED
    assert answer.reasons["small"].other == "cold"


def test_a_reservation_ends_with_its_wish() -> None:
    """A host would stay closed for a job that was cancelled."""
    snapshot = hot_and_cold(LIMIT_S + 10, 5)
    reserved = plan(snapshot).reservations
    gone = replace(snapshot.models["cold"], waiting=())
    idle = replace(snapshot.copies[0], running=0)
    answer = plan(
        replace(
            snapshot,
            models={**snapshot.models, "cold": gone},
            copies=(idle,),
            reservations=reserved,
            backends={"b1": replace(snapshot.backends["b1"], busy=0)},
        )
    )
    assert answer.reservations == ()
    assert [start.job.model for start in answer.starts] == ["hot"]


def test_a_ready_model_behind_a_gate_says_for_whom() -> None:
    """People would see a free model and no reason why it does not start."""
    late = world(
        model("hot", queue(jobs("hot", 5)), vram_mb=8 * GB),
        model("other", queue(jobs("other", 60)), vram_mb=8 * GB),
        model("cold", queue(jobs("cold", LIMIT_S + 10)), vram_mb=20 * GB),
        copies=(copy("hot", vram_mb=8 * GB), copy("other", vram_mb=8 * GB, running=1)),
    )
    victims = (Evict(model="hot", backend="b1"), Evict(model="other", backend="b1"))
    kept = Reservation(host="h1", backend="b1", model="cold", due=NOW - 10, victims=victims)
    answer = plan(replace(late, reservations=(kept,)))
    assert answer.starts == ()
    assert answer.reasons["hot"].why is WaitCause.GATED
    assert answer.reasons["hot"].other == "cold"


def test_on_a_serial_backend_every_copy_is_gated() -> None:
    """A copy that may stay would keep the only worker busy, and the load could never begin."""
    snapshot = world(
        model("hot", queue(jobs("hot", 5)), vram_mb=4 * GB),
        model("big", vram_mb=10 * GB),
        model("cold", queue(jobs("cold", LIMIT_S + 10)), vram_mb=10 * GB),
        copies=(copy("hot", vram_mb=4 * GB, running=1), copy("big", vram_mb=10 * GB)),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    reserved = plan(snapshot).reservations
    assert [evict.model for evict in reserved[0].victims] == ["big"]
    idle = (copy("hot", vram_mb=4 * GB), copy("big", vram_mb=10 * GB))
    free = {"b1": replace(snapshot.backends["b1"], busy=0)}
    answer = plan(replace(snapshot, copies=idle, backends=free, reservations=reserved))
    assert answer.starts == ()
    assert [load.model for load in answer.loads] == ["cold"]


def test_the_host_that_is_empty_soonest_is_reserved() -> None:
    """A person who is overdue would wait for the slowest GPU."""
    snapshot = world(
        model("hot", queue(jobs("hot", *range(60, 0, -1))), on=("b1",), rate_per_s=0.1),
        model("calm", on=("b2",), rate_per_s=0.1),
        model("cold", queue(jobs("cold", LIMIT_S + 10)), on=("b1", "b2")),
        copies=(copy("hot", running=1), copy("calm", "b2", running=1, ends_at=(NOW + 3,))),
        hosts=TWO_HOSTS,
        backends=TWO_GPUS,
    )
    assert [reservation.host for reservation in plan(snapshot).reservations] == ["h2"]


def crowded(age_s: float, waiting: int) -> Snapshot:
    """Return a busy host for which three models have waited this long, each with such a queue."""
    names = ("m0", "m1", "m2")
    queues = {name: queue(jobs(name, age_s), more=waiting - 1) for name in names}
    return world(
        model("hot", queue(jobs("hot", 1.0)), rate_per_s=0.1),
        *(model(name, queues[name]) for name in names),
        copies=(copy("hot", running=1, ready_at=0.0),),
    )


def test_many_long_lines_wait_longer_for_their_turn() -> None:
    """Where more models than hosts have long queues, loads would take the time of their jobs."""
    limit_s = LIMIT_S + 120.0 * (3 * (3 - 1) - 1)
    assert plan(crowded(LIMIT_S + 1, 3)).reservations == ()
    assert plan(crowded(limit_s - 1, 1000)).reservations == ()
    assert plan(crowded(limit_s + 1, 1000)).reservations != ()


def test_many_short_lines_wait_no_longer() -> None:
    """Rare models would wait for minutes beside one in demand because there are several of them."""
    assert plan(crowded(LIMIT_S - 1, 2)).reservations == ()
    assert plan(crowded(LIMIT_S + 1, 2)).reservations != ()


# ---------------------------------------------------------------- R5: further copies


def backlog(
    waiting: int, *, rate_per_s: float = 0.0, evictable: bool = False, service_s: float = 10.0
) -> Snapshot:
    """Return a model with this many waiting jobs on one of two hosts."""
    others = (copy("calm", "b2"),) if evictable else ()
    ages = [float(age) for age in range(waiting, 0, -1)]
    return world(
        model("hot", queue(jobs("hot", *ages)), on=("b1", "b2"), service_s=service_s),
        model("calm", on=("b2",), rate_per_s=rate_per_s),
        copies=(copy("hot", running=1), *others),
        hosts=TWO_HOSTS,
        backends=TWO_GPUS,
    )


def test_a_long_line_gets_a_further_copy() -> None:
    """A second GPU would be idle while one works through a long queue."""
    assert plan(backlog(20)).loads == (Load(model="hot", backend="b2"),)


def test_a_short_line_is_done_before_a_further_copy_would_be() -> None:
    """A GPU would load for half a minute what the other finishes in that time."""
    assert plan(backlog(3)).loads == ()


def test_a_further_copy_must_be_worth_what_it_evicts() -> None:
    """A model everyone uses would be unloaded for the end of one person's queue."""
    assert plan(backlog(6, evictable=True)).loads != ()
    assert plan(backlog(6, rate_per_s=0.2, evictable=True)).loads == ()


def test_what_leaves_for_a_further_copy_must_have_somewhere_to_return_to() -> None:
    """Until a burst is served, requests for an unloaded model would have nowhere to load it."""
    alone = backlog(20, rate_per_s=0.15, evictable=True)
    evicts = (Load(model="hot", backend="b2", evict=(Evict(model="calm", backend="b2"),)),)
    assert plan(alone).loads == evicts
    beside = {"c2": BackendView(name="c2", host="h2"), "b3": BackendView(name="b3", host="h3")}
    shared = replace(
        alone, hosts={**alone.hosts, "h3": host("h3")}, backends={**alone.backends, **beside}
    )
    assert plan(shared).loads == ()
    calm = replace(alone.models["calm"], backends=("b2", "b3"))
    movable = replace(shared, models={**alone.models, "calm": calm})
    assert plan(movable).loads == evicts
    pinned = copy("other", "b3", pinned=True)
    assert plan(replace(movable, copies=(*movable.copies, pinned))).loads == ()


def test_jobs_that_take_no_time_need_no_further_copy() -> None:
    """Times learned while the clock was set back would stop the router until its next start."""
    assert plan(backlog(20, service_s=0.0)).loads == ()


def test_a_further_copy_counts_the_one_on_its_way() -> None:
    """Every decision during a load would add one more copy."""
    three = (*TWO_GPUS, BackendView(name="b3", host="h3"))
    snapshot = world(
        model("hot", queue(jobs("hot", 6, 5, 4, 3, 2, 1)), on=("b1", "b2", "b3")),
        copies=(copy("hot", running=1),),
        hosts=(*TWO_HOSTS, host("h3")),
        backends=three,
    )
    assert plan(snapshot).loads == (Load(model="hot", backend="b2"),)
    coming = copy("hot", "b2", residency=Residency.LOADING, ready_at=NOW + 30)
    assert plan(replace(snapshot, copies=(*snapshot.copies, coming))).loads == ()
