"""`usher top` shows what the records say, on any terminal."""

import io
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from bot.cli.top import TopState, duration, quits
from bot.monitoring.live_state import LiveState
from bot.monitoring.records import HourSpan
from queueing.core.snapshot import Reason, WaitCause
from tests.bot.platforms.web.dashboard.examples import ExampleRecords
from tests.samples import examples

AT = datetime(2026, 1, 1, 12).timestamp()  # noqa: DTZ001  # noon where the test runs
RECORDS = ExampleRecords(AT)
HOUR = RECORDS.spans[HourSpan.HOUR]
STATE = TopState(now=RECORDS.now, hours=HOUR, people=RECORDS.people)
STRANGE = "[red]x[/red] :smile: \x1b[2J\r\n"
SHOWN = "[red]x[/red] :smile: \\u001b[2J"


def drawn(
    state: TopState = STATE, *, width: int = 120, encoding: str = "utf-8", **more: Any
) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, legacy_windows=False, **more).print(state)
    stream.seek(0)
    return stream.read()


def with_host(**host: Any) -> LiveState:
    """Return the bot with only its first host."""
    return replace(RECORDS.now, hosts=(replace(RECORDS.now.hosts[0], **host),))


def with_hours(**host: Any) -> str:
    return drawn(replace(STATE, hours=replace(HOUR, hosts=(replace(HOUR.hosts[0], **host),))))


def test_it_says_what_is_there() -> None:
    """An operator would have to open the page after all."""
    shown = drawn()
    for said in (
        "usher  12:00:00  3 running, 33 waiting",
        "19.0 of 24.0 GB, 1.8 by other programs",
        "gpu-2  draining",
        "studio   up, ComfyUI 0.3.40",
        "old-box  down since 09:30:00: Connection refused",
        "flux     17.0 GB, in memory, kept by an admin",
        "hashing  2.0 GB, loading, until about 12:00:20",
        "▶ 797    flux for telegram:4217, 42%, done about 12:00:04 to 12:00:59",
        "flux     24 waiting, longest wait 88 s, a new job done about 12:04:50 to 12:05:45",
        "wan      2 waiting, longest wait 88 s, a new job done about 12:00:26 to 12:01:21, waiting for flux to finish on gpu-1",
        "sdxl     0 waiting, a new job done about 12:00:02 to 12:00:57, paused",
        "cannot be loaded on workshop: CUDA error: out of memory",
        "61 loads",
        "waited 6.2 s, 95 % at most 48 s, took 11 s",
        "first estimates kept (",
        "7 failed: memory, wan",
        "most GPU time today: telegram:4200 32 min, Ada 26 min",
    ):
        assert said in shown


def test_every_moment_is_told_in_the_same_way() -> None:
    """A reason would state a time with an offset from UTC beside times without one."""
    loading = Reason(why=WaitCause.LOADING, model="flux", host="gpu-1", until=AT + 20)
    queue = replace(RECORDS.now.queues[0], reason=loading)
    shown = drawn(TopState(now=replace(RECORDS.now, queues=(queue,))))
    assert re.search(r"loading flux on gpu-1$", shown, re.MULTILINE)


def test_a_moment_of_another_day_is_shown_with_its_day() -> None:
    """A server that went down yesterday would seem to have gone an hour ago."""
    away = replace(RECORDS.now.hosts[2].servers[0], since=AT - 20 * 3600)
    assert "down since 2025-12-31 16:00:00" in drawn(TopState(now=with_host(servers=(away,))))


def test_a_server_that_was_not_asked_yet_is_not_called_down() -> None:
    """Every start would look like a failure."""
    unasked = replace(RECORDS.now.hosts[0].servers[0], up=False, error=None)
    shown = drawn(TopState(now=with_host(servers=(unasked,))))
    assert "not checked yet" in shown
    assert "down since" not in shown


def test_everything_paused_is_said_first() -> None:
    """An operator would look for a fault of the servers."""
    shown = drawn(TopState(now=replace(RECORDS.now, mode="paused")))
    assert shown.splitlines()[1].strip() == "everything is paused"


def test_a_model_without_an_ended_job_is_not_among_those_that_had_some() -> None:
    """A row of "0 done" says nothing, and takes the place of a useful one."""
    idler = replace(HOUR.models[0], name="idler", done=0, failed=0, cancelled=0)
    assert "idler" not in drawn(replace(STATE, hours=replace(HOUR, models=(idler,))))


