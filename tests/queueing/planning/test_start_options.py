"""The place where a timed job is expected to begin is where the planner begins it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.quiet_hours import QuietSpan
from queueing.core.snapshot import BackendView, HostView, Snapshot
from queueing.planning.hosts import LEAD_S, StartOption, fitting, sites, to_wake
from queueing.planning.planner import plan
from queueing.service.deadlines import SLACK_S, Way, spare_s, surely_done_at
from tests.queueing.planning.worlds import GB, NOW, jobs, model, queue, world
from tests.samples import examples

HOUR = 3600.0
REST = QuietSpan(NOW - HOUR, NOW + HOUR)


@st.composite
def hosts(draw: st.DrawFn, name: str) -> HostView:
    """Draw a GPU: at work, paused, another program's, resting, asleep or waking."""
    how = draw(st.sampled_from(["works", "full", "paused", "lent", "rests", "sleeps", "wakes"]))
    budget_mb = (24 if how == "full" else 16) * GB  # of which another program holds some
    view = HostView(name=name, usable_mb=16 * GB, budget_mb=budget_mb)
    asleep = draw(st.booleans()) if how == "rests" else how == "sleeps"
    return replace(
        view,
        paused=how == "paused",
        yields_since=NOW - 5 if how == "lent" else None,
        quiet=(REST,) if how == "rests" else (),
        asleep=asleep,
        overslept=asleep and draw(st.booleans()),
        waking_until=NOW + 50 if how == "wakes" else None,
    )


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Draw two machines, one with two GPUs, and a model that waits for a place on some servers."""
    left, right = draw(hosts("box/0")), draw(hosts("box/1"))
    right = replace(  # the GPUs of a machine sleep as one
        right, asleep=left.asleep, overslept=left.overslept, waking_until=left.waking_until
    )
    far = draw(hosts("far"))
    on = {"left": (left,), "right": (right,), "both": (left, right), "far": (far,)}
    servers = [
        BackendView(
            name=name,
            host=gpus[0].name,
            hosts=tuple(gpu.name for gpu in gpus) if len(gpus) > 1 else (),
            up=not any(gpu.asleep for gpu in gpus) and draw(st.integers(0, 3)) > 0,
            paused=draw(st.integers(0, 5)) == 0,
        )
        for name, gpus in on.items()
    ]
    able = draw(st.lists(st.sampled_from(list(on)), min_size=1, unique=True))
    size_mb = draw(st.sampled_from([9, 16, 20])) * GB
    shares = {"both": (("box/0", size_mb // 2), ("box/1", size_mb // 2))}
    flux = model("flux", queue(jobs("flux", 5)), vram_mb=size_mb, on=tuple(able), shares=shares)
    return world(flux, hosts=(left, right, far), backends=tuple(servers))


def begins(there: Snapshot, backend: str) -> bool:
    """Return whether a server begins to load the model, or will do so if it is the only one."""
    alone = replace(there, models={"flux": replace(there.models["flux"], backends=(backend,))})
    ((name, gpus),) = sites(alone, alone.models["flux"])
    assert name == backend
    wakes = any(gpu.waking_until is not None for gpu in gpus)
    lent = any(gpu.yields_since is not None for gpu in gpus)
    view = alone.backends[backend]
    off = view.paused or any(gpu.paused for gpu in gpus)
    rests = view.up and any(gpu.quiet for gpu in gpus)
    by_itself = (wakes or rests) and view.up and not (lent or off)
    woken = any(not alone.hosts[host].overslept for host in to_wake(alone))
    return bool(plan(alone).loads) or woken or by_itself


@examples(300, quick=60)
@given(worlds())
def test_a_model_is_expected_where_the_planner_begins_it(there: Snapshot) -> None:
    """A job would wait for a server that is down, or for one of two GPUs while the other rests."""
    flux = there.models["flux"]
    found = {name: {host.name for host in gpus} for name, gpus in sites(there, flux)}
    assert {load.backend for load in plan(there).loads} <= found.keys()
    for host in to_wake(there):
        assert there.hosts[host].overslept or any(host in gpus for gpus in found.values())
    could = {site.backend for site in fitting(there, flux) if begins(there, site.backend)}
    assert could >= found.keys() or not could


GPU = HostView(name="box/0", usable_mb=16 * GB, budget_mb=16 * GB)


def test_a_job_on_two_gpus_is_done_before_the_quiet_hours_of_either() -> None:
    """It would be planned by the GPU that is open longer, and be put off on the other."""
    early, late = QuietSpan(NOW + HOUR, NOW + 9 * HOUR), QuietSpan(NOW + 2 * HOUR, NOW + 9 * HOUR)
    way = Way(quiet=(late, early), load_s=10.0, kept_s=0.0, wake_s=0.0)
    spare = spare_s(NOW + 100, NOW + 8 * HOUR, way, service_s=20.0, work_s=0.0)
    assert spare == HOUR - LEAD_S - 100 - SLACK_S
    both = StartOption("both", (replace(GPU, quiet=(late,)), replace(GPU, quiet=(early,))))
    assert surely_done_at(NOW + HOUR / 2, NOW, [both]) == NOW + 9 * HOUR + LEAD_S
    assert surely_done_at(NOW + HOUR / 3, NOW, [both]) == NOW + 2 * HOUR / 3


def test_a_machine_that_may_sleep_is_given_the_time_to_wake() -> None:
    """The job would be released when there is time to load, and the machine only be woken then."""
    awake = Way(quiet=(), load_s=10.0, kept_s=0.0, wake_s=0.0)
    asked = (NOW + 100, NOW + HOUR)
    usual = spare_s(*asked, awake, service_s=20.0, work_s=0.0)
    assert usual - spare_s(*asked, awake._replace(wake_s=90.0), service_s=20.0, work_s=0.0) == 90.0


def test_a_machine_is_woken_for_a_model_that_does_not_fit_on_what_is_up() -> None:
    """It would wait forever for a GPU that is too small, while the large one sleeps."""
    small, large = replace(GPU, name="small"), replace(GPU, name="large", budget_mb=24 * GB)
    servers = (
        BackendView(name="up", host="small"),
        BackendView(name="far", host="large", up=False),
    )
    big = model("big", queue(jobs("big", 5)), vram_mb=20 * GB, on=("up", "far"))
    there = world(big, hosts=(small, replace(large, asleep=True)), backends=servers)
    assert not plan(there).loads
    assert to_wake(there) == ("large",)


def expected(gpu: HostView, *, vram_mb: int = 9 * GB, up: tuple[bool, bool] = (True, True)) -> str:
    """Return on which of two servers a model is expected: `a`, which has this GPU, and `b`."""
    other = replace(GPU, name="other", usable_mb=24 * GB, budget_mb=24 * GB)
    servers = tuple(
        BackendView(name=name, host=on.name, up=is_up)
        for name, on, is_up in zip("ab", (gpu, other), up, strict=True)
    )
    flux = model("flux", queue(jobs("flux", 5)), vram_mb=vram_mb, on=("a", "b"))
    there = world(flux, hosts=(gpu, other), backends=servers)
    return "".join(site.backend for site in sites(there, flux))


def test_a_model_is_expected_on_what_is_large_enough_and_nobody_elses() -> None:
    """A promise would count on a GPU that an admin or a game keeps, or that is a bit too small."""
    assert expected(GPU) == "ab"
    assert expected(replace(GPU, paused=True)) == "b"
    assert expected(replace(GPU, yields_since=NOW - 5)) == "b"
    assert expected(GPU, vram_mb=16 * GB) == "ab"
    assert expected(GPU, vram_mb=16 * GB + 1) == "b"
    partly_taken = replace(GPU, budget_mb=24 * GB)
    assert expected(partly_taken, vram_mb=16 * GB) == "ab"
    assert expected(partly_taken, vram_mb=16 * GB + 1) == "b"


def test_a_machine_that_sleeps_is_expected_to_wake_unless_it_did_not() -> None:
    """A person would be promised a machine that was woken in vain, or none that could be woken."""
    asleep, down = replace(GPU, asleep=True), (False, False)
    assert expected(asleep, up=down) == "a"
    assert expected(replace(asleep, overslept=True), up=down) == "ab"
