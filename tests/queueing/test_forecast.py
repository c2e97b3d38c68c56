"""When a waiting job will be done, as told at its acceptance."""

from dataclasses import replace
from math import inf

import pytest

from queueing.core.jobs import Job
from queueing.core.standings import Promised
from queueing.core.world import BackendView, Flow, ModelView, Residency, World
from queueing.planning.estimates import Usual
from queueing.planning.forecast import Forecast
from queueing.planning.simulated_queue import Closed, Started, lines_of
from tests.queueing.worlds import GB, NOW, copy, jobs, line, model, world

TWO_BACKENDS = (BackendView(name="b1", host="h1"), BackendView(name="b2", host="h1"))


def ten_seconds(_job: Job, _backend: str) -> Usual:
    return Usual(samples=9, median_s=10.0, mean_s=10.0, spread_s=1.0)


def done_in(snapshot: World, job: Job, position: int, **options: int) -> float:
    """Return the seconds until the job is expected to be done."""
    expected = Forecast(snapshot, ten_seconds, **options).of(job, position)
    assert expected is not None
    return expected.done_at - NOW


def test_a_job_of_a_ready_model_takes_its_own_time() -> None:
    """The simplest promise of all would be wrong."""
    waiting = jobs("flux", 0)
    snapshot = world(model("flux", line(waiting)), copies=(copy("flux"),))
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(10.0)


def test_the_rest_of_what_runs_and_the_jobs_ahead_are_counted() -> None:
    """People would be promised their picture while another person's is being drawn."""
    waiting = jobs("flux", 3, 2, 1)
    running = copy("flux", running=1, ends_at=(NOW + 4.0,))
    snapshot = world(model("flux", line(waiting)), copies=(running,))
    assert done_in(snapshot, waiting[2], 3) == pytest.approx(34.0)


def test_a_job_that_should_be_done_by_now_is_expected_soon() -> None:
    """A job running over its time would make every promise behind it lie in the past."""
    waiting = jobs("flux", 0)
    late = copy("flux", running=1, ends_at=(NOW - 60.0,))
    snapshot = world(model("flux", line(waiting)), copies=(late,))
    assert 10.0 < done_in(snapshot, waiting[0], 1) < 15.0


def test_loads_on_the_way_are_counted() -> None:
    """The first job of a cold model would be promised without its load."""
    waiting = jobs("flux", 0)
    assert done_in(world(model("flux", line(waiting))), waiting[0], 1) == pytest.approx(40.0)
    coming = copy("flux", residency=Residency.LOADING, ready_at=NOW + 7.0)
    snapshot = world(model("flux", line(waiting)), copies=(coming,))
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(17.0)


def test_the_swap_before_a_load_is_counted() -> None:
    """Where two models take turns, a promise would ignore the line of the other one."""
    mine, others = jobs("flux", 0), jobs("sdxl", 5, 4)
    busy = copy("sdxl", running=1, ends_at=(NOW + 6.0,))
    snapshot = world(model("flux", line(mine)), model("sdxl", line(others)), copies=(busy,))
    assert done_in(snapshot, mine[0], 1) == pytest.approx(6 + 2 * 10 + 30 + 10)


def test_requests_still_to_come_are_expected() -> None:
    """A hot line would seem to end soon, and a cold model be promised its room far too early."""
    hot, cold = jobs("hot", 2, 1), jobs("cold", 0)
    busy = copy("hot", running=1, ends_at=(NOW + 5.0,))
    calm = world(model("hot", line(hot)), model("cold", line(cold)), copies=(busy,))
    asked_for = world(
        model("hot", line(hot), rate_per_s=0.1), model("cold", line(cold)), copies=(busy,)
    )
    assert done_in(asked_for, cold[0], 1) > 2 * done_in(calm, cold[0], 1)


def test_a_rush_is_not_expected_to_last() -> None:
    """After each burst people would be promised a wait behind many who never come."""
    (hot,) = lines_of(model("hot", rate_per_s=0.1), NOW)
    assert hot.count(NOW + 60.0) == 5
    assert hot.count(NOW + 7200.0) == hot.count(NOW + 14400.0) == 24
    assert hot.count(hot.next_arrival_at()) == 1


def test_a_rush_that_has_just_begun_is_taken_for_no_stream() -> None:
    """Hundreds at once would make each of them wait, as promised, for thousands more."""
    (all_at_once,) = lines_of(model("hot", rate_per_s=10.0), NOW, watched_s=0.0)
    (seen_for_long,) = lines_of(model("hot", rate_per_s=10.0), NOW, watched_s=600.0)
    assert all_at_once.count(NOW + 600.0) == 10
    assert seen_for_long.count(NOW + 600.0) > 2000


