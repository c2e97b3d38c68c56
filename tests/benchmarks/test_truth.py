"""Three minutes of the truth benchmark: messages agree with /queue and with the servers."""

import asyncio
import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from benchmarks.truth.__main__ import main
from benchmarks.truth.claims import Claim, Truth
from benchmarks.truth.crowd import Server
from benchmarks.truth.promises import Promise, Run, figures, seeds_of
from benchmarks.truth.reading import Fault, is_read, moment_fault, place_fault, said_in
from benchmarks.truth.watch import Watch
from bot.core.content import Body, Moment, Period
from bot.delivery.standings import StaleMessages
from bot.texts import status
from queueing.core.jobs import JobState, stand_in
from queueing.core.requests import TextToImage
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Estimate, Standing
from tests.fakes.servers.backend import FakeGpu

if TYPE_CHECKING:
    from tests.simulation.bot_installation import Bot

FIRST_RUNS = {"first_run_coverage", "first_runs"}
KEYS = FIRST_RUNS | {
    "answers_429",
    "contradictions",
    "coverage_as_read",
    "coverage_by_lane",
    "crowds",
    "ended_before_by_lane",
    "faulty_seeds",
    "jobs_by_lane",
    "lanes_outside",
    "looks",
    "moment_true_share",
    "never_told",
    "past_moments",
    "place_true_share",
    "untrue_reasons",
    "untrue_share_by_cause",
    "width_by_lane",
    "width_over_wait_p50",
}


def measured(
    capsys: pytest.CaptureFixture[str], seed: int, *, minutes: int = 3
) -> dict[str, float]:
    main(["--json", "--minutes", str(minutes), "--seed", str(seed)])
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def test_messages_say_what_queue_says_and_name_no_moment_that_has_passed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """People would read times that have passed, and another place than /queue shows."""
    found = measured(capsys, 7)
    assert found.keys() == KEYS
    assert found["looks"] >= 200
    assert found["contradictions"] == found["past_moments"] == found["untrue_reasons"] == 0
    assert found["answers_429"] == 0


