"""Rule R6: an idle host that may do so loads the model that is probably requested next."""

from dataclasses import replace

import pytest

from queueing.core.snapshot import BackendView, Copy, HostView, Load, ModelView, Residency, Snapshot
from queueing.planning.ahead import IDLE_S, in_the_way
from queueing.planning.planner import plan
from tests.queueing.planning.worlds import GB, NOW, copy, host, jobs, model, queue, world

ALLOWED = replace(host("h1"), loads_ahead=True)


def likely(name: str, per_hour: float, **fields: float) -> ModelView:
    return model(name, rate_per_s=per_hour / 3600, **{"ahead_until": NOW + 600} | fields)  # type: ignore[arg-type]


def idle(
    *models: ModelView, copies: tuple[Copy, ...] = (), on: HostView = ALLOWED, for_s: float = 600.0
) -> Snapshot:
    return world(
        *models,
        copies=tuple(replace(each, idle_since=NOW - for_s) for each in copies),
        hosts=(on,),
    )


def ahead(snapshot: Snapshot) -> list[tuple[str, tuple[str, ...]]]:
    """Return what is loaded ahead, and what it unloads."""
    loads = plan(snapshot).loads
    assert all(load.ahead for load in loads)
    return [(load.model, tuple(gone.model for gone in load.evict)) for load in loads]


def test_the_likeliest_model_is_loaded_in_place_of_a_less_likely_one() -> None:
    """The next request would wait for a load, as if the host did not load ahead."""
    models = (likely("seldom", 1), likely("often", 20), likely("sometimes", 8))
    assert ahead(idle(*models, copies=(copy("seldom"),))) == [("often", ("seldom",))]


def test_free_memory_is_used_first() -> None:
    """A model would be unloaded in vain."""
    models = (likely("seldom", 1, vram_mb=5 * GB), likely("often", 20))
    here = (copy("seldom", vram_mb=5 * GB),)
    assert ahead(idle(*models, copies=here)) == [("often", ())]


def test_it_waits_until_the_host_has_been_idle_for_a_minute() -> None:
    """The next message of a conversation would wait for a load that nobody asked for."""
    models, here = (likely("seldom", 1), likely("often", 20)), (copy("seldom"),)
    answer = plan(idle(*models, copies=here, for_s=IDLE_S - 10))
    assert (answer.loads, answer.look_at) == ((), NOW + 10)


@pytest.mark.parametrize(
    "fields",
    [
        {"ahead_until": NOW},
        {"load_after": NOW + 5},
        {"paused": True},
        {"rate_per_s": 0.0},
    ],
)
def test_some_models_are_not_loaded_ahead(fields: dict[str, float]) -> None:
    """What an admin unloaded would return, or a failing or pausing model be loaded."""
    assert ahead(idle(replace(likely("often", 20), **fields))) == []  # type: ignore[arg-type]


def test_a_more_likely_model_stays_even_if_its_load_is_short() -> None:
    """The most wanted model would be unloaded for one that takes longer to load."""
    models = (likely("often", 10, load_s=2.0), likely("slow", 9, load_s=90.0))
    assert ahead(idle(*models, copies=(copy("often"),))) == []


def test_two_models_that_are_about_as_likely_do_not_swap() -> None:
    """The GPU would work for a gain that is almost as often a loss."""
    models = (likely("one", 10), likely("other", 12))
    assert ahead(idle(*models, copies=(copy("one"),))) == []


def test_hosts_do_not_load_ahead_unless_they_may() -> None:
    """A person would wait for a load ahead that the operator has not allowed."""
    assert ahead(idle(likely("often", 20), on=host("h1"))) == []


def test_nothing_is_loaded_ahead_where_somebody_waits() -> None:
    """The waiting job would wait for one more load."""
    blocked = model("big", queue(jobs("big", 5)), vram_mb=19 * GB)
    kept = replace(copy("small", vram_mb=5 * GB), pinned=True)
    models = (blocked, likely("often", 20, vram_mb=2 * GB), likely("small", 1))
    assert ahead(idle(*models, copies=(kept,))) == []


LOADING = copy("often", residency=Residency.LOADING)
STOPS = BackendView(name="b1", host="h1", stops_loads=True)


def stopped(
    *models: ModelView, load: Copy = LOADING, on: BackendView = STOPS, begun: tuple[Load, ...] = ()
) -> list[str]:
    snapshot = world(*models, copies=(replace(load, ahead=True),), hosts=(ALLOWED,), backends=(on,))
    answer = plan(snapshot)
    return [each.model for each in in_the_way(snapshot, begun or answer.loads, answer.reasons)]


ASKED = model("asked", queue(jobs("asked", 0)))
OFTEN = likely("often", 20)


def test_a_load_ahead_gives_way_to_a_request() -> None:
    """A person would wait for a model that nobody asked for."""
    assert stopped(OFTEN, ASKED) == ["often"]


def test_a_load_ahead_that_is_asked_for_goes_on() -> None:
    """Its own request would start the load again."""
    assert stopped(replace(OFTEN, waiting=(queue(jobs("often", 1)),)), ASKED) == []


def test_a_load_ahead_goes_on_where_it_cannot_be_stopped_or_is_kept() -> None:
    """The server would load on, while its memory counted as free."""
    assert stopped(OFTEN, ASKED, on=replace(STOPS, stops_loads=False)) == []
    assert stopped(OFTEN, ASKED, load=replace(LOADING, pinned=True)) == []
    assert stopped(OFTEN, ASKED, load=replace(LOADING, residency=Residency.UNLOADING)) == []


def test_a_load_ahead_goes_on_if_nobody_waits_for_it() -> None:
    """It would be started and stopped forever, beside a queue that cannot run in any case."""
    assert stopped(OFTEN, replace(ASKED, paused=True)) == []
    assert stopped(OFTEN, replace(ASKED, load_after=NOW + 60)) == []
    assert stopped(OFTEN, replace(ASKED, backends=("elsewhere",))) == []
