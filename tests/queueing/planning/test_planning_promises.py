"""The planner's promises, tested on random worlds and on whole random days."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from queueing.core.snapshot import (
    BackendView,
    Copy,
    HostView,
    Load,
    ModelView,
    Plan,
    Reason,
    Residency,
    Rules,
    Snapshot,
    WaitCause,
)
from queueing.planning.planner import plan
from tests.queueing.planning.replay import Arrival, Trace, TraceModel, mean, simulate
from tests.queueing.planning.worlds import GB, NOW, copy, jobs, model, queue, world
from tests.samples import examples

BACKENDS = ("b1", "b2", "b3")
HOST_OF = {"b1": "h1", "b2": "h1", "b3": "h2"}
MODELS = ("m1", "m2", "m3", "m4", "m5")
PATIENT = Rules()


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Draw a world in which a fleet could be: copies fit, nothing runs twice."""
    views = tuple(
        BackendView(
            name=name,
            host=HOST_OF[name],
            up=draw(st.integers(0, 9)) > 0,
            serial=draw(st.booleans()),
            parallel=draw(st.sampled_from([1, 4, 64])),
            max_models=draw(st.sampled_from([None, None, 1, 2])),
            unloads_together=draw(st.integers(0, 3)) == 0,
            can_unload=draw(st.integers(0, 5)) > 0,
            paused=draw(st.integers(0, 9)) == 0,
        )
        for name in BACKENDS
    )
    hosts = tuple(
        HostView(
            name=name,
            usable_mb=usable,
            budget_mb=max(usable, 16 * GB),
            loads_ahead=draw(st.booleans()),
        )
        for name in ("h1", "h2")
        if (usable := draw(st.sampled_from([8, 16, 20])) * GB)
    )
    sizes = {name: draw(st.sampled_from([1, 3, 6, 9, 14])) * GB for name in MODELS}
    models = []
    for name in MODELS:
        ages = sorted(draw(st.lists(st.integers(0, 900), max_size=4)), reverse=True)
        lane = draw(st.sampled_from(["vip", "normal", "relaxed"]))
        suspect = draw(st.integers(0, 9)) == 0
        waiting = (queue(jobs(name, *ages, lane=lane, suspect=suspect)),) if ages else ()
        models.append(
            model(
                name,
                *waiting,
                vram_mb=sizes[name],
                on=tuple(draw(st.permutations(BACKENDS)))[: draw(st.integers(1, 3))],
                parallel=draw(st.sampled_from([1, 1, 3])),
                load_s=draw(st.sampled_from([5.0, 30.0, 90.0])),
                rate_per_s=draw(st.sampled_from([0.0, 0.001, 0.1])),
                left_at=draw(st.sampled_from([0.0, NOW - 50])),
                load_after=draw(st.sampled_from([0.0, 0.0, NOW + 9])),
                paused=draw(st.integers(0, 9)) == 0,
                ahead_until=draw(st.sampled_from([0.0, NOW + 600])),
            )
        )
    copies = _copies(draw, hosts, views, sizes)
    return world(*models, copies=copies, hosts=hosts, backends=views)


def _copies(
    draw: st.DrawFn,
    hosts: tuple[HostView, ...],
    views: tuple[BackendView, ...],
    sizes: dict[str, int],
) -> tuple[Copy, ...]:
    free = {host.name: host.usable_mb for host in hosts}
    loading: set[str] = set()
    copies: list[Copy] = []
    for view in views:
        held = 0
        for name in draw(st.lists(st.sampled_from(MODELS), unique=True, max_size=3)):
            if sizes[name] > free[view.host] or held == (view.max_models or 9):
                continue
            coming = view.host not in loading and draw(st.integers(0, 5)) == 0
            busy = sum(c.running for c in copies if c.backend == view.name)
            may_run = not coming and view.up and busy < (1 if view.serial else view.parallel)
            running = 1 if may_run and draw(st.booleans()) else 0
            if coming:
                loading.add(view.host)
            free[view.host] -= sizes[name]
            held += 1
            copies.append(
                copy(
                    name,
                    view.name,
                    running=running,
                    residency=Residency.LOADING if coming else Residency.READY,
                    vram_mb=sizes[name],
                    pinned=draw(st.integers(0, 9)) == 0,
                )
            )
    return tuple(copies)


