"""The clock that everything goes by, when a person sets the machine's."""

import time

import pytest

from queueing.core.clock import SystemClock


def test_time_never_goes_back_when_the_machine_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause would last an hour longer, and new messages would stand above old ones."""
    wall, steady = [5_000.0], [100.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    monkeypatch.setattr(time, "monotonic", lambda: steady[0])
    clock = SystemClock()
    wall[0] -= 3_600.0
    steady[0] += 100.0
    behind = clock.now()
    assert 5_000.0 < behind < 5_100.0
    wall[0] += 4_000.0
    assert clock.now() == wall[0]