def test_a_line_that_has_grown_for_long_goes_on_growing() -> None:
    """In an evening that never lets up people would be promised half of their wait."""
    crowded = model("hot", line(jobs("hot", 3600.0), more=99), rate_per_s=0.1)
    (hot,) = lines_of(crowded, NOW, watched_s=7200.0)
    (just_started,) = lines_of(crowded, NOW, watched_s=30.0)
    assert hot.count(NOW + 3600.0) - 100 == 155
    assert just_started.count(NOW + 3600.0) - 100 == 12


def test_people_go_on_asking_while_hosts_have_quiet_hours() -> None:
    """Promises over a night would leave out those who come during it, and be hours too early."""
    closed = Closed(NOW + 600.0, NOW + 4200.0)
    (always,) = lines_of(model("hot", rate_per_s=0.1), NOW)
    (hot,) = lines_of(model("hot", rate_per_s=0.1), NOW, closed=closed)
    assert hot.count(closed.begins_at) == always.count(closed.begins_at) == 22
    assert hot.count(closed.ends_at) == 22 + 360
    assert hot.count(closed.ends_at + 240.0) == 22 + 360 + 21, "it subsides slowly afterwards"


@pytest.mark.parametrize("begins_s", [0.0, 100.0, 100_000.0])
def test_arrivals_over_quiet_hours_come_when_they_are_counted(begins_s: float) -> None:
    """A forecast would stand still at a moment for which none is due, or start jobs not there yet."""
    closed = Closed(NOW + begins_s, NOW + begins_s + 600.0)
    for rate_per_s in (0.0137, 0.37, 1.7):
        check_arrivals(rate_per_s, closed)


def check_arrivals(rate_per_s: float, closed: Closed) -> None:
    """Let people come one by one, each at the moment for which one more is counted."""
    (hot,) = lines_of(model("hot", rate_per_s=rate_per_s), NOW, closed=closed)
    last_at = NOW
    while (at := hot.next_arrival_at()) < inf and len(hot.starts) < 1000:
        assert at >= last_at
        assert hot.count(at) == len(hot.starts) + 1 == pytest.approx(hot.expected(at), abs=1e-4)
        hot.starts.append(Started(at, "b1"))
        last_at = at
    assert len(hot.starts) >= min(1000, hot.count(inf) - 1), "the last may be for ever on its way"


def test_a_place_behind_the_last_is_told_where_nobody_else_is_expected() -> None:
    """A person who meets a full line would hear that it does not move."""
    waiting = jobs("flux", 2, 1, 0)
    snapshot = world(model("flux", line(waiting)), copies=(copy("flux"),))
    expected = Forecast(snapshot, ten_seconds).of(waiting[0], 4, NOW)
    assert expected is not None
    assert expected.done_at - NOW == pytest.approx(40.0)


def test_a_long_line_is_continued_at_its_pace() -> None:
    """An estimate at the end of a very long line would cost seconds, or be missing."""
    heads = jobs("flux", 5, 4, 3)
    snapshot = world(model("flux", line(heads, more=99_997)), copies=(copy("flux"),))
    assert done_in(snapshot, heads[0], 100_000, most_starts=50) == pytest.approx(1e6, rel=0.01)


def test_a_forecast_of_a_long_wait_is_told_for_a_while() -> None:
    """With thousands waiting, a new forecast for each who joins would cost more than all else."""
    heads = jobs("flux", 5, 4, 3)
    snapshot = world(model("flux", line(heads, more=99_997)), copies=(copy("flux"),))
    forecast = Forecast(snapshot, ten_seconds, most_starts=50)
    tells = [
        [forecast.still_tells(heads[0], 90_000, NOW + age_s, news=news) for news in (False, True)]
        for age_s in (1_000.0, 20_000.0, 60_000.0)
    ]
    assert tells == [[True, True], [True, False], [False, False]]


def test_news_makes_a_forecast_that_sees_everything_old() -> None:
    """A model that has begun to wait beside a short line would be left out of its promises."""
    heads = jobs("flux", 5, 4, 3)
    snapshot = world(model("flux", line(heads)), copies=(copy("flux"),))
    forecast = Forecast(snapshot, ten_seconds)
    assert forecast.still_tells(heads[2], 3, NOW + 0.1, news=False)
    assert not forecast.still_tells(heads[2], 3, NOW + 0.1, news=True)


