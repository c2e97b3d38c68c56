"""Traces at the limits of what the format allows are replayed like any other."""

from pathlib import Path

import pytest

from benchmarks.schedule.__main__ import main, summary
from benchmarks.schedule.replay import replay
from benchmarks.schedule.trace import BadTrace, Outcome, Trace, read
from tests.benchmarks.trace_check import check

GPU = {"name": "h1", "vram_mb": 20_000, "margin": 1.0, "backends": [{"name": "b1"}]}
FLUX = {"name": "flux", "vram_mb": 12_000, "load_s": 10, "service_s": 5, "backends": ["b1"]}
SDXL = {**FLUX, "name": "sdxl"}
ASKED = {"at": 0, "model": "flux", "service_s": 5}


def trace(*jobs: dict[str, object], **other: object) -> Trace:
    """Return a trace of these jobs on one GPU, on which one of two models fits at a time."""
    given = {"hosts": [GPU], "models": [FLUX, SDXL], "jobs": jobs, **other}
    return Trace.model_validate(given)


def run(given: Trace) -> Outcome:
    """Replay a trace and check the run for every promise."""
    outcome = replay(given, "full")
    check(given, outcome)
    return outcome


def resident(*names: str) -> list[dict[str, str]]:
    return [{"backend": "b1", "model": name} for name in names]


# ---------------------------------------------------------------- cancels


@pytest.mark.parametrize("cancel_at", [1, 3])
def test_a_job_cancelled_by_its_arrival_never_runs(cancel_at: float) -> None:
    """A request that is cancelled at the moment it is made would be served hours later."""
    late = {**ASKED, "at": 3, "cancel_at": cancel_at}
    outcome = run(trace(late, {**late, "model": "sdxl"}, resident=resident("sdxl")))
    assert [job.state for job in outcome.jobs] == ["cancelled", "cancelled"]
    assert {job.started_s for job in outcome.jobs} == {None}
    assert outcome.loads == ()


def test_a_job_cancelled_in_the_moment_of_its_turn_never_runs() -> None:
    """Whether it runs would depend on the order of two simultaneous events."""
    turn = {**ASKED, "at": 1, "cancel_at": 5}
    outcome = run(trace(ASKED, turn, ASKED | {"at": 2}, resident=resident("flux")))
    assert [job.state for job in outcome.jobs] == ["completed", "cancelled", "completed"]
    assert [job.started_s for job in outcome.jobs] == [0.0, None, 5.0]


def test_a_running_job_is_stopped_by_its_cancel() -> None:
    """Its slot would be kept for the job's whole duration, which no server does."""
    given = trace(ASKED | {"cancel_at": 0.5}, ASKED | {"at": 0.25}, resident=resident("flux"))
    outcome = run(given)
    assert [job.state for job in outcome.jobs] == ["cancelled", "completed"]
    assert [job.started_s for job in outcome.jobs] == [0.0, 0.5]
    assert [job.finished_s for job in outcome.jobs] == [0.5, 5.5]


def test_a_cancel_in_the_moment_of_the_end_is_too_late() -> None:
    """Whether it counts as served would depend on the order of two simultaneous events."""
    outcome = run(trace(ASKED | {"cancel_at": 5}, resident=resident("flux")))
    assert [job.state for job in outcome.jobs] == ["completed"]


def test_a_promise_to_somebody_who_cancels_is_neither_kept_nor_broken() -> None:
    """The share of kept promises would fall with every person who changes their mind."""
    given = trace(ASKED, ASKED | {"cancel_at": 6}, resident=resident("flux"))
    assert summary(given, run(given))["estimates_kept"] == 1.0


def test_a_cancel_long_after_the_end_is_not_waited_for() -> None:
    """A minute of work would take an hour to replay."""
    outcome = run(trace(ASKED | {"cancel_at": 1e9}, resident=resident("flux")))
    assert outcome.decisions < 20


# ---------------------------------------------------------------- the beginning


def test_everybody_who_asks_as_the_trace_begins_is_promised_a_moment() -> None:
    """The first requests would have no estimate, because no server had been asked yet."""
    many = [ASKED | {"model": name} for name in ("flux", "sdxl") * 20]
    outcome = run(trace(*many, resident=resident("flux")))
    assert outcome.jobs[0].estimate_s == 5.0
    assert all(job.estimate_s is not None for job in outcome.jobs)


def test_nothing_to_do_is_no_mistake() -> None:
    """A script that makes traces would have to leave out the empty ones."""
    outcome = run(trace(resident=resident("flux")))
    assert (outcome.jobs, outcome.loads, outcome.peak_vram_mb) == ((), (), {"h1": 12_000})


# ---------------------------------------------------------------- models


def test_loads_are_listed_in_the_order_in_which_they_began() -> None:
    """A load that takes no time would seem to begin together with the one after it."""
    at_once = {**FLUX, "load_s": 0, "vram_mb": 8_000, "backends": ["b2"]}
    models = [at_once, {**SDXL, "backends": ["b1"]}]
    gpu = {**GPU, "backends": [{"name": "b1"}, {"name": "b2"}]}
    both = [ASKED, ASKED | {"model": "sdxl"}]
    outcome = run(trace(*both, hosts=[gpu], models=models))
    assert [load.model for load in outcome.loads] == ["flux", "sdxl"]


