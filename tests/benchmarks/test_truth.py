"""The trial of truth, for three minutes: what messages say agrees with /queue and with the servers."""

import asyncio
import json
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from benchmarks.truth.__main__ import main
from benchmarks.truth.claims import Claim, Truth
from benchmarks.truth.crowd import Server
from benchmarks.truth.promises import Promise, broken, pooled, seeds_of
from benchmarks.truth.watch import Watch, flips
from bot.chat.delivery.stale_messages import StaleMessages
from tests.fakes.backend import Card
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import Bot

KEYS = {
    "answers_429",
    "broken_by_lane",
    "budget_wait_s_p95",
    "contradictions",
    "flips_per_job",
    "kept_by_lane",
    "looks",
    "past_moments",
    "seed",
    "untrue_reasons",
    "within_spread_by_lane",
}
POOLED = {
    "answers_429",
    "below_by_lane",
    "contradictions",
    "crowds",
    "faulty_seeds",
    "flips_per_job",
    "kept_by_lane",
    "looks",
    "past_moments",
    "promises_by_lane",
    "untrue_reasons",
    "within_spread_by_lane",
}


def figures(capsys: pytest.CaptureFixture[str], seed: int) -> dict[str, float]:
    main(["--json", "--minutes", "3", "--seed", str(seed)])
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def test_messages_say_what_queue_says_and_name_no_moment_that_has_passed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """People would read promises long broken, and another place than they are told in /queue."""
    found = figures(capsys, 7)
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
    found = figures(capsys, 7)
    assert found["contradictions"] > 0
    assert found["past_moments"] > 0


def test_crowds_are_added_up_and_single_ones_are_told_from_luck() -> None:
    """A crowd of thirty promises says little: four in ten of them would seem too few by chance."""

    def crowd(seed: int, kept: int, number: int, untrue: int = 0) -> dict[str, object]:
        counts = {"promises": number, "fault": 1, "overtaken": number - kept - 1}
        return {
            "seed": seed,
            "looks": 100,
            "contradictions": 0,
            "past_moments": 0,
            "untrue_reasons": untrue,
            "answers_429": 0,
            "flips_per_job": 0.5,
            "within_spread_by_lane": {"relaxed": 0.5 + 0.1 * seed},
            "broken_by_lane": {"relaxed": counts},
        }

    found = pooled([crowd(1, 25, 30), crowd(2, 23, 30, untrue=2)])
    assert found["crowds"] == 2
    assert (found["looks"], found["untrue_reasons"], found["faulty_seeds"]) == (200, 2, [2])
    assert found["kept_by_lane"] == {"relaxed": 0.8}
    assert found["within_spread_by_lane"] == {"relaxed": 0.65}
    assert found["below_by_lane"] == {"relaxed": {"seen": 1, "by_luck": 0.8}}


def test_seeds_are_named_by_ranges_and_pooled(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures of many crowds would have to be added by hand."""
    assert seeds_of("1-3,7") == [1, 2, 3, 7]
    main(["--json", "--minutes", "2", "--crowd", "0.5", "--seeds", "1-2"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == POOLED
    assert found["crowds"] == 2
    assert found["looks"] > 0


def test_only_what_turns_back_by_more_than_a_fifth_is_a_flip() -> None:
    """A time that is corrected once would be counted as one that sways."""
    assert flips([(0, 100), (10, 130), (20, 160)]) == 0
    assert flips([(0, 100), (10, 130), (20, 128)]) == 0
    assert flips([(0, 100), (10, 130), (20, 90), (30, 140)]) == 2


def test_time_behind_the_first_ten_is_not_counted_as_a_contradiction() -> None:
    """One that came among them twice for a second would seem to have been wrong all the while."""
    watch = Watch(cast("Bot", None), cast("FakeChat", None), cast("Truth", None))
    for now, said in ((0.0, "#10 in line"), (1.0, "#11 in line"), (20.0, "#10 in line")):
        watch.compare(1, "#11 in line", said, now, free=True)
    assert not watch.differs.cases
    watch.compare(1, "#11 in line", "#10 in line", 26.0, free=True)
    assert len(watch.differs.cases) == 1


def test_an_edit_that_says_what_queue_just_said_ends_a_difference() -> None:
    """A place that moves every three seconds, and is told each time, would count as never told."""
    places = ["#2", "#2", "#2", "#3", "#3", "#3"] * 3

    def cases(*, told: bool) -> int:
        """Return the differences while every third look is followed by an edit, three seconds late."""
        watch = Watch(cast("Bot", None), cast("FakeChat", None), cast("Truth", None))
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
    """A picture that fails would make a lie of what no one could know better."""
    server = Server("studio", Card(total_mb=24000, budget_mb=24000), Random(1))
    truth_ = Truth({"studio": server, "workshop": server, "attic": server})
    claim = Claim("first", "a", "qwen", "flux", "gpu-1")
    server.starts = [(100.0, "flux", "b"), (120.0, "qwen", "a")]
    assert truth_.came_true(claim, 99.0)
    assert not truth_.came_true(claim, 105.0)
    server.upsets.append((110.0, "qwen"))
    assert not truth_.came_true(claim, 105.0)
    server.upsets.append((110.0, "flux"))
    assert truth_.came_true(claim, 105.0)
    assert not truth_.came_true(claim, 111.0)


def test_a_running_job_is_waited_for_alone_unless_another_waits_behind_it() -> None:
    """The next of a line that begins would not be seen, or one that comes later held against it."""
    server = Server("studio", Card(total_mb=24000, budget_mb=24000), Random(1))
    truth_ = Truth({"studio": server, "workshop": server, "attic": server})
    claim = Claim("runs", "a", "qwen", "flux", "gpu-1")
    truth_.accepted = {"a": 90.0, "b": 80.0, "c": 108.0}
    server.starts = [(100.0, "flux", "b"), (110.0, "flux", "c"), (120.0, "qwen", "a")]
    assert truth_.came_true(claim, 105.0)
    assert not truth_.came_true(claim, 109.0)
    assert truth_.came_true(claim, 115.0)
    assert truth_.holds(claim) is False  # none runs there now


def test_a_broken_promise_is_put_down_to_what_came_in_between() -> None:
    """Misses no one could know of would be taken for wrong estimates, or the other way round."""
    server = Server("studio", Card(total_mb=24000, budget_mb=24000), Random(1))
    late = Promise(lane="relaxed", model="flux", prompt="a", at=100.0, promised=120.0, ended=150.0)
    other = replace(late, prompt="b", at=110.0, promised=148.0)

    def causes(promise: Promise, *starts: tuple[float, str, str]) -> dict[str, int]:
        server.starts = list(starts)
        return broken([promise, other], {"studio": server})["relaxed"]

    alone, first = (140.0, "flux", "a"), (130.0, "flux", "b")
    assert causes(late, alone) == {"promises": 2, "other": 1}
    assert causes(late, first, alone) == {"promises": 2, "overtaken": 1}
    assert causes(replace(late, ended=105.0), alone) == {"promises": 2, "early": 1}
    assert causes(replace(late, promised=145.0), alone) == {"promises": 2}
    server.faults.append(145.0)
    assert causes(late, first, alone) == {"promises": 2, "fault": 1}
