"""A forecast goes on with those who come after it was made, as long as they change nothing before."""

import pytest

from queueing.core.jobs import Job, stand_in
from queueing.core.world import BackendView, World
from queueing.planning.estimates import Usual
from queueing.planning.forecast import Forecast
from tests.queueing.worlds import NOW, copy, jobs, line, model, world

LATE = 900  # the number of the job that comes later
LONGER_S = 25.0


def by_number(job: Job, _backend: str) -> Usual:
    seconds = LONGER_S if job.id == LATE else 10.0
    return Usual(samples=9, median_s=seconds, mean_s=seconds, spread_s=1.0)


def late(after_s: float, name: str = "flux") -> Job:
    return stand_in(LATE, name, NOW + after_s)


def start_of(forecast: Forecast, job: Job, position: int, now: float) -> float:
    expected = forecast.of(job, position, now)
    assert expected is not None
    return expected.start_at


def busy_line(more: int = 0) -> tuple[World, tuple[Job, ...]]:
    """Return a busy model, two jobs of its line, and as many behind them whose requests are unknown."""
    waiting = jobs("flux", 3, 2)
    running = copy("flux", running=1, ends_at=(NOW + 8.0,))
    return world(model("flux", line(waiting, more=more)), copies=(running,)), waiting


def asked(more: int = 0) -> Forecast:
    """Return a forecast of that line that has been asked about its last job."""
    snapshot, waiting = busy_line(more)
    forecast = Forecast(snapshot, by_number)
    assert start_of(forecast, waiting[1], 2 + more, NOW) == pytest.approx(NOW + 18.0 + 10.0 * more)
    return forecast


def test_one_who_joins_a_line_needs_no_other_forecast() -> None:
    """In a crowd every request would cost as much as all that wait before it."""
    forecast, now = asked(), NOW + 0.5
    assert forecast.still_tells(late(0.5), 3, now, news=False)
    assert start_of(forecast, late(0.5), 3, now) == pytest.approx(NOW + 28.0)


@pytest.mark.parametrize("more", [0, 2])
def test_what_one_who_joined_asks_for_counts_for_the_next(more: int) -> None:
    """Behind a long film, the next person would be promised the time of a usual one."""
    forecast, now = asked(more), NOW + 0.5
    assert forecast.still_tells(late(0.5), 3 + more, now, news=False)
    after = stand_in(LATE + 1, "flux", now)
    assert forecast.still_tells(after, 4 + more, now, news=False)
    begins_at = NOW + 28.0 + 10.0 * more + LONGER_S
    assert start_of(forecast, after, 4 + more, now) == pytest.approx(begins_at)


def test_a_job_asked_about_twice_joins_once() -> None:
    """Each look at a message would put a further job into its line."""
    forecast, now = asked(), NOW + 0.5
    assert all(forecast.still_tells(late(0.5), 3, now, news=False) for _ in range(3))
    after = stand_in(LATE + 1, "flux", now)
    assert forecast.still_tells(after, 4, now, news=False)
    assert start_of(forecast, after, 4, now) == pytest.approx(NOW + 28.0 + LONGER_S)


def test_no_one_joins_a_line_that_has_been_seen_to_its_end() -> None:
    """The promise would be of a model that another one has displaced by then."""
    snapshot, _ = busy_line()
    cold = jobs("sdxl", 1)
    card = BackendView(name="b1", host="h1", serial=True)
    both = world(
        *snapshot.models.values(),
        model("sdxl", line(cold), vram_mb=16_000),
        copies=snapshot.copies,
        backends=(card,),
    )
    forecast = Forecast(both, by_number)
    assert start_of(forecast, cold[0], 1, NOW) > NOW + 28.0  # after all of the other line
    assert not forecast.still_tells(late(0.5), 3, NOW + 0.5, news=False)


def test_no_one_joins_a_model_whose_copy_is_free() -> None:
    """They begin at once, and a forecast in which the copy rests says nothing of that."""
    snapshot = world(model("flux"), copies=(copy("flux"),))
    forecast = Forecast(snapshot, by_number)
    assert not forecast.still_tells(late(0.1), 1, NOW + 0.1, news=False)


def test_a_forecast_as_old_as_a_short_wait_takes_no_one_in() -> None:
    """The moment of a near turn would rest on what was known before others ended."""
    forecast = asked()
    assert not forecast.still_tells(late(2.0), 3, NOW + 2.0, news=False)
    assert forecast.still_tells(late(0.7), 3, NOW + 0.7, news=False)


def test_news_keeps_everyone_from_joining() -> None:
    """A model that has begun to wait since would be left out of the promise."""
    forecast = asked()
    assert not forecast.still_tells(late(0.1), 3, NOW + 0.1, news=True)