def test_a_load_that_the_end_cuts_short_is_listed() -> None:
    """Its memory would count in the peak, and nothing would say what occupied it."""
    twins = [{**GPU, "name": f"h{i}", "backends": [{"name": f"b{i}"}]} for i in (1, 2)]
    slow = {**FLUX, "load_s": 60, "backends": ["b1", "b2"]}
    burst = [ASKED] * 20
    outcome = run(trace(*burst, hosts=twins, models=[slow], resident=resident("flux")))
    assert outcome.peak_vram_mb == {"h1": 12_000, "h2": 12_000}
    assert [load.backend for load in outcome.loads] == ["b2"]


@pytest.mark.parametrize("slots", [65, 200])
def test_a_copy_has_as_many_slots_as_the_trace_says(slots: int) -> None:
    """A head would be held although its model has a free slot."""
    many = {**FLUX, "parallel": slots}
    outcome = run(trace(*[ASKED] * slots, models=[many], resident=resident("flux")))
    assert {job.started_s for job in outcome.jobs} == {0.0}


def test_models_may_differ_by_the_case_of_their_names_alone() -> None:
    """The jobs of one model would run on the other."""
    models = [FLUX, {**FLUX, "name": "Flux", "vram_mb": 8_000}]
    outcome = run(trace(ASKED, ASKED | {"model": "Flux"}, models=models))
    assert sorted(load.model for load in outcome.loads) == ["Flux", "flux"]


def test_a_model_that_takes_no_memory_leaves_it_to_others() -> None:
    """It would count as a model of unknown size, and get the whole GPU."""
    small = {**SDXL, "vram_mb": 0}
    both = [ASKED, ASKED | {"at": 20, "model": "sdxl"}]
    outcome = run(trace(*both, models=[FLUX, small]))
    assert [load.evicted for load in outcome.loads] == [(), ()]
    assert outcome.peak_vram_mb == {"h1": 12_000}


def test_jobs_may_take_no_time() -> None:
    """The router would divide by their duration, fail at every step and start nothing."""
    twins = [{**GPU, "name": f"h{i}", "backends": [{"name": f"b{i}"}]} for i in (1, 2)]
    quick = {**FLUX, "service_s": 0, "backends": ["b1", "b2"]}
    many = [ASKED | {"service_s": 0}] * 9
    outcome = run(trace(*many, hosts=twins, models=[quick], resident=resident("flux")))
    assert {job.finished_s for job in outcome.jobs} == {0.0}


def test_a_key_that_is_null_is_a_key_left_out() -> None:
    """A trace written by a program that fills in every key would be refused."""
    given = trace(
        {**ASKED, "user": None, "lane": None, "cancel_at": None},
        hosts=[{**GPU, "margin": None, "backends": [{"name": "b1", "serial": None}]}],
        models=[{**FLUX, "parallel": None}],
        resident=None,
    )
    assert given.hosts[0].spec().usable_mb == 16_000
    assert run(given).jobs[0].started_s == 10.0


# ---------------------------------------------------------------- mistakes


MISTAKES = (
    ("{", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
    ('{"models": [], "jobs": []}', "hosts: Field required"),
    (
        trace(ASKED).model_dump_json().replace('"at":0.0', '"at":-1'),
        "jobs[0].at: Input should be greater than or equal to 0",
    ),
    (
        trace(ASKED).model_dump_json().replace('"parallel":1', '"parallel":0'),
        "models[0].parallel: Input should be greater than or equal to 1, and 1 more such",
    ),
    (
        trace(ASKED | {"model": "nobody"}).model_dump_json(),
        "jobs[0] asks for nobody, and no such model is described",
    ),
    (
        trace(ASKED, models=[{**FLUX, "vram_mb": 20_001}]).model_dump_json(),
        "jobs[0] asks for flux, which fits on none of its hosts",
    ),
    (
        trace(models=[{**FLUX, "backends": ["b7"]}]).model_dump_json(),
        "the model flux names the backend b7, which no host has",
    ),
    (trace(models=[FLUX, FLUX]).model_dump_json(), "there are 2 models of the name flux"),
    (trace(hosts=[GPU, GPU]).model_dump_json(), "there are 2 hosts of the name h1"),
    (
        trace(resident=resident("nobody")).model_dump_json(),
        "the model nobody is resident, but no such model is described",
    ),
    (
        trace(resident=[{"backend": "b7", "model": "flux"}]).model_dump_json(),
        "flux is resident on b7, which it cannot run on",
    ),
    (
        trace(resident=resident("flux", "sdxl")).model_dump_json(),
        "the residents of h1 take 24000 MB, more than the 20000 MB of its budget",
    ),
)


def test_a_mistake_in_a_trace_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    """People who write their own traces would have to read the code to find a typing error."""
    file, out = tmp_path / "trace.json", tmp_path / "out.json"
    for text, said in MISTAKES:
        with subtests.test(said):
            file.write_text(text, encoding="utf-8")
            assert main(["--trace", str(file), "--out", str(out)]) == 2
            assert capsys.readouterr().err == f"{file}: {said}.\n"
            assert not out.exists()


def test_a_trace_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A wrong path would end in a traceback."""
    with pytest.raises(BadTrace, match="it cannot be read: No such file or directory"):
        read(tmp_path / "nowhere.json")


def test_a_model_nobody_asks_for_may_fit_nowhere() -> None:
    """A trace would be refused because of a model that does not matter to it."""
    run(trace(ASKED, models=[FLUX, {**SDXL, "vram_mb": 99_999}]))
