"""The picture of `usher top` fits its terminal and says what the records say."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.top_picture import LEAST_WIDTH, Canvas, TopState, cropped, duration, fit, picture
from bot.history.hours import (
    ErrorHours,
    HostHours,
    HourSpan,
    ModelHours,
    OperatorHours,
    PromiseHours,
    Shares,
)
from bot.history.now import (
    CopyNow,
    HostNow,
    LineNow,
    MemoryNow,
    OperatorNow,
    RunningNow,
    ServerNow,
)
from bot.history.persons import OperatorPeople, PersonUse
from bot.people.access import PersonLimits
from queueing.core.standings import Trouble
from queueing.core.world import Blocked, Reason, Residency

AT = 1_767_225_600.0
MEMORY = MemoryNow(
    total_mb=24576,
    usable_mb=22000,
    resident_mb=12288,
    loading_mb=6144,
    foreign_mb=3072,
    free_mb=3072,
)


def copy(model: str, state: Residency = Residency.READY, *, pinned: bool = False) -> CopyNow:
    return CopyNow(
        model=model, backend="comfy", state=state, mb=9000, pinned=pinned, running=1, ready_at=AT
    )


def state(model: str = "flux", **host: Any) -> TopState:
    shown = HostNow(
        name="gpu-1",
        mode="open",
        memory=MEMORY,
        copies=(copy(model, pinned=True), copy("sdxl", Residency.LOADING)),
        servers=(
            ServerNow(
                name="comfy",
                kind="comfyui",
                url="",
                up=False,
                since=AT,
                description="",
                error="connection refused",
            ),
        ),
        running=(
            RunningNow(
                job=812,
                model=model,
                backend="comfy",
                user="web:ada",
                name="Ada",
                began_at=AT - 4,
                fraction=0.4,
                done_at=AT + 6,
            ),
        ),
    )
    line = LineNow(
        model=model,
        waiting=3,
        running=1,
        oldest_s=72.0,
        next_at=AT + 6,
        next_done_at=None,
        reason=Reason(why=Blocked.OTHERS_FIRST, model=model, host="gpu-1", other="sdxl", ahead=2),
        paused=False,
        mb=9000,
        troubles=(Trouble(backend="other", cause="no file", again_at=AT),),
    )
    now = OperatorNow(
        at=AT, mode="open", hosts=(replace(shown, **host),), lines=(line,), idle_models=()
    )
    return TopState(now=now, hours=HOURS, people=PEOPLE)


HOURS = OperatorHours(
    span=HourSpan.HOUR,
    at=AT,
    begins=AT - 3600,
    ends=AT,
    step_s=60.0,
    hosts=(
        HostHours(
            name="gpu-1",
            segments=(),
            shares=tuple(
                Shares(
                    at=AT - 3600 + 60 * n,
                    run=n / 60,
                    load=0.0,
                    idle=1 - n / 60,
                    quiet=0.0,
                    yielding=0.0,
                    paused=0.0,
                    asleep=0.0,
                    down=0.0,
                )
                for n in range(60)
            ),
            busy=0.41,
            recorded_s=3600.0,
            loads=12,
            failed_loads=0,
            evictions=9,
            load_s=1.0,
        ),
    ),
    models=(
        ModelHours(
            name="flux",
            done=90,
            failed=2,
            cancelled=0,
            wait_median_s=4.1,
            wait_p95_s=310.0,
            service_median_s=12.0,
            service_p95_s=14.0,
            service_s=1000.0,
            loads=4,
            failed_loads=0,
            evictions=0,
            steps=(),
        ),
    ),
    errors=(ErrorHours(cause="memory", model="flux", count=2),),
    promises=PromiseHours(given=90, kept=81, steps=()),
)
PEOPLE = OperatorPeople(
    at=AT,
    since=AT,
    people=(
        PersonUse(
            user="web:ada",
            name="Ada",
            gpu_s=312.0,
            jobs=9,
            waiting=2,
            running=1,
            limits=PersonLimits(),
            banned=False,
            banned_until=None,
            ban_reason=None,
            admin=False,
        ),
    ),
    more=0,
    acts=(),
)


def text(shown: TopState | None = None, **canvas: Any) -> str:
    return "\n".join(picture(shown or state(), Canvas(**canvas)))


def test_a_moment_of_another_day_is_shown_with_its_day() -> None:
    """A server that went yesterday would seem to have gone an hour ago."""
    away = replace(state().now.hosts[0].servers[0], up=False, since=AT - 20 * 3600)
    assert re.search(r"down since \d{4}-\d\d-\d\d \d\d:", text(state(servers=(away,)), width=100))
    assert re.search(r"down since \d\d:", text(width=100))


def test_a_server_that_was_not_asked_yet_is_not_called_down() -> None:
    """Every start would look like a failure."""
    unasked = replace(state().now.hosts[0].servers[0], up=False, error=None)
    shown = text(state(servers=(unasked,)), width=100)
    assert "not asked yet" in shown
    assert "down since" not in shown


def test_it_says_what_is_there() -> None:
    """An operator would have to open the page after all."""
    shown = text(width=100)
    for said in (
        "1 running, 3 waiting",
        "18.0 of 24.0 GB, 3.0 by other programs",
        "comfy  down since",
        "connection refused",
        "flux  8.8 GB, in memory, kept by an admin",
        "sdxl  8.8 GB, loading",
        "▶  40% 812 flux for Ada, done at about",
        "3 waiting, the first for 72 s, next in 6.0 s, 2 requests for sdxl go first on gpu-1",
        "cannot be loaded on other: no file",
        "busy 41%, 12 loads",
        "flux  90 done, 2 failed, waited 4.1 s, 95 % at most 5 min, took 12 s",
        "81 of 90 promises kept (90%)",
        "2 failed: memory, flux",
        "most time on the cards today: Ada 5 min",
    ):
        assert said in shown


def test_every_moment_is_told_in_the_same_way() -> None:
    """A reason would name a time with an offset from UTC beside times without one."""
    whole = state()
    loading = Reason(why=Blocked.LOADING, model="flux", host="gpu-1", until=AT + 20)
    line = replace(whole.now.lines[0], reason=loading)
    shown = text(replace(whole, now=replace(whole.now, lines=(line,))), width=120)
    assert re.search(r"loading flux on gpu-1 until about \d\d:\d\d:\d\d$", shown, re.MULTILINE)
    assert not re.search(r"\d[+-]\d{4}", shown)


def test_a_model_without_an_ended_job_is_not_among_those_that_had_some() -> None:
    """A row of "0 done" says nothing, and takes a line from those that say something."""
    hours = replace(HOURS, models=(replace(HOURS.models[0], done=0, failed=0, name="idler"),))
    assert "idler" not in text(replace(state(), hours=hours), width=100)


def test_the_bar_is_divided_as_the_memory() -> None:
    """A full card would look half empty."""
    bar = re.search("█+▒+░+·+", text(width=100))
    assert bar is not None
    counts = [bar[0].count(sign) for sign in "█▒░·"]
    assert counts == [count * sum(counts) // 8 for count in (4, 2, 1, 1)]


@given(
    width=st.integers(LEAST_WIDTH, 200),
    name=st.text(min_size=1, max_size=60),
    plain=st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(width: int, name: str, plain: bool) -> None:
    """The terminal would break lines, and the picture would scroll away."""
    for line in picture(state(name), Canvas(width=width, plain=plain)):
        assert fit(line, width) == line


def test_colours_change_nothing_but_the_colour() -> None:
    """What is red alone would be lost in a log, or to a person who cannot see it."""
    coloured = text(width=100, colours=True)
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == text(width=100)


def test_a_plain_terminal_gets_plain_signs() -> None:
    """A console without these signs would show question marks."""
    assert text(width=100, plain=True).isascii()


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    """A person's name could move the cursor, or clear the operator's screen."""
    shown = text(state("evil\x1b[2Jname\r\n"), width=100)
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_what_does_not_fit_is_counted() -> None:
    """A terminal of few lines would hide that there is more."""
    assert cropped(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert cropped(["a", "b", "c", "d"], 3) == ["a", "b", "… 2 more lines"]


def test_everything_paused_is_said_first() -> None:
    """An operator would look for a fault of the servers."""
    now = replace(state().now, mode="paused")
    assert picture(TopState(now=now), Canvas())[1] == "everything is paused"


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


def with_host(**host: Any) -> str:
    hours = replace(HOURS, hosts=(replace(HOURS.hosts[0], **host),))
    return text(replace(state(), hours=hours), width=100)


def test_a_share_of_a_few_minutes_says_so() -> None:
    """Two minutes of work after a start would be read as a busy hour."""
    assert "busy 86% of 2 min" in with_host(busy=0.86, recorded_s=120.0)


def test_a_minute_that_was_mostly_paused_was_not_busy() -> None:
    """A card that was given back would seem to be in full use."""
    minute = replace(HOURS.hosts[0].shares[0], run=0.1, idle=0.0, paused=0.9)
    assert "█" not in with_host(shares=(minute,)).partition("the last hour")[2]
