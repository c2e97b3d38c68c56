"""The benchmark of cards that are given back counts what it says."""

from math import inf
from pathlib import Path

import pytest

from benchmarks.given_back import compare_quiet, idle_run, missed
from benchmarks.given_back_games import GameRun, Stay, compare_games
from benchmarks.given_back_sleep import compare_sleep
from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel


def trace(*arrivals_s: float) -> Trace:
    return Trace(
        hosts=(TraceHost(name="h", vram_mb=10_000, backends=(TraceBackend(name="b"),)),),
        models=(TraceModel(name="m", vram_mb=4000, load_s=30.0, service_s=10.0, backends=("b",)),),
        jobs=tuple(TraceJob(at=at, model="m", service_s=10.0) for at in arrivals_s),
    )


@pytest.mark.parametrize(
    ("after_s", "loads", "left", "again"), [(inf, 1, 0, 0), (60.0, 3, 2, 1), (900.0, 1, 0, 0)]
)
def test_copies_that_left_and_were_missed_are_counted(
    after_s: float, loads: int, left: int, again: int
) -> None:
    """It stays for twice the minute and is missed at 170 s; at 900 s it has long been gone again."""
    run = idle_run(trace(0.0, 170.0, 900.0), after_s)
    outcome = run.played()
    assert (len(outcome.loads), len(run.left)) == (loads, left)
    assert missed(run, outcome) == again


def test_promises_over_quiet_hours_are_counted_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quiet minute is from 60 to 120 s: one comes in it, and one before cannot be done in time."""
    file = tmp_path / "small.json"
    file.write_text(trace(0.0, 50.0, 70.0, 180.0).model_dump_json())
    assert compare_quiet([file])
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("small"))
    assert row.split() == ["small", "1/1", "1/1", "1/1", "2/2", "0", "0"]


def two_cards(*arrivals_s: float) -> Trace:
    """Return a trace whose model may lie on either of two cards."""
    one = trace(*arrivals_s)
    other = TraceHost(name="i", vram_mb=10_000, backends=(TraceBackend(name="c"),))
    (model,) = one.models
    models = (model.model_copy(update={"backends": ("b", "c")}),)
    return one.model_copy(update={"hosts": (*one.hosts, other), "models": models})


def test_promises_beside_a_game_are_counted_by_what_could_be_known() -> None:
    """The card is taken from 160 s and given back two minutes after it was last seen at 495 s."""
    asked = trace(0.0, 50.0, 140.0, 140.0, 140.0, 140.0, 400.0, 900.0)
    run = GameRun(asked, {"h": [Stay(160.0, 500.0, 6000)]})
    outcome = run.played()
    assert outcome.jobs[5].started_s == 645.0, "the last of the four"
    assert run.untold == 1, "who asked in the stay"
    (rest,) = run.rests
    assert (rest.begins_s, rest.seen_s, rest.over_s) == (160.0, 165.0, 615.0)
    found = dict(run.kept(outcome, run.kind))
    assert {kind: len(kept) for kind, kept in found.items()} == {
        "others": 5,
        "unforeseen": 1,
        "back": 2,
        "after": 1,
    }
    assert not any(found.pop("unforeseen"))
    assert all(all(kept) for kept in found.values())


def test_what_is_told_on_another_card_is_counted_apart() -> None:
    """A card that comes back early makes a job of the other one end sooner than told."""
    run = GameRun(two_cards(0.0, 300.0, *[600.0] * 12), {"h": [], "i": [Stay(100, 500, 6000)]})
    found = run.kept(run.played(), run.kind)
    assert {kind: len(kept) for kind, kept in found.items() if kind != "back"} == {
        "others": 1,
        "during": 3,
        "unforeseen": 10,
    }


def test_the_table_of_games_fails_below_four_of_five(capsys: pytest.CaptureFixture[str]) -> None:
    arrivals = [60.0 * number for number in range(30)]
    assert compare_games([("small", trace(*arrivals))], 1, 0.8)
    row, last = capsys.readouterr().out.splitlines()[1:]
    assert row.split()[0] == "small"
    assert sum(int(cell.split("/")[1]) for cell in row.split()[4:]) >= len(arrivals) - 10
    assert not compare_games([("small", trace(*arrivals))], 1, 1.1)
    assert last.startswith("all")


def test_promises_of_machines_that_sleep_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """It sleeps after a minute and is woken for the third and the later ones."""
    asked = trace(0.0, 50.0, 170.0, 400.0, 900.0, 2000.0)
    assert compare_sleep([("small", asked)], after_s=60.0, seed=1, enough=0.8)
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split() == ["small", "4", "0", "4/4", "2/2", "6/6"]
