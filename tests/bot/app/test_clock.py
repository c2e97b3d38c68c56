"""The clock of the whole program when a person sets the machine's clock."""

import time
from dataclasses import dataclass

import pytest

from queueing.core import ports as clock_module
from queueing.core.ports import AWAY_S, DOUBTED_S, JUMP_S, SystemClock

DAY_S = 24 * 3600.0


def test_time_never_goes_back_when_the_machine_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause would last an hour longer, and new messages would appear above old ones."""
    wall, steady = [5_000.0], [100.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    monkeypatch.setattr(clock_module, "awake_s", lambda: steady[0])
    clock = SystemClock()
    wall[0] -= 3_600.0
    steady[0] += 100.0
    behind = clock.now()
    assert 5_000.0 < behind < 5_100.0
    wall[0] += 4_000.0
    assert clock.now() == wall[0]


@dataclass
class Machine:
    """A machine: its clock, and how long it has been on."""

    wall: float = 1_800_000_000.0
    steady: float = 100.0

    def passes(self, seconds: float, *, ahead: float = 0.0) -> None:
        self.wall += seconds + ahead
        self.steady += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "time", lambda: machine.wall)
    monkeypatch.setattr(clock_module, "awake_s", lambda: machine.steady)
    monkeypatch.setattr(clock_module, "_SEES_SLEEP", True)
    return machine


def test_a_clock_that_jumps_by_days_is_not_followed_until_it_is_right_again(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Every result would be deleted, and every waiting job would fail."""
    clock = SystemClock()
    began = clock.now()
    machine.passes(60, ahead=10 * DAY_S)
    assert clock.now() == began + 60
    assert "set far ahead" in str(clock.doubt)
    assert "set far ahead" in caplog.text
    machine.passes(60, ahead=-10 * DAY_S)
    assert (clock.now(), clock.doubt) == (began + 120, None)
    machine.passes(60, ahead=JUMP_S / 2)  # as a person sets it
    assert (clock.now(), clock.doubt) == (machine.wall, None)


def test_a_clock_that_stays_ahead_is_believed_after_a_day(machine: Machine) -> None:
    """A virtual machine that was paused for a week would have wrong times until its next start."""
    clock = SystemClock()
    machine.passes(60, ahead=10 * DAY_S)
    assert "far ahead" in str(clock.doubt)
    machine.passes(DOUBTED_S)
    assert (clock.now(), clock.doubt) == (machine.wall, None)


def test_a_machine_that_slept_for_days_is_believed(machine: Machine) -> None:
    """The time that a machine slept has passed: its clock was not set."""
    clock = SystemClock()
    machine.passes(10 * DAY_S)
    assert (clock.now(), clock.doubt) == (machine.wall, None)


def test_a_start_with_the_clock_days_ahead_is_doubted_for_a_day(machine: Machine) -> None:
    """A machine whose battery is empty may wake in 2099."""
    clock = SystemClock()
    clock.start_after(machine.wall - AWAY_S / 2)
    assert clock.doubt is None
    clock.start_after(machine.wall - 10 * DAY_S)
    assert "days ahead" in str(clock.doubt)
    assert clock.now() == machine.wall  # after a holiday it is right, and is shown
    machine.passes(DOUBTED_S)
    assert clock.doubt is None


def test_a_start_with_the_clock_behind_what_is_stored_waits_until_it_is_set(
    machine: Machine,
) -> None:
    """Jobs that come before it is set would be fifty years old afterwards."""
    clock, newest = SystemClock(), machine.wall + 50 * 365 * DAY_S
    clock.start_after(newest)
    assert clock.now() >= newest
    assert "behind" in str(clock.doubt)
    machine.passes(60, ahead=51 * 365 * DAY_S)
    assert (clock.now(), clock.doubt) == (machine.wall, None)


def test_a_clock_that_differs_from_the_databases_is_doubted(machine: Machine) -> None:
    """A process without a role, which serves programs, would delete their files too early."""
    clock = SystemClock()
    clock.compare(-61.0)
    assert "61 s ahead of the database server's" in str(clock.doubt)
    clock.compare(59.0)
    assert clock.doubt is None