@examples(400, quick=60)
@given(worlds())
def test_no_answer_breaks_a_promise(snapshot: Snapshot) -> None:
    """A GPU would run out of memory, an image be cut short, or a person be passed over."""
    answer = plan(snapshot)
    note(repr(answer))
    _busy_stays(snapshot, answer)
    _budget_holds(snapshot, answer)
    _starts_are_possible(snapshot, answer)
    _order_holds(snapshot, answer)
    _one_load_for_each(snapshot, answer)
    waits = {name for name, view in snapshot.models.items() if view.waiting}
    assert set(answer.reasons) == waits
    assert answer.look_at is None or answer.look_at > snapshot.now


@st.composite
def full_worlds(draw: st.DrawFn) -> Snapshot:
    """Draw a world in which much of what is in memory stays there."""
    drawn = draw(worlds())
    return replace(
        drawn,
        backends={
            name: replace(view, can_unload=draw(st.booleans()), up=True, paused=False)
            for name, view in drawn.backends.items()
        },
        models={
            name: replace(view, load_after=0.0, paused=False) for name, view in drawn.models.items()
        },
    )


@examples(200, quick=40)
@given(full_worlds())
def test_a_host_named_in_a_reason_will_have_room(snapshot: Snapshot) -> None:
    """People would wait for the end of what is not in their way, or for an end that never comes."""
    answer = plan(snapshot)
    assume(not answer.loads and not answer.evictions)  # they change who is in the way
    for name, reason in answer.reasons.items():
        model = snapshot.models[name]
        usable = [
            view
            for backend in model.backends
            if (view := snapshot.backends[backend]).up and not view.paused
        ]
        room_on = {view.host for view in usable if _room_one_day(snapshot, model, view)}
        if reason.why in {WaitCause.KEPT, WaitCause.PINNED}:
            assert not room_on
            others = [c for c in snapshot.copies if c.model == reason.other and _on(c, reason)]
            assert any(c.pinned or not snapshot.backends[c.backend].can_unload for c in others)
        elif reason.why in {WaitCause.ROOM_BUSY, WaitCause.RESERVED} and not _here(snapshot, name):
            assert reason.host in room_on


def _on(held: Copy, reason: Reason) -> bool:
    return HOST_OF[held.backend] == reason.host


def _here(snapshot: Snapshot, model: str) -> bool:
    return any(held.model == model for held in snapshot.copies)


def _room_one_day(snapshot: Snapshot, model: ModelView, target: BackendView) -> bool:
    """Return whether the model fits once everything that can leave has left."""
    if any((held.model, held.backend) == (model.name, target.name) for held in snapshot.copies):
        return True
    here = [held for held in snapshot.copies if HOST_OF[held.backend] == target.host]
    stays = [held for held in here if _held_by(snapshot, held, target, here)]
    host, held_mb = snapshot.hosts[target.host], sum(held.vram_mb for held in stays)
    beside = [held for held in stays if held.backend == target.name]
    if target.max_models is not None and len(beside) >= target.max_models:
        return False
    if host.usable_mb < model.vram_mb < host.budget_mb:
        return False
    if model.vram_mb >= host.budget_mb:
        return not held_mb
    return model.vram_mb <= host.usable_mb - held_mb


def _held_by(snapshot: Snapshot, held: Copy, target: BackendView, here: list[Copy]) -> bool:
    view = snapshot.backends[held.backend]
    group = [each for each in here if each.backend == held.backend]
    pinned = any(each.pinned for each in group) if view.unloads_together else held.pinned
    return pinned or not (view.can_unload or (view is target and view.max_models is not None))


def _busy_stays(snapshot: Snapshot, answer: Plan) -> None:
    started = {(start.job.model, start.backend) for start in answer.starts}
    held = {(c.model, c.backend): c for c in snapshot.copies}
    leaving = [evict for load in answer.loads for evict in load.evict] + list(answer.evictions)
    assert len(leaving) == len({(e.model, e.backend) for e in leaving})
    for evict in leaving:
        gone = held[evict.model, evict.backend]
        assert gone.residency is Residency.READY
        assert gone.running == 0
        assert not gone.pinned
        assert (gone.model, gone.backend) not in started
        view = snapshot.backends[gone.backend]
        assert view.up
        if view.unloads_together:
            together = {c.model for c in snapshot.copies if c.backend == gone.backend}
            assert together <= {e.model for e in leaving if e.backend == gone.backend}


