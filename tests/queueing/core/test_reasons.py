"""The sentence that says why a job waits."""

import time
from dataclasses import replace

import pytest

from queueing.core.reasons import sentence, words
from queueing.core.snapshot import Reason, WaitCause

NOW = 1_790_000_000.0


DETAILS = {
    "host": "gpu-1",
    "other": "sdxl",
    "since": NOW,
    "until": NOW + 60,
}


def test_every_reason_has_a_sentence_with_or_without_details() -> None:
    """A waiting person would be told nothing, or shown the inside of the program."""
    bare = {why: Reason(why=why, model="flux") for why in WaitCause}
    full = {why: replace(reason, **DETAILS) for why, reason in bare.items()}  # type: ignore[arg-type]
    for why, reason in (*bare.items(), *full.items()):
        text = sentence(reason, now=NOW)
        assert text, why
        assert "None" not in text, why
        assert not text.endswith("."), why
        assert "\n" not in text, why


def test_sentences_name_what_a_person_can_understand() -> None:
    """The reasons of the design would read differently in chat, log and list."""
    loading = Reason(why=WaitCause.LOADING, model="flux", host="gpu-1")
    assert words(loading) == ("loading flux on gpu-1",)
    busy = Reason(why=WaitCause.ROOM_BUSY, model="flux", host="gpu-1", other="sdxl")
    assert sentence(busy, now=NOW) == "sdxl is busy on gpu-1"
    assert sentence(Reason(why=WaitCause.PAUSED, model="flux"), now=NOW) == "paused by an admin"
    pinned = Reason(why=WaitCause.PINNED, model="flux", host="gpu-1", other="sdxl")
    assert sentence(pinned, now=NOW) == "an admin keeps sdxl in memory on gpu-1"
    kept = (
        "sdxl stays in memory on gpu-1, because its server can't unload it on request: its operator"
        " can end it, or set vram of sdxl if that takes less"
    )
    assert sentence(replace(pinned, why=WaitCause.KEPT), now=NOW) == kept


def test_the_log_names_moments_in_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator would read one zone in the clock of a log line and another in its text."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        offline = Reason(why=WaitCause.OFFLINE, model="flux", host="gpu-2", since=1_790_000_000.0)
        expected = "gpu-2 has been offline since 19:43:20+0530, and no other machine has flux"
        assert sentence(offline, now=NOW) == expected
        beside = sentence(replace(offline, backend="ollama"), now=NOW)
        assert beside == f"ollama on {expected.replace('machine', 'server')}"
        dated = expected.replace("19:43", "2026-09-21 19:43")
        assert sentence(offline, now=NOW + 20 * 3600) == dated
    finally:
        monkeypatch.undo()
        time.tzset()
