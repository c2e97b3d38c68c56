"""When a waiting job will be done, as promised when it is accepted."""

from dataclasses import replace

import pytest

from queueing.core.jobs import Job
from queueing.core.snapshot import BackendView, Residency, Snapshot
from queueing.forecast.durations import DurationEstimate
from queueing.forecast.forecast import Forecast
from tests.queueing.planning.worlds import GB, NOW, copy, jobs, model, queue, world

TWO_BACKENDS = (BackendView(name="b1", host="h1"), BackendView(name="b2", host="h1"))


def ten_seconds(_job: Job, _backend: str) -> DurationEstimate:
    return DurationEstimate(samples=9, median_s=10.0, mean_s=10.0, spread_s=1.0)


def done_in(snapshot: Snapshot, job: Job, position: int, **options: int) -> float:
    """Return the seconds until the job is expected to be done."""
    expected = Forecast(snapshot, ten_seconds, **options).of(job, position)
    assert expected is not None
    return expected.done_at - NOW


def test_a_job_of_a_ready_model_takes_its_own_time() -> None:
    """The simplest promise of all would be wrong."""
    waiting = jobs("flux", 0)
    snapshot = world(model("flux", queue(waiting)), copies=(copy("flux"),))
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(10.0)


def test_the_rest_of_what_runs_and_the_jobs_ahead_are_counted() -> None:
    """People would be promised their image while another person's is being drawn."""
    waiting = jobs("flux", 3, 2, 1)
    running = copy("flux", running=1, ends_at=(NOW + 4.0,))
    snapshot = world(model("flux", queue(waiting)), copies=(running,))
    assert done_in(snapshot, waiting[2], 3) == pytest.approx(34.0)


def test_a_job_that_should_be_done_by_now_is_expected_soon() -> None:
    """A job running over its time would move every promise behind it into the past."""
    waiting = jobs("flux", 0)
    late = copy("flux", running=1, ends_at=(NOW - 60.0,))
    snapshot = world(model("flux", queue(waiting)), copies=(late,))
    assert 10.0 < done_in(snapshot, waiting[0], 1) < 15.0


def test_loads_on_the_way_are_counted() -> None:
    """The first job of an unloaded model would be promised without its load."""
    waiting = jobs("flux", 0)
    assert done_in(world(model("flux", queue(waiting))), waiting[0], 1) == pytest.approx(40.0)
    coming = copy("flux", residency=Residency.LOADING, ready_at=NOW + 7.0)
    snapshot = world(model("flux", queue(waiting)), copies=(coming,))
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(17.0)


def test_the_swap_before_a_load_is_counted() -> None:
    """Where two models take turns, a promise would ignore the other one's queue."""
    mine, others = jobs("flux", 0), jobs("sdxl", 5, 4)
    busy = copy("sdxl", running=1, ends_at=(NOW + 6.0,))
    snapshot = world(model("flux", queue(mine)), model("sdxl", queue(others)), copies=(busy,))
    assert done_in(snapshot, mine[0], 1) == pytest.approx(6 + 2 * 10 + 30 + 10)


def test_requests_still_to_come_are_not_expected() -> None:
    """In a small group, people who wait do not ask again: everyone would be told far too late."""
    hot, cold = jobs("hot", 2, 1), jobs("cold", 0)
    busy = copy("hot", running=1, ends_at=(NOW + 5.0,))
    calm = world(model("hot", queue(hot)), model("cold", queue(cold)), copies=(busy,))
    asked_for = world(
        model("hot", queue(hot), rate_per_s=0.1), model("cold", queue(cold)), copies=(busy,)
    )
    assert done_in(asked_for, cold[0], 1) == done_in(calm, cold[0], 1)


def test_a_place_behind_the_last_is_told_where_nobody_else_is_expected() -> None:
    """A person who meets a full queue would be told that it does not move."""
    waiting = jobs("flux", 2, 1, 0)
    snapshot = world(model("flux", queue(waiting)), copies=(copy("flux"),))
    expected = Forecast(snapshot, ten_seconds).of(waiting[0], 4, NOW)
    assert expected is not None
    assert expected.done_at - NOW == pytest.approx(40.0)