def _budget_holds(snapshot: Snapshot, answer: Plan) -> None:
    used = dict.fromkeys(snapshot.hosts, 0)
    for held in snapshot.copies:
        used[HOST_OF[held.backend]] += held.vram_mb
    before = dict(used)
    sizes = {(c.model, c.backend): c.vram_mb for c in snapshot.copies}
    for load in answer.loads:
        host = HOST_OF[load.backend]
        used[host] -= sum(sizes[e.model, e.backend] for e in load.evict)
        assert {HOST_OF[e.backend] for e in load.evict} <= {host}
        used[host] += snapshot.models[load.model].vram_mb
    for name, limits in snapshot.hosts.items():
        assert used[name] <= max(limits.usable_mb, before[name])
        loads = [load for load in answer.loads if HOST_OF[load.backend] == name]
        coming = [c for c in snapshot.copies if c.residency is Residency.LOADING]
        assert len(loads) + sum(HOST_OF[c.backend] == name for c in coming) <= 1
    for load in answer.loads:
        bound = snapshot.backends[load.backend].max_models
        here = [c for c in snapshot.copies if c.backend == load.backend]
        gone = [e for e in load.evict if e.backend == load.backend]
        assert bound is None or len(here) - len(gone) + 1 <= bound


def _starts_are_possible(snapshot: Snapshot, answer: Plan) -> None:
    for name, view in snapshot.backends.items():
        starts = [start for start in answer.starts if start.backend == name]
        loads = [load for load in answer.loads if load.backend == name]
        assert not starts or (view.up and not view.paused)
        assert view.busy + len(starts) <= max(view.parallel, view.busy)
        if view.serial:
            assert len(starts) + len(loads) + min(view.busy, 1) <= max(1, min(view.busy, 1))
        if any(start.job.suspect for start in starts):
            assert (len(starts), view.busy) == (1, 0)
    for start in answer.starts:
        assert any(
            (c.model, c.backend, c.residency) == (start.job.model, start.backend, Residency.READY)
            for c in snapshot.copies
        )
        assert not snapshot.models[start.job.model].paused


def _order_holds(snapshot: Snapshot, answer: Plan) -> None:
    for name, view in snapshot.models.items():
        for waiting in view.waiting:
            started = [
                s.job for s in answer.starts if (s.job.model, s.job.lane) == (name, waiting.lane)
            ]
            assert tuple(started) == waiting.heads[: len(started)]


def _one_load_for_each(snapshot: Snapshot, answer: Plan) -> None:
    for load in answer.loads:
        view = snapshot.models[load.model]
        assert view.load_after <= snapshot.now
        assert load.backend in view.backends
        assert not any((c.model, c.backend) == (load.model, load.backend) for c in snapshot.copies)
    wanted = {
        load.model
        for load in answer.loads
        if not any(c.model == load.model for c in snapshot.copies)
    }
    assert all(sum(load.model == name for load in answer.loads) >= 1 for name in wanted)
    for load in answer.loads:
        if load.ahead:
            _nobody_pays(snapshot, answer, load)


def _nobody_pays(snapshot: Snapshot, answer: Plan, load: Load) -> None:
    """Require that a load ahead has an idle host and unloads nothing more likely."""
    likely = snapshot.models[load.model].rate_per_s
    assert all(snapshot.models[gone.model].rate_per_s < likely for gone in load.evict)
    where = snapshot.backends[load.backend].host
    assert snapshot.hosts[where].loads_ahead
    names = {view.name for view in snapshot.backends.values() if view.host == where}
    assert not any(start.backend in names for start in answer.starts)
    assert not any(held.running for held in snapshot.copies if held.backend in names)
    for name in answer.reasons:
        view = snapshot.models[name]
        usable = (each for each in view.backends if snapshot.backends[each].up)
        open_ = {each for each in usable if not snapshot.backends[each].paused}
        assert view.paused or names.isdisjoint(open_)


@examples(300, quick=50)
@given(worlds())
def test_no_head_is_held_back_without_a_gate(snapshot: Snapshot) -> None:
    """A job would wait for nothing while its model is ready and has a free slot."""
    answer = plan(snapshot)
    gated = {reservation.host for reservation in answer.reservations}
    started = {start.job.id for start in answer.starts}
    for held in snapshot.copies:
        view = snapshot.backends[held.backend]
        ours = sum(s.backend == view.name for s in answer.starts)
        same = sum((s.backend, s.job.model) == (view.name, held.model) for s in answer.starts)
        moving = any(
            c.residency is not Residency.READY for c in snapshot.copies if c.backend == view.name
        )
        of = snapshot.models[held.model]
        free = (
            held.residency is Residency.READY
            and view.up
            and not view.paused
            and not of.paused
            and held.running + same < of.parallel
            and view.busy + ours < view.parallel
            and not (view.serial and (view.busy or ours or moving))
        )
        heads = [job for waiting in of.waiting for job in waiting.heads if job.id not in started]
        suspects = any(
            job.suspect for m in snapshot.models.values() for w in m.waiting for job in w.heads
        )
        if free and heads and view.host not in gated:
            assert suspects


