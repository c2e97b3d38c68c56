"""Visitors can cause one line per minute in the log; the lines left out are counted."""

import logging
import time

import pytest

from bot.http.clients import EVERY_S, sparing

LOG = sparing(logging.getLogger("tests.sparing"))


def fail(kind: type[Exception]) -> None:
    LOG.error("stopped by a bug", exc_info=kind("no"))


def test_a_line_comes_once_a_minute_and_counts_those_between(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator would neither find another line nor know how often it happened."""
    now = time.monotonic()
    for at in (0.0, 1.0, EVERY_S - 1, EVERY_S, EVERY_S + 1, 2 * EVERY_S + 1):
        monkeypatch.setattr(time, "monotonic", lambda at=at: now + at)
        LOG.warning("%s left", f"visitor {at:.0f}")
    assert caplog.messages == [
        "visitor 0 left",
        "visitor 60 left (and 2 more like this)",
        "visitor 121 left (and 1 more like this)",
    ]


def test_another_error_is_another_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A visitor could hide a bug behind an error that anyone can cause."""
    for kind in (ValueError, OSError, ValueError):
        fail(kind)
    assert len(caplog.messages) == 2