def test_the_bar_is_divided_as_the_memory() -> None:
    """A full GPU would look half empty."""
    memory = replace(
        RECORDS.now.hosts[0].memory,
        total_mb=8000,
        resident_mb=4000,
        loading_mb=2000,
        foreign_mb=1000,
    )
    assert "█" * 20 + "▒" * 10 + "░" * 5 + "·" * 5 in drawn(TopState(now=with_host(memory=memory)))


def test_what_is_not_measured_any_more_says_so() -> None:
    """A full GPU would look empty."""
    told = drawn(TopState(now=with_host(unmeasured_since=RECORDS.now.at - 60)))
    assert "not measured since" in told.replace("\n", " ")


def test_a_share_of_a_few_minutes_says_so() -> None:
    """Two minutes of work after a start would be read as a busy hour."""
    assert "busy 86% of 2 min" in with_hours(busy=0.86, recorded_s=120.0)


def test_a_minute_that_was_mostly_paused_was_not_busy() -> None:
    """A GPU that was returned to its owner would seem to be in full use."""
    minute = replace(HOUR.hosts[0].shares[0], run=0.1, idle=0.0, paused=0.9)
    assert "█" not in with_hours(shares=(minute,)).partition("the last hour")[2]


def test_colours_say_nothing_that_words_do_not() -> None:
    """What is shown only by red would be lost in a log, or to a person who cannot see it."""
    coloured = drawn(force_terminal=True, color_system="standard")
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[[\d;]+m", "", coloured) == drawn()


def test_a_terminal_of_ascii_gets_signs_of_ascii() -> None:
    """A console without the other characters would show question marks."""
    assert "##" in drawn(encoding="ascii")


def test_names_and_causes_are_shown_as_they_are() -> None:
    """A person's name could colour or clear the operator's screen, or a model's name vanish."""
    host = RECORDS.now.hosts[0]
    now = with_host(
        name=STRANGE,
        servers=(replace(host.servers[0], name=STRANGE, description=STRANGE),),
        copies=(replace(host.copies[0], model=STRANGE),),
        running=(replace(host.running[0], model=STRANGE, name=STRANGE),),
    )
    person = replace(RECORDS.people.people[0], name=STRANGE)
    hours = replace(
        HOUR,
        hosts=(replace(HOUR.hosts[0], name=STRANGE),),
        models=(replace(HOUR.models[0], name=STRANGE),),
        errors=(replace(HOUR.errors[0], cause=STRANGE, model=STRANGE),),
    )
    queue = replace(RECORDS.now.queues[4], model=STRANGE)
    people = replace(RECORDS.people, people=(person,))
    shown = drawn(
        TopState(now=replace(now, queues=(queue,)), hours=hours, people=people), width=300
    )
    assert shown.count(SHOWN) == 12
    assert "\x1b" not in shown
    assert "\r" not in shown


@examples(100, quick=25)
@given(width=st.integers(40, 200), name=st.text(min_size=1, max_size=60))
def test_no_line_is_wider_than_the_terminal(width: int, name: str) -> None:
    """The terminal would break lines, and the image would scroll away."""
    host = replace(RECORDS.now.hosts[0], name=name)
    copies = (replace(host.copies[0], model=name),)
    lines = (replace(RECORDS.now.queues[2], model=name),)
    now = replace(RECORDS.now, hosts=(replace(host, copies=copies),), queues=lines)
    shown = drawn(replace(STATE, now=now), width=width)
    assert max(map(cell_len, shown.split("\n"))) <= width


def test_a_narrow_terminal_loses_no_word() -> None:
    """An operator on a phone could not read why a model waits."""
    words = drawn(width=40).split()
    for word in ("waiting for flux to finish on gpu-1", "Connection refused", "out of memory"):
        assert set(word.split()) <= set(words)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (6000, "1.7 h"),
    ],
)
def test_times_are_short(seconds: float, told: str) -> None:
    """A table of seconds with six digits cannot be read at a glance."""
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("pressed", "ends"),
    [
        (b"q", True),
        (b"xQ", True),
        (b"\x1b", True),
        (b"\x1b[A\x1b", True),
        (b"", True),
        (b"x", False),
        (b"\x1b[A\x1bOB", False),
        (b"\x1b[1;5C\x1b[15~", False),
    ],
)
def test_q_and_esc_end_it_and_arrows_do_not(pressed: bytes, *, ends: bool) -> None:
    """Scrolling would end the display, or only Ctrl-C would."""
    assert quits(pressed) is ends
