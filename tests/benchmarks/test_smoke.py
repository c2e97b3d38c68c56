"""The benchmarks that start processes or simulate days run, with the smallest possible input."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.api import __main__ as api
from benchmarks.chaos import __main__ as chaos
from tests.fakes.programs.postgres_server import NOT_INSTALLED, binaries

pytestmark = pytest.mark.thorough
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory and processor time are read from /proc"
)
CHAOS = {
    "accepted",
    "broken_streams",
    "calls",
    "delivered_twice",
    "died_at",
    "forgotten_by_servers",
    "kills",
    "lost",
    "order_violations",
    "other_faults",
    "prompts_improved",
    "recovery_s_p50",
    "regenerated",
    "repeated_texts",
    "second_messages",
    "server_kills",
    "stops",
    "stuck",
    "unheard",
    "wrong_chat",
}
SPEED = {
    "ack_ms_p50",
    "ack_ms_p95",
    "cpu_ms_per_job",
    "event_lag_ms_p50",
    "event_lag_ms_p95",
    "jobs_per_s",
    "serving",
}
SOAK = {
    "blocks_per_day",
    "days",
    "db_mb_end",
    "db_mb_most",
    "ends",
    "faults",
    "handles_leaked",
    "jobs",
    "kills",
    "lost",
    "outages",
    "restarts",
    "rss_mb_end",
    "rss_mb_per_day",
    "rss_mb_start",
    "tasks_leaked",
}


@pytest.fixture(autouse=True)
def _logging_again() -> Iterator[None]:
    """Let later tests see the log that a benchmark turns off."""
    yield
    logging.disable(logging.NOTSET)


@needs_proc
def test_the_api_is_measured_next_to_the_server_behind_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No one could tell what Usher adds to a call."""
    few = {"STREAMS": (1, 2), "ROUNDS": 1, "PROBES": 2, "SHORT_S": 0.5, "CALLERS": 2, "WAITING": 3}
    for name, value in few.items():
        monkeypatch.setattr(api, name, value)
    api.main(["--json", "--tokens", "20"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {
        "batch_per_s",
        "embeddings_per_s",
        "llama_cpp",
        "requests_per_s",
        "rss_mb",
        "tokens_per_s",
        "ttft_ms",
    }
    assert found["ttft_ms"].keys() == found["tokens_per_s"].keys() == {"direct", "usher"}
    assert found["ttft_ms"]["usher"].keys() == {"1", "2"}
    assert found["llama_cpp"] is None
    assert min(found["requests_per_s"], found["rss_mb"], *found["embeddings_per_s"].values()) > 0


def test_a_trial_with_one_kill_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--kills", "1", "--stops", "0", "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == CHAOS
    assert (found["kills"], found["lost"]) == (1, 0)


@needs_proc
@pytest.mark.skipif(binaries() is None, reason=NOT_INSTALLED)
def test_several_processes_are_measured_next_to_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No one could tell whether a second process helps."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs usher-bot[postgres]")
    from benchmarks.chaos import speed  # noqa: PLC0415

    monkeypatch.setattr(speed, "QUICK", speed.Size(2, 6, 2, 2, 1))
    assert chaos.main(["--cluster", "2", "--speed", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == SPEED
    assert found["serving"] == {"1": 1, "2": 2}
    assert min(found["jobs_per_s"].values()) > 0


@needs_proc
def test_a_soak_of_an_hour_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    soak.main(["--days", "0.04", "--seed", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == SOAK
    assert found["lost"] == 0