@examples(400, quick=60)
@given(worlds(), st.data())
def test_what_a_server_remembers_delays_nobody(snapshot: Snapshot, data: st.DataObject) -> None:
    """Old conversations would go before new ones, or keep a GPU from those who wait for it."""
    remembers = st.sampled_from([None, *BACKENDS])
    models = {
        name: replace(
            view,
            waiting=tuple(
                replace(
                    waiting,
                    heads=tuple(
                        replace(job, remembered_by=data.draw(remembers)) for job in waiting.heads
                    ),
                )
                for waiting in view.waiting
            ),
        )
        for name, view in snapshot.models.items()
    }
    answer, plain = plan(replace(snapshot, models=models)), plan(snapshot)
    assert [start.job.id for start in answer.starts] == [start.job.id for start in plain.starts]
    assert answer.loads == plain.loads
    assert answer.evictions == plain.evictions
    assert answer.reservations == plain.reservations
    assert answer.reasons.keys() == plain.reasons.keys()
    _starts_are_possible(replace(snapshot, models=models), answer)


@examples(200, quick=40)
@given(worlds())
def test_the_answer_depends_on_the_world_alone(snapshot: Snapshot) -> None:
    """Two decisions at the same moment would contradict each other."""
    assert plan(snapshot) == plan(snapshot)


# ---------------------------------------------------------------- whole days

LOADS = st.sampled_from([5.0, 20.0, 45.0])


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw an hour of requests for hosts, backends and models of every kind."""
    hosts = tuple(
        HostView(name=name, usable_mb=16 * GB, budget_mb=16 * GB)
        for name in ("h1", "h2")[: draw(st.integers(1, 2))]
    )
    names = [name for name in BACKENDS if HOST_OF[name] in {host.name for host in hosts}]
    backends = tuple(
        BackendView(
            name=name,
            host=HOST_OF[name],
            serial=draw(st.booleans()),
            max_models=draw(st.sampled_from([None, 1])),
        )
        for name in names
    )
    models = tuple(
        TraceModel(
            name=name,
            vram_mb=draw(st.sampled_from([3, 6, 9, 14])) * GB,
            load_s=draw(LOADS),
            service_s=draw(st.sampled_from([2.0, 8.0, 20.0])),
            backends=tuple(draw(st.permutations(names)))[: draw(st.integers(1, 3))],
            parallel=draw(st.sampled_from([1, 3])),
        )
        for name in MODELS[: draw(st.integers(2, 5))]
    )
    moments = draw(st.lists(st.integers(0, 1800), min_size=1, max_size=120))
    arrivals = []
    for at in sorted(moments):
        asked = draw(st.sampled_from(models))
        leaves = draw(st.sampled_from([None, None, None, at + 30.0]))
        lane = draw(st.sampled_from(["vip", "normal", "normal", "relaxed"]))
        arrivals.append(
            Arrival(
                at=float(at),
                model=asked.name,
                service_s=asked.service_s * draw(st.sampled_from([0.5, 1.0, 2.0])),
                lane=lane,
                cancel_at=leaves,
            )
        )
    return Trace(hosts=hosts, backends=backends, models=models, jobs=tuple(arrivals))


def starvation_bound_s(trace: Trace, name: str) -> float:
    """Return the bound, in seconds, of a model's wait for its load; only the models count."""
    models = {m.name: m for m in trace.models}
    able = {b.host for b in trace.backends if b.name in models[name].backends}
    longest_s = max(m.load_s for m in trace.models)
    service_s = max((job.service_s for job in trace.jobs), default=0.0)
    swaps = math.ceil(len(models) / len(able))
    patience = PATIENT.patience + 4
    swap_s = longest_s + patience * 2 * longest_s + service_s
    crowding = max(1.0, 3 * (len(models) - len(trace.hosts)) / len(trace.hosts))
    return PATIENT.age_limit_s * crowding + 2 * models[name].load_s + swaps * swap_s


