"""Models on several GPUs of a machine, beside servers with one of them; whole random days."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.quiet_hours import QuietSpan
from queueing.core.snapshot import (
    BackendView,
    Copy,
    HostView,
    ModelView,
    Reason,
    Residency,
    WaitCause,
)
from queueing.core.specs import divided, parts, whole_mb
from queueing.planning.hosts import to_wake, why_rests
from queueing.planning.planner import plan
from tests.queueing.planning.replay import Arrival, Trace, TraceModel, simulate
from tests.queueing.planning.worlds import GB, NOW, copy, jobs, model, queue, world
from tests.samples import examples

GPUS = ("box/0", "box/1", "box/2")
BOTH = ("box/0", "box/1")


def gpus(*names: str, usable_mb: int = 16 * GB) -> tuple[HostView, ...]:
    """Return the GPUs of a machine."""
    return tuple(HostView(name=name, usable_mb=usable_mb, budget_mb=usable_mb) for name in names)


def server(name: str, *on: str, serial: bool = False) -> BackendView:
    """Return a server on these GPUs."""
    return BackendView(name=name, host=on[0], hosts=on if len(on) > 1 else (), serial=serial)


@st.composite
def days(draw: st.DrawFn) -> Trace:
    """Draw a machine with two or three GPUs, servers on some of them, and people's requests."""
    names = GPUS[: draw(st.integers(2, 3))]
    hosts = tuple(
        HostView(name=name, usable_mb=usable, budget_mb=usable)
        for name in names
        if (usable := draw(st.sampled_from([10, 16, 24])) * GB)
    )
    on = {
        f"b{i}": tuple(sorted(draw(st.sets(st.sampled_from(names), min_size=1))))
        for i in range(draw(st.integers(2, 4)))
    }
    on["wide"] = names
    room = {host.name: host.usable_mb for host in hosts}
    models = [_model(draw, f"m{i}", on, room) for i in range(draw(st.integers(2, 6)))]
    asked = draw(
        st.lists(
            st.tuples(st.integers(0, 1500), st.sampled_from(models), st.integers(1, 40)),
            min_size=5,
            max_size=60,
        )
    )
    return Trace(
        hosts=hosts,
        backends=tuple(server(name, *of, serial=draw(st.booleans())) for name, of in on.items()),
        models=tuple(models),
        jobs=tuple(
            Arrival(at=float(at), model=each.name, service_s=float(took))
            for at, each, took in sorted(asked, key=lambda job: job[0])
        ),
    )


def _model(
    draw: st.DrawFn, name: str, on: dict[str, tuple[str, ...]], room: dict[str, int]
) -> TraceModel:
    backends = tuple(draw(st.permutations(sorted(on))))[: draw(st.integers(1, len(on)))]
    vram_mb = draw(st.integers(1, 9)) * GB
    shares = {}
    for backend in backends:
        chosen = sorted(draw(st.sets(st.sampled_from(on[backend]), min_size=1)))
        split = [draw(st.integers(1, 3)) for _ in chosen]
        if len(on[backend]) > 1:
            # What fits on every GPU of its own: larger where it spans several.
            shares[backend] = divided(vram_mb, parts(on[backend], (), chosen, split))
    return TraceModel(
        name=name,
        vram_mb=vram_mb,
        load_s=float(draw(st.sampled_from([5, 30, 60]))),
        service_s=float(draw(st.sampled_from([5, 20]))),
        backends=backends,
        parallel=draw(st.sampled_from([1, 2])),
        shares=shares,
    )


@examples(150, quick=15)
@given(days())
def test_no_gpu_overflows_and_everyone_is_served(day: Trace) -> None:
    """One GPU of two would run out of memory, or a request would never begin."""
    result = simulate(day)

    assert not result.broken
    assert all(outcome.finished_at is not None for outcome in result.outcomes)