def test_a_long_line_is_continued_at_its_pace() -> None:
    """An estimate at the end of a very long queue would cost seconds, or be missing."""
    heads = jobs("flux", 5, 4, 3)
    snapshot = world(model("flux", queue(heads, more=99_997)), copies=(copy("flux"),))
    assert done_in(snapshot, heads[0], 100_000, most_starts=50) == pytest.approx(1e6, rel=0.01)


def test_a_forecast_knows_the_lines_it_has_seen() -> None:
    """The first job of a model would get no promise from a forecast made before it came."""
    heads = jobs("flux", 1)
    forecast = Forecast(world(model("flux", queue(heads)), copies=(copy("flux"),)), ten_seconds)
    assert forecast.knows(heads[0])
    assert not forecast.knows(jobs("sdxl", 0)[0])


def test_nothing_is_promised_where_no_host_is_up() -> None:
    """People would be promised a time that cannot be kept."""
    waiting = jobs("flux", 0)
    down = (BackendView(name="b1", host="h1", up=False),)
    snapshot = world(model("flux", queue(waiting)), backends=down)
    assert Forecast(snapshot, ten_seconds).of(waiting[0], 1) is None


def test_nothing_is_promised_in_the_moment_in_which_a_job_starts() -> None:
    """People whose job starts at once would be told to come back tomorrow."""
    starting = queue((), more=1)
    hot = model("hot", on=("b2",))
    snapshot = world(
        model("flux", starting),
        hot,
        backends=TWO_BACKENDS,
        copies=(copy("flux", running=1), copy("hot", backend="b2")),
    )
    assert Forecast(snapshot, ten_seconds).of(jobs("flux", 0)[0], 1) is None


def test_a_held_job_is_expected_after_its_pause() -> None:
    """A job pausing after a failed attempt would be promised as if it started now."""
    held = jobs("flux", 0)[0]
    pausing = queue((), more=1, next_start_at=NOW + 20.0)
    snapshot = world(model("flux", pausing), copies=(copy("flux"),))
    assert done_in(snapshot, held, 1) == pytest.approx(30.0)


def test_asking_in_another_order_changes_no_answer() -> None:
    """Two people looking at the same queue would be told different times."""
    waiting = jobs("flux", 9, 8, 7, 6)
    snapshot = world(model("flux", queue(waiting)), copies=(copy("flux"),))
    forwards, backwards = Forecast(snapshot, ten_seconds), Forecast(snapshot, ten_seconds)
    told = [forwards.of(job, place) for place, job in enumerate(waiting, start=1)]
    again = [backwards.of(job, place) for place, job in reversed([*enumerate(waiting, start=1)])]
    assert told == again[::-1]


def test_a_forecast_leaves_its_world_alone() -> None:
    """The router would decide about a world that a question had changed."""
    waiting = jobs("flux", 9, 8)
    snapshot = world(model("flux", queue(waiting)), backends=TWO_BACKENDS)
    before = replace(snapshot)
    Forecast(snapshot, ten_seconds).of(waiting[1], 2)
    assert snapshot == before


def test_a_promise_never_lies_in_the_past() -> None:
    """People would be told to come back yesterday when those ahead are late."""
    waiting = jobs("flux", 2, 1, 0)
    snapshot = world(model("flux", queue(waiting)), copies=(copy("flux"),))
    late = NOW + 3600.0
    expected = Forecast(snapshot, ten_seconds).of(waiting[0], 4, late)
    assert expected is not None
    assert expected.start_at >= late


def test_a_server_is_free_again_once_it_has_unloaded() -> None:
    """While ComfyUI drops a model, nothing would be promised, or the wrong time."""
    waiting = jobs("flux", 0)
    snapshot = world(
        model("flux", queue(waiting)),
        model("sdxl"),
        copies=(
            copy("sdxl", residency=Residency.UNLOADING, running=1, vram_mb=8 * GB),
            copy("tiny", residency=Residency.UNLOADING, vram_mb=GB),
        ),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(2 + 30 + 10)


def test_a_server_is_busy_until_the_last_of_its_copies_has_come_or_gone() -> None:
    """ComfyUI would be expected to run a job during its own load."""
    waiting = jobs("flux", 0)
    snapshot = world(
        model("flux", queue(waiting)),
        copies=(
            copy("tiny", residency=Residency.UNLOADING, vram_mb=GB),
            copy("flux", residency=Residency.LOADING, ready_at=NOW + 20.0),
        ),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(20 + 10)