def test_a_forecast_knows_the_lines_it_has_seen() -> None:
    """The first job of a model would get no promise from a forecast made before it came."""
    heads = jobs("flux", 1)
    forecast = Forecast(world(model("flux", line(heads)), copies=(copy("flux"),)), ten_seconds)
    assert forecast.knows(heads[0])
    assert not forecast.knows(jobs("sdxl", 0)[0])


def test_nothing_is_promised_where_no_host_is_up() -> None:
    """People would be promised a moment that no one can keep."""
    waiting = jobs("flux", 0)
    down = (BackendView(name="b1", host="h1", up=False),)
    snapshot = world(model("flux", line(waiting)), backends=down)
    assert Forecast(snapshot, ten_seconds).of(waiting[0], 1) is None


def test_nothing_is_promised_in_the_moment_in_which_a_job_starts() -> None:
    """People whose job starts at once would be told to come back tomorrow."""
    starting = line((), more=1)
    hot = model("hot", on=("b2",), rate_per_s=0.1)
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
    pausing = line((), more=1, next_start_at=NOW + 20.0)
    snapshot = world(model("flux", pausing), copies=(copy("flux"),))
    assert done_in(snapshot, held, 1) == pytest.approx(30.0)


def test_the_spread_grows_with_the_wait() -> None:
    """A far promise would claim to be as sure as a near one."""
    waiting = jobs("flux", 9, 8, 7, 6, 5)
    forecast = Forecast(world(model("flux", line(waiting)), copies=(copy("flux"),)), ten_seconds)
    near, far = forecast.of(waiting[0], 1), forecast.of(waiting[4], 5)
    assert near is not None
    assert far is not None
    assert near.spread_s == pytest.approx(1.0)
    assert far.spread_s > 2 * near.spread_s


def test_the_spread_grows_with_those_who_may_come_and_go_first() -> None:
    """A moment that a few requests of another lane move would be told without a word of doubt."""

    def spread_s(lane: str, *, asked_for: bool) -> float:
        waiting = jobs("flux", 3, 2, 1, lane="relaxed")
        flows = {"relaxed": Flow(0.01), lane: Flow(0.02 * asked_for)}
        asked = replace(model("flux", line(waiting)), flows=flows)
        expected = Forecast(world(asked, copies=(copy("flux"),)), ten_seconds).of(waiting[2], 3)
        assert expected is not None
        return expected.spread_s

    calm_s = spread_s("vip", asked_for=False)
    assert spread_s("relaxed", asked_for=True) == calm_s  # its own lane comes behind it
    assert spread_s("vip", asked_for=True) > 3 * calm_s


def test_the_spread_of_a_turn_grows_with_those_who_may_come_to_the_models_before_it() -> None:
    """The moment a model gets its card depends on when the line before it ends."""

    def spread_s(per_s: float, size_mb: int) -> float:
        first, then = jobs("flux", 9, 8, 7), jobs("qwen", 1)
        busy = replace(model("flux", line(first)), rate_per_s=per_s)
        snapshot = world(
            replace(busy, vram_mb=size_mb),
            replace(model("qwen", line(then)), vram_mb=16 * GB),
            copies=(replace(copy("flux"), vram_mb=size_mb),),
        )
        expected = Forecast(snapshot, ten_seconds).of(then[0], 1)
        assert expected is not None
        return expected.spread_s

    assert spread_s(0.02, 16 * GB) > 2 * spread_s(0.0, 16 * GB)


def test_asking_in_another_order_changes_no_answer() -> None:
    """Two people looking at the same line would be told different times."""
    waiting = jobs("flux", 9, 8, 7, 6)
    snapshot = world(model("flux", line(waiting)), copies=(copy("flux"),))
    forwards, backwards = Forecast(snapshot, ten_seconds), Forecast(snapshot, ten_seconds)
    told = [forwards.of(job, place) for place, job in enumerate(waiting, start=1)]
    again = [backwards.of(job, place) for place, job in reversed([*enumerate(waiting, start=1)])]
    assert told == again[::-1]


def test_a_forecast_leaves_its_world_alone() -> None:
    """The router would decide on a world that a question had changed."""
    waiting = jobs("flux", 9, 8)
    snapshot = world(model("flux", line(waiting)), backends=TWO_BACKENDS)
    before = replace(snapshot)
    Forecast(snapshot, ten_seconds).of(waiting[1], 2)
    assert snapshot == before