def hammered(*, until_s: int) -> Trace:
    """Return two GPUs, each swapped forever by its own models, and one request for both."""
    own = [
        TraceModel(
            name=f"{kind}{gpu}",
            vram_mb=12 * GB,
            load_s=20.0,
            service_s=10.0,
            backends=(f"one{gpu}",),
        )
        for gpu in (0, 1)
        for kind in "ab"
    ]
    wide = TraceModel(
        name="wide",
        vram_mb=24 * GB,
        load_s=30.0,
        service_s=10.0,
        backends=("both",),
        shares={"both": divided(24 * GB, parts(BOTH, ()))},
    )
    asked = [
        Arrival(at=float(at + 3 * (each.name[1] == "1")), model=each.name, service_s=10.0)
        for at in range(0, until_s, 9)
        for each in own
    ]
    asked.append(Arrival(at=40.0, model="wide", service_s=10.0))
    return Trace(
        hosts=gpus(*BOTH),
        backends=(server("one0", "box/0"), server("one1", "box/1"), server("both", *BOTH)),
        models=(*own, wide),
        jobs=tuple(sorted(asked, key=lambda job: job.at)),
    )


def test_a_model_for_both_gpus_is_not_starved_by_models_for_one_each() -> None:
    """One GPU or the other would always be reserved for a model that needs only that one."""
    result = simulate(hammered(until_s=1600))

    (wide,) = [outcome for outcome in result.outcomes if outcome.job.model == "wide"]
    assert not result.broken
    assert wide.started_at is not None
    assert wide.started_at < 1500  # its limit, doubled for the crowd, and the cutoffs of two swaps


def waiting(name: str, *, on: str, vram_mb: int) -> ModelView:
    """Return a model that someone has just asked for."""
    shares = {"both": divided(vram_mb, parts(BOTH, ()))} if on == "both" else {}
    return model(name, queue(jobs(name, 1)), on=(on,), vram_mb=vram_mb, shares=shares)


WHOLE = divided(16 * GB, parts(BOTH, ()))
SERVERS = (server("one0", "box/0"), server("one1", "box/1"), server("both", *BOTH))


def test_a_load_on_one_gpu_does_not_wait_for_one_on_the_other() -> None:
    """An image model would wait for a text model with which it shares nothing."""
    loading = copy("t", "one0", residency=Residency.LOADING, vram_mb=12 * GB)
    here = world(
        waiting("p", on="one1", vram_mb=12 * GB),
        copies=(loading,),
        hosts=gpus(*BOTH),
        backends=SERVERS,
    )

    assert [load.model for load in plan(here).loads] == ["p"]


def test_a_model_for_both_gpus_waits_for_the_load_on_either() -> None:
    """Two loads would coincide on one GPU."""
    loading = copy("t", "one1", residency=Residency.LOADING, vram_mb=2 * GB)
    here = world(
        waiting("w", on="both", vram_mb=8 * GB),
        copies=(loading,),
        hosts=gpus(*BOTH),
        backends=SERVERS,
    )
    answer = plan(here)

    assert not answer.loads
    reason = answer.reasons["w"]
    assert (reason.why, reason.host, reason.other) == (WaitCause.LOADER_BUSY, "box/1", "t")


def test_only_the_gpu_that_is_too_full_is_cleared() -> None:
    """Loading a model on two GPUs would unload models that are not in its way."""
    held = (copy("t", "one0", vram_mb=6 * GB), copy("p", "one1", vram_mb=14 * GB))
    here = world(
        waiting("w", on="both", vram_mb=16 * GB), copies=held, hosts=gpus(*BOTH), backends=SERVERS
    )
    (load,) = plan(here).loads

    assert [evict.model for evict in load.evict] == ["p"]


def test_one_copy_on_both_gpus_leaves_rather_than_one_of_each() -> None:
    """Two models would be loaded again instead of one."""
    shares = divided(20 * GB, parts(BOTH, ()))
    both = [waiting("w", on="both", vram_mb=20 * GB)]
    seldom = model("v", on=("both",), vram_mb=20 * GB, shares={"both": shares}, rate_per_s=0.001)
    often = [
        model(name, on=(on,), vram_mb=6 * GB, rate_per_s=0.001)
        for name, on in (("t", "one0"), ("p", "one1"))
    ]
    here = world(
        *both,
        seldom,
        *often,
        copies=(
            copy("t", "one0", vram_mb=6 * GB),
            copy("p", "one1", vram_mb=6 * GB),
            copy("v", "both", vram_mb=20 * GB, shares=shares),
        ),
        hosts=gpus(*BOTH),
        backends=SERVERS,
    )
    (load,) = plan(here).loads

    assert [evict.model for evict in load.evict] == ["v"]


