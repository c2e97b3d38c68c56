"""A reason's form in the log."""

import time
from dataclasses import replace

import pytest

from queueing.core.snapshot import Reason, WaitCause
from queueing.engine.change_tracker import code


def test_the_log_names_the_cause_and_what_is_known() -> None:
    """An operator could not search the log for a cause, a host or a model."""
    assert code(Reason(why=WaitCause.PAUSED, model="flux")) == "paused"
    busy = Reason(why=WaitCause.ROOM_BUSY, model="flux", host="gpu-1", other="sdxl")
    assert code(busy) == "room-busy host=gpu-1 other=sdxl"
    both = replace(busy, host="gpu-1 + gpu-2")
    assert code(both) == "room-busy host='gpu-1 + gpu-2' other=sdxl"


def test_the_log_names_moments_in_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator would read a log line's clock in one zone and its text in another."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        offline = Reason(why=WaitCause.OFFLINE, model="flux", host="gpu-2", since=1_790_000_000.0)
        assert code(offline) == "offline host=gpu-2 since=2026-09-21T19:43:20+0530"
    finally:
        monkeypatch.undo()
        time.tzset()