@examples(150, quick=20)
@given(traces(), st.sampled_from([Rules(), Rules(gate=False, replicate=False)]))
def test_a_whole_day_keeps_every_promise(trace: Trace, rules: Rules) -> None:
    """Some order of events would lose a job, starve one, or break a promise."""
    result = simulate(trace, rules)
    assert result.broken == []
    if rules.gate:
        for name, since, loaded_at in result.waits_for_load:
            assert loaded_at - since <= starvation_bound_s(trace, name)


def hot_beside_cold(minutes: int) -> Trace:
    """Return a host that one model alone overloads, and three others that are rarely requested."""
    hot = TraceModel(name="hot", vram_mb=12 * GB, load_s=30.0, service_s=8.0, backends=("b1",))
    cold = tuple(
        TraceModel(name=f"cold-{i}", vram_mb=12 * GB, load_s=25.0, service_s=9.0, backends=("b1",))
        for i in range(3)
    )
    arrivals = [
        Arrival(at=8.0 * i / 1.05, model="hot", service_s=8.0) for i in range(minutes * 60 // 8)
    ]
    arrivals += [
        Arrival(at=300.0 * i + 70.0 * number, model=each.name, service_s=9.0)
        for number, each in enumerate(cold)
        for i in range(minutes // 5)
    ]
    return Trace(
        hosts=(HostView(name="h1", usable_mb=16 * GB, budget_mb=16 * GB),),
        backends=(BackendView(name="b1", host="h1"),),
        models=(hot, *cold),
        jobs=tuple(sorted(arrivals, key=lambda arrival: arrival.at)),
        resident=(("b1", "hot"),),
    )


def test_a_hot_model_starves_nobody() -> None:
    """People who ask for rare models would wait as long as a popular model is in demand."""
    trace = hot_beside_cold(60)
    waits = simulate(trace).waits_for_load
    cold = [(name, at - since) for name, since, at in waits if name != "hot"]
    assert len(cold) > 10
    for name, waited_s in cold:
        assert waited_s <= starvation_bound_s(trace, name)
    plain = simulate(trace, Rules(gate=False, replicate=False)).waits_for_load
    longest = max((at - since for name, since, at in plain if name != "hot"), default=math.inf)
    assert longest > starvation_bound_s(trace, "cold-0")


def crowd(models: int, minutes: int) -> Trace:
    """Return a GPU which each of these models alone would keep busy half of the time."""
    kinds = tuple(
        TraceModel(name=f"m{i}", vram_mb=12 * GB, load_s=30.0, service_s=10.0, backends=("b1",))
        for i in range(models)
    )
    return Trace(
        hosts=(HostView(name="h1", usable_mb=16 * GB, budget_mb=16 * GB),),
        backends=(BackendView(name="b1", host="h1"),),
        models=kinds,
        jobs=tuple(
            Arrival(at=20.0 * i + number, model=kind.name, service_s=10.0)
            for i in range(3 * minutes)
            for number, kind in enumerate(kinds)
        ),
    )


@pytest.mark.parametrize("minutes", [20, pytest.param(60, marks=pytest.mark.thorough)])
def test_the_bound_holds_for_however_many_come(minutes: int) -> None:
    """In a longer rush one of many models would wait longer and longer."""
    trace = crowd(6, minutes)
    result = simulate(trace)
    assert result.broken == []
    assert len(result.waits_for_load) > 6
    for name, since, at in result.waits_for_load:
        assert at - since <= starvation_bound_s(trace, name)


@pytest.mark.parametrize("gpus", [2, 3])
def test_further_copies_shorten_the_lines_of_bursts(gpus: int) -> None:
    """Rule R5 would cost loads and bring no advantage."""
    names = tuple(f"b{i}" for i in range(gpus))
    bursts = [
        Arrival(at=400.0 * i + k, model=f"m{i % 4}", service_s=10.0)
        for i in range(8)
        for k in range(25)
    ]
    trace = Trace(
        hosts=tuple(HostView(name=n, usable_mb=16 * GB, budget_mb=16 * GB) for n in names),
        backends=tuple(BackendView(name=n, host=n) for n in names),
        models=tuple(
            TraceModel(name=f"m{i}", vram_mb=9 * GB, load_s=20.0, service_s=10.0, backends=names)
            for i in range(4)
        ),
        jobs=tuple(bursts),
    )
    full, without = simulate(trace), simulate(trace, Rules(replicate=False))
    assert mean(full.waits) < 0.75 * mean(without.waits)