def test_what_is_too_large_for_its_part_of_one_gpu_says_what_it_waits_for() -> None:
    """A person would read of a GPU that has room."""
    running = copy("p", "one1", vram_mb=14 * GB, running=1)
    here = world(
        waiting("w", on="both", vram_mb=16 * GB),
        copies=(running,),
        hosts=gpus(*BOTH),
        backends=SERVERS,
        now=NOW,
    )
    reason = plan(here).reasons["w"]

    assert (reason.why, reason.host, reason.other) == (WaitCause.ROOM_BUSY, "box/1", "p")


OTHER = HostView(name="box/1", usable_mb=16 * GB, budget_mb=16 * GB)


def why_waits(*others: Copy, second: HostView = OTHER) -> Reason:
    """Return why a model for both GPUs waits beside these copies."""
    here = world(
        waiting("w", on="both", vram_mb=16 * GB),
        copies=others,
        hosts=(*gpus("box/0"), second),
        backends=SERVERS,
        now=NOW,
    )
    return plan(here).reasons["w"]


def test_the_gpu_that_keeps_a_model_waiting_is_named() -> None:
    """An admin would resume, or empty, a GPU that has long been free."""
    for second, why in (
        (replace(OTHER, paused=True), WaitCause.PAUSED),
        (replace(OTHER, usable_mb=4 * GB), WaitCause.NO_ROOM),
        (replace(OTHER, yields_since=NOW - 9), WaitCause.YIELDING),
        (replace(OTHER, quiet=(QuietSpan(NOW - 9, NOW + 900),)), WaitCause.QUIET),
        (replace(OTHER, quiet=(QuietSpan(NOW + 40, NOW + 900),)), WaitCause.QUIET_SOON),
        (replace(OTHER, waking_until=NOW + 60), WaitCause.WAKING),
    ):
        reason = why_waits(second=second)
        assert (reason.why, reason.host) == (why, "box/1")


def test_a_machine_that_sleeps_is_told_as_one() -> None:
    """People would read that one of its GPUs sleeps."""
    of_box = {"machine": "box", "usable_mb": 16 * GB, "budget_mb": 16 * GB}
    asleep = HostView(name="box/0", asleep=True, **of_box)  # type: ignore[arg-type]
    assert why_rests(asleep, NOW) == Reason(why=WaitCause.ASLEEP, model="", host="box")
    wakes = replace(asleep, asleep=False, waking_until=NOW + 60)
    assert why_rests(wakes, NOW) == Reason(why=WaitCause.WAKING, model="", host="box")


def test_another_machine_is_woken_while_a_game_has_one_of_two_gpus() -> None:
    """The model would wait for the end of a game beside a machine that could serve it."""
    far = replace(gpus("far")[0], asleep=True)
    spare = replace(server("spare", "far"), up=False)
    asked = replace(waiting("w", on="both", vram_mb=16 * GB), backends=("both", "spare"))
    for taken in BOTH:
        two = tuple(replace(c, yields_since=NOW if c.name == taken else None) for c in gpus(*BOTH))
        here = world(asked, hosts=(*two, far), backends=(*SERVERS, spare), now=NOW)
        assert to_wake(here) == ("far",)


def test_a_copy_that_stays_is_told_with_the_gpu_on_which_it_is_in_the_way() -> None:
    """People would read of a GPU that has room for both."""
    shares = (("box/0", 2 * GB), ("box/1", 10 * GB))
    kept = copy("k", "both", vram_mb=12 * GB, shares=shares, pinned=True)
    reason = why_waits(kept)

    assert (reason.why, reason.host, reason.other) == (WaitCause.PINNED, "box/1", "k")


def test_a_load_is_told_with_all_its_gpus() -> None:
    """A large model would seem to be squeezed into one GPU."""
    loading = copy("w", "both", residency=Residency.LOADING, vram_mb=16 * GB, shares=WHOLE)
    reason = why_waits(loading)

    assert (reason.why, reason.host) == (WaitCause.LOADING, "box/0 + box/1")


@given(st.integers(1, 200_000), st.lists(st.floats(0.1, 10), min_size=1, max_size=4))
def test_the_parts_hold_the_whole_and_the_whole_its_parts(size_mb: int, split: list[float]) -> None:
    """A GPU would be given less than it holds, or a size learned from it shrink each time."""
    hosts = [f"c{i}" for i in range(len(split))]
    shares = divided(size_mb, parts(hosts, split))

    assert size_mb <= sum(mb for _, mb in shares) <= size_mb + len(hosts)
    assert whole_mb(dict(shares), parts(hosts, split)) >= size_mb