@pytest.mark.thorough
def test_the_trial_sees_messages_that_nobody_looks_after(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its zeros would mean nothing."""

    async def asleep(_stale_messages: StaleMessages) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(StaleMessages, "run", asleep)
    found = measured(capsys, 7, minutes=20)
    assert found["contradictions"] > 0
    assert found["past_moments"] > 0


def test_crowds_are_added_up_and_each_lane_of_many_jobs_is_judged() -> None:
    """A share of thirty jobs would count as much as one of three hundred, or no lane be judged."""
    promise = Promise(
        lane="vip", at=0.0, earliest=50.0, latest=90.0, ended=80.0, read=(60.0, 120.0)
    )
    early, late = replace(promise, ended=40.0), replace(promise, ended=100.0, measured=False)

    def crowd(seed: int, *promises: Promise, untrue: int = 0) -> Run:
        counts = {"looks": 100, "contradictions": 0, "past_moments": 0, "untrue_reasons": untrue}
        run = Run(seed=seed, counts=counts, promises=list(promises))
        run.reads["place", "busy"] = 10
        run.untrue["place", "busy", "stale"] = seed
        return run

    other = [replace(promise, lane="normal")] * 80 + [replace(late, lane="normal")] * 20
    found = figures([crowd(1, *[promise] * 60, *[early] * 40), crowd(3, *other, late, untrue=2)])
    assert found["crowds"] == 2
    assert (found["looks"], found["untrue_reasons"], found["faulty_seeds"]) == (200, 2, [3])
    assert found["jobs_by_lane"] == {"normal": 100, "vip": 101}
    assert found["coverage_by_lane"] == {"normal": 0.8, "vip": 0.594}
    assert found["coverage_as_read"] == {"normal": 1.0, "vip": 0.604}
    assert found["ended_before_by_lane"] == {"normal": 0.0, "vip": 0.396}
    assert found["lanes_outside"] == ["1/vip: 0.600 of 100"]
    assert found["width_by_lane"] == {"normal": 0.5, "vip": 0.5}
    assert found["place_true_share"] == {"private": None, "quiet": None, "busy": 0.8}
    assert found["untrue_share_by_cause"] == {"busy place stale": 0.2}


def test_seeds_are_named_by_ranges_and_pooled(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures of many crowds would have to be added by hand."""
    assert seeds_of("1-3,7") == [1, 2, 3, 7]
    main(["--json", "--minutes", "2", "--crowd", "0.5", "--seeds", "1-2"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == KEYS
    assert found["crowds"] == 2
    assert found["looks"] > 0


NOW = 1000.0
ENDS = Estimate(at=1080.0, earliest=1070.0, latest=1130.0)
JOB = replace(stand_in(1, "flux", 0.0), request=TextToImage(prompt="a cat"))
WAITS = Standing(job=JOB, shown="ready", position=3, ends=ENDS)
SOON = replace(WAITS, ends=replace(ENDS, soon=True))


def body(*, place: str = "⏳ flux · #3 in line", end: Moment | Period | None = None) -> Body:
    return (place, " · ready about ", end or Period.around(1070.0, 1130.0))


def blocked(why: WaitCause, **fields: Any) -> Standing:
    return replace(WAITS, reason=Reason(why=why, model="flux"), **fields)


def running(standing: Standing) -> Standing:
    return replace(standing, job=replace(standing.job, state=JobState.PROCESSING), position=None)


@pytest.mark.parametrize(
    ("place", "standing", "fault"),
    [
        ("⏳ flux · #3 in line", WAITS, None),
        ("⏳ flux · #3 in line", replace(WAITS, position=2), Fault.STALE),
        ("⏳ flux · #3 in line", replace(WAITS, position=None), Fault.STALE),
        ("⏳ flux · #1 in line", running(WAITS), Fault.STALE),
        ("⏳ flux · at most 2 ahead", WAITS, None),
        ("⏳ flux · at most 2 ahead", replace(WAITS, position=4), Fault.STALE),
        ("⏳ flux · at most 2 ahead", running(WAITS), None),
        ("⏳ flux · nobody ahead", replace(WAITS, position=1), None),
        ("⏳ flux · nobody ahead", WAITS, Fault.STALE),
        ("Busy: about 3 min\n⏳ flux · accepted", WAITS, Fault.MISSING),
        ("⏳ flux · accepted", replace(WAITS, position=None), Fault.MISSING),
        ("🎨 drawing with flux", WAITS, Fault.MISSING),
        ("⏳ flux · accepted", replace(WAITS, position=None, overflow=True), None),
        ("⏳ flux · accepted", blocked(WaitCause.HELD, position=None), None),
        ("⏳ flux · accepted", blocked(WaitCause.LATER, position=None), None),
        ("⏳ flux · accepted", blocked(WaitCause.OFFLINE, position=None), None),
        ("⏳ flux · accepted", blocked(WaitCause.OFFLINE), Fault.MISSING),
        ("📦 loading flux on gpu-1", replace(WAITS, position=1), None),
        ("📦 loading flux on gpu-1", WAITS, Fault.STALE),
    ],
)
def test_a_place_is_true_if_queue_tells_it(
    place: str, standing: Standing, fault: Fault | None
) -> None:
    """A message without a place, or with an old one, would count as true."""
    said = said_in(body(place=place))
    assert is_read(said, standing)
    assert place_fault(said, standing) is fault


@pytest.mark.parametrize(
    ("end", "standing", "now", "fault"),
    [
        (None, WAITS, NOW, None),
        (None, WAITS, 1140.0, None),  # shown to the minute: until 1140
        (None, replace(WAITS, ends=None), NOW, None),
        (None, WAITS, 1140.5, Fault.PASSED),
        (None, running(WAITS), 1140.5, Fault.PASSED),
        (Period.around(900.0, 1060.0), WAITS, NOW, None),
        (Period.around(900.0, 1010.0), WAITS, NOW, Fault.APART),
        (Period.around(1200.0, 1260.0), WAITS, NOW, Fault.APART),
        (Moment(1130.0), WAITS, 1064.0, Fault.TOO_SOON),
        (Moment(1130.0), SOON, 1065.0, None),
        (Moment(1066.0), SOON, 1065.0, Fault.APART),
        (Moment(1130.0), WAITS, 1130.5, Fault.PASSED),
        (Moment(900.0, clock=True), WAITS, NOW, Fault.MISSING),  # that of a reason
        (Moment(900.0, clock=True), blocked(WaitCause.OFFLINE), NOW, None),
        (Moment(900.0, clock=True), blocked(WaitCause.HELD), NOW, None),
        (Moment(900.0, clock=True), replace(WAITS, overflow=True), NOW, None),
        (None, blocked(WaitCause.PAUSED), NOW, Fault.NEEDLESS),
    ],
)
def test_a_range_is_true_until_it_has_passed_and_while_the_estimate_agrees(
    end: Moment | Period | None, standing: Standing, now: float, fault: Fault | None
) -> None:
    """A message without a range, or with one that has passed, would count as true."""
    assert moment_fault(said_in(body(end=end)), standing, now) is fault


@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("state", [JobState.PENDING, JobState.PROCESSING])
def test_every_message_is_true_when_it_is_drawn(state: JobState, *, soon: bool, late: bool) -> None:
    """A change in the texts would make every message untrue, or none."""
    now = 1070.0 if soon else NOW
    standing = replace(WAITS, ends=replace(ENDS, soon=soon, late=late))
    if state is JobState.PROCESSING:
        standing = running(standing)
    said = said_in(status.open_message(standing, None, "en", previews=False).body)
    assert (said.place, said.waits) == (standing.position, state is JobState.PENDING)
    assert (said.earliest, said.latest) == ((None, 1130.0) if soon else (1020.0, 1140.0))
    assert place_fault(said, standing) is moment_fault(said, standing, now) is None


def test_first_runs_are_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A developer who changes a prior would have to wait for a crowd."""
    main(["--json", "--world", "first-runs"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == FIRST_RUNS
    assert found["first_runs"] == 14
    assert found["first_run_coverage"] > 0


def test_time_behind_the_first_ten_is_not_counted_as_a_contradiction() -> None:
    """A job that is twice among the first ten for a second would seem wrong all the time."""
    watch = Watch(cast("Bot", None), cast("Truth", None), Run(seed=1))
    for now, said in ((0.0, "#10 in line"), (1.0, "#11 in line"), (20.0, "#10 in line")):
        watch.compare(1, "#11 in line", said, now, free=True)
    assert not watch.differs.cases
    watch.compare(1, "#11 in line", "#10 in line", 26.0, free=True)
    assert len(watch.differs.cases) == 1


def test_an_edit_that_says_what_queue_just_said_ends_a_difference() -> None:
    """A place that changes every three seconds, and is always shown, would count as never shown."""
    places = ["#2", "#2", "#2", "#3", "#3", "#3"] * 3

    def cases(*, told: bool) -> int:
        """Return the differences if each third check is followed by an edit, three seconds late."""
        watch = Watch(cast("Bot", None), cast("Truth", None), Run(seed=1))
        shown = "#1"
        for second, said in enumerate(places):
            watch.compare(1, shown, said, second, free=True)
            if second % 3 == 2:
                shown = said if told else f"{said}, once"
                watch.mended(1, shown, second + 0.5)
        return len(watch.differs.cases)

    assert cases(told=True) == 0
    assert cases(told=False) == 1


def test_what_was_to_come_first_and_failed_was_not_untrue_when_it_was_said() -> None:
    """A failed image would make a statement untrue that was true when it was made."""
    server = Server("studio", FakeGpu(total_mb=24000, budget_mb=24000), Random(1))
    truth_ = Truth({"studio": server, "workshop": server, "attic": server})
    claim = Claim("kept", "a", "qwen", "flux", "gpu-1")
    server.starts = [(100.0, "flux", "b"), (120.0, "qwen", "a")]
    assert truth_.came_true(claim, 99.0)
    assert not truth_.came_true(claim, 105.0)
    server.upsets.append((110.0, "qwen"))
    assert not truth_.came_true(claim, 105.0)
    server.upsets.append((110.0, "flux"))
    assert truth_.came_true(claim, 105.0)
    assert not truth_.came_true(claim, 111.0)
