"""The checker of runs finds what is wrong with a run, and the reference keeps the promises."""

from pathlib import Path

import pytest

from benchmarks.check_run import check, main, shortest_makespan_s
from benchmarks.reference import refer
from benchmarks.trace import JobOutcome, LoadOutcome, Outcome, Trace, TraceBackend

TRACES = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "traces"

SMALL = Trace.model_validate(
    {
        "hosts": [{"name": "h1", "vram_mb": 20000, "backends": [{"name": "b1", "serial": True}]}],
        "models": [
            {"name": "a", "vram_mb": 10000, "load_s": 5, "service_s": 2, "backends": ["b1"]},
            {"name": "b", "vram_mb": 10000, "load_s": 5, "service_s": 2, "backends": ["b1"]},
        ],
        "resident": [{"backend": "b1", "model": "a"}],
        "jobs": [
            {"at": 0, "model": "a", "service_s": 2},
            {"at": 1, "model": "a", "service_s": 2},
            {"at": 1, "model": "b", "service_s": 2},
        ],
    }
)


def job(run: Outcome, index: int, **changes: object) -> Outcome:
    """Return a run in which one job went differently."""
    jobs = list(run.jobs)
    jobs[index] = JobOutcome.model_validate(jobs[index].model_dump() | changes)
    return run.model_copy(update={"jobs": tuple(jobs)})


def load(run: Outcome, **changes: object) -> Outcome:
    """Return a run in which the first load went differently."""
    first = LoadOutcome.model_validate(run.loads[0].model_dump() | changes)
    return run.model_copy(update={"loads": (first, *run.loads[1:])})


SPANNING = {"two-cards"}  # the reference knows servers with one card only


@pytest.mark.parametrize("name", sorted({p.stem for p in TRACES.glob("*.json")} - SPANNING))
@pytest.mark.parametrize("rules", ["plain", "full"])
def test_the_reference_breaks_no_promise(name: str, rules: str) -> None:
    """We would be measured against something that cheats."""
    given = Trace.model_validate_json((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    assert check(given, refer(given, rules)).broken == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda run: job(run, 1, started_s=0.5, finished_s=2.5), "out of order"),
        (lambda run: job(run, 1, finished_s=9.0), "did not take its time"),
        (lambda run: job(run, 1, started_s=1.5, finished_s=3.5), "busy b1"),
        (lambda run: job(run, 0, started_s=6.0, finished_s=8.0), "started before job 0"),
        (lambda run: job(run, 1, started_s=30.0, finished_s=32.0), "held"),
        (lambda run: load(run, finished_s=8.0), "did not take its time"),
        (lambda run: load(run, evicted=()), "exceeded its budget"),
        (lambda run: load(run, evicted=("c",)), "was not there"),
        (lambda run: load(run, started_s=3.0, finished_s=8.0), "while busy"),
        (lambda run: load(run, started_s=900.0, finished_s=905.0), "without its model"),
        (lambda run: run.model_copy(update={"peak_vram_mb": {"h1": 1}}), "at most, not 1"),
    ],
)
def test_the_checker_finds_a_broken_promise(wrong: object, found: str) -> None:
    """A run would pass although it broke a promise."""
    assert callable(wrong)
    broken = check(SMALL, wrong(refer(SMALL))).broken
    assert any(found in line for line in broken), broken


def test_the_checker_finds_a_cold_job_that_starved() -> None:
    """A hot model could keep a cold one out for ever without anyone noticing."""
    late = load(refer(SMALL), started_s=900.0, finished_s=905.0)
    late = job(late, 2, ready_s=905.0, started_s=905.0, finished_s=907.0)
    assert any("waited 899 s for its load" in line for line in check(SMALL, late).broken)


def test_models_that_never_fit_together_need_the_card_one_after_the_other() -> None:
    """A card that two models must share in turns would seem to have been idle half of the time."""
    models = [
        model.model_copy(update={"vram_mb": vram_mb})
        for model, vram_mb in zip(SMALL.models, (6_000, 12_000), strict=True)
    ]
    apart = SMALL.model_copy(
        update={
            "models": tuple(models),
            "hosts": (SMALL.hosts[0].model_copy(update={"backends": (TraceBackend(name="b1"),)}),),
        }
    )
    assert shortest_makespan_s(apart, refer(apart)) == 6.0


def test_the_checker_is_a_command_that_fails_for_a_broken_promise(tmp_path: Path) -> None:
    """A script could not rely on its exit status."""
    trace, run = tmp_path / "trace.json", tmp_path / "run.json"
    trace.write_text(SMALL.model_dump_json(), encoding="utf-8")
    run.write_text(refer(SMALL).model_dump_json(), encoding="utf-8")
    assert main(["--trace", str(trace), "--run", str(run)]) == 0
    run.write_text(job(refer(SMALL), 1, finished_s=9.0).model_dump_json(), encoding="utf-8")
    assert main(["--trace", str(trace), "--run", str(run)]) == 1