def test_a_promise_never_lies_in_the_past() -> None:
    """Where those ahead have not begun as expected, people would be told to come back yesterday."""
    waiting = jobs("flux", 2, 1, 0)
    snapshot = world(model("flux", line(waiting)), copies=(copy("flux"),))
    late = NOW + 3600.0
    expected = Forecast(snapshot, ten_seconds).of(waiting[0], 4, late)
    assert expected is not None
    assert expected.start_at >= late


def test_a_server_is_free_again_once_it_has_unloaded() -> None:
    """No one would be promised anything while ComfyUI drops a model, or the wrong thing."""
    waiting = jobs("flux", 0)
    snapshot = world(
        model("flux", line(waiting)),
        model("sdxl"),
        copies=(
            copy("sdxl", residency=Residency.UNLOADING, running=1, vram_mb=8 * GB),
            copy("tiny", residency=Residency.UNLOADING, vram_mb=GB),
        ),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(2 + 30 + 10)


def test_a_server_is_busy_until_the_last_of_its_copies_has_come_or_gone() -> None:
    """ComfyUI would be expected to run a job beside its own load."""
    waiting = jobs("flux", 0)
    snapshot = world(
        model("flux", line(waiting)),
        copies=(
            copy("tiny", residency=Residency.UNLOADING, vram_mb=GB),
            copy("flux", residency=Residency.LOADING, ready_at=NOW + 20.0),
        ),
        backends=(BackendView(name="b1", host="h1", serial=True),),
    )
    assert done_in(snapshot, waiting[0], 1) == pytest.approx(20 + 10)


def test_a_forecast_gets_on_at_moments_of_today() -> None:
    """A forecast would look 500 times at a moment for which no arrival is due."""
    today = 1_790_000_000.0
    for rate in (0.0137, 0.111, 0.37, 1.7):
        asked = ModelView(name="flux", vram_mb=1, backends=("b1",), rate_per_s=rate)
        (line,) = lines_of(asked, today)
        for _ in range(20):
            at = line.next_arrival_at()
            if at == inf:
                break
            assert line.count(at) > len(line.starts)
            line.starts.append(Started(at, "b1"))


# ------------------------------------------------------------ those who come later and go first


def relaxed_of(**flows: float) -> tuple[World, Job]:
    """Return a world in which the second of two relaxed jobs waits for 20 s, and that job."""
    waiting = jobs("flux", 0, 0, lane="relaxed")
    running = copy("flux", running=1, ends_at=(NOW + 10.0,))
    asked = replace(
        model("flux", line(waiting)), flows={lane: Flow(rate) for lane, rate in flows.items()}
    )
    return world(asked, copies=(running,)), waiting[1]


def test_parts_of_requests_expected_in_favoured_lanes_delay_a_promise() -> None:
    """Three lanes that each expect half a request before a turn would add nothing to its promise."""
    alone, job = relaxed_of(relaxed=0.001)
    assert done_in(alone, job, 2) == pytest.approx(30.0)
    one, job = relaxed_of(relaxed=0.001, vip=0.02)
    assert 32.0 <= done_in(one, job, 2) <= 36.0  # kept if none of them comes; if one does, maybe
    many, job = relaxed_of(relaxed=0.001, vip=0.04, normal=0.04)
    assert done_in(many, job, 2) > 40.0


def test_one_who_may_come_first_does_not_break_a_promise_that_none_breaks() -> None:
    """A promise between the two moments at which a job may end would be kept at neither."""
    for rate in (0.005, 0.01, 0.02):
        asked, job = relaxed_of(relaxed=0.001, vip=rate)
        promise = Promised(given_at=NOW, done_at=NOW + done_in(asked, job, 2))
        assert promise.kept(NOW + 30.0)


def test_only_as_many_are_expected_to_go_first_as_their_lane_has_turns() -> None:
    """A lane that has had its turns would go on pushing back the promises of the others."""
    world_of_two, job = relaxed_of(relaxed=0.001, vip=0.02)
    had_its_turns = replace(world_of_two, lane_spent={("flux", "vip"): 100, ("flux", "relaxed"): 0})
    waiting = jobs("flux", 0, lane="vip")
    view = replace(
        had_its_turns.models["flux"], waiting=(*had_its_turns.models["flux"].waiting, line(waiting))
    )
    held = replace(had_its_turns, models={"flux": view})
    assert done_in(held, job, 2) == pytest.approx(30.0)
