"""Quiet hours as an operator writes them."""

from bot.config.hosts import windows
from bot.config.loader import parse
from queueing.core.quiet_hours import WeeklyWindow
from tests.bot.config.configs import SMALL, problems

WEEK = frozenset(range(5))


def with_quiet(written: str, *, zone: str | None = "Europe/Berlin") -> str:
    text = SMALL.replace("    vram: 24GB", f"    vram: 24GB\n    quiet: {written}")
    return text if zone is None else f"{text}timezone: {zone}\n"


def test_days_and_hours_are_read() -> None:
    cases: list[tuple[object, list[tuple[object, int, int]]]] = [
        ("Mon-Fri 18:00-23:00", [(WEEK, 1080, 1380)]),
        ("18:00-23:00", [(range(7), 1080, 1380)]),
        ("fri-Mon 8:30-24:00", [((4, 5, 6, 0), 510, 1440)]),
        ("Sat 22:00-06:00", [((5,), 1320, 360)]),
        ("Mon, Wed-Thu 12:00 - 13:00", [((0, 2, 3), 720, 780)]),
        ("Sun 00:00-24:00; Mon 20:00-21:00", [((6,), 0, 1440), ((0,), 1200, 1260)]),
        (["Mon 1:00-2:00", "Tue 3:00-4:00"], [((0,), 60, 120), ((1,), 180, 240)]),
    ]
    for written, read in cases:
        assert windows(written) == tuple(
            WeeklyWindow(frozenset(days), begins_min, ends_min)  # type: ignore[call-overload]
            for days, begins_min, ends_min in read
        ), written


def test_quiet_hours_reach_the_queue_with_the_nearest_time_zone() -> None:
    text = with_quiet('"Mon-Fri 18:00-23:00"')
    (home,) = parse(text, {}).catalog().hosts.values()
    assert home.quiet is not None
    assert home.quiet.zone == "Europe/Berlin"
    own = text.replace("    quiet:", "    timezone: Asia/Tokyo\n    quiet:")
    (home,) = parse(own, {}).catalog().hosts.values()
    assert home.quiet is not None
    assert home.quiet.zone == "Asia/Tokyo"


def test_mistakes_are_told_with_their_line() -> None:
    cases: list[tuple[str, str]] = [
        ("evenings", 'must be days and hours, such as "Mon-Fri 18:00-23:00"'),
        ('"Mon-Fry 18:00-23:00"', "'fry' is not a day"),
        ('"Mon 18:00-25:00"', "25:00 is not one"),
        ('"Mon 18:75-20:00"', "18:75 is not one"),
        ('"Mon 18:00-18:00"', "must not end at the time it begins"),
        ('"00:30-00:00"', "leaves no hour of the week in which jobs can run"),
        ("18", "must be days and hours"),
    ]
    for written, said in cases:
        (problem,) = problems(with_quiet(written))
        assert said in problem, written
        assert "config.yaml:4" in problem, written


def test_the_time_zone_is_named() -> None:
    """With a container's clock they would begin two hours late."""
    (problem,) = problems(with_quiet('"18:00-23:00"', zone=None))
    assert "needs a time zone" in problem
    *_, problem = problems(with_quiet('"18:00-23:00"', zone="Europe/Berlim"))
    assert "did you mean Europe/Berlin?" in problem


def test_a_gpu_is_left_to_programs_of_some_size() -> None:
    cases: list[tuple[str, int | None]] = [
        ("true", 1024),
        ("2GB", 2048),
        ("false", None),
        ("off", None),
    ]
    for written, above_mb in cases:
        text = SMALL.replace(
            "    vram: 24GB", f"    vram: 24GB\n    gpu: 0\n    yield_to_others: {written}"
        )
        (home,) = parse(text, {}).catalog().hosts.values()
        assert home.yields_above_mb == above_mb, written


def test_only_a_gpu_of_this_machine_can_be_watched() -> None:
    """A host would never yield, while its owner waits for that."""
    text = SMALL.replace("    vram: 24GB", "    vram: 24GB\n    yield_to_others: true")
    (problem,) = problems(text)
    assert "yield_to_others: needs `gpu`" in problem
