"""The picture of `usher top`: records as lines of text, as wide as the terminal. Pure.

Colours are codes that a terminal understands; without them the same signs say the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from unicodedata import combining, east_asian_width

from bot.history.hours import HostHours, ModelHours, OperatorHours
from bot.history.now import CopyNow, HostNow, LineNow, MemoryNow, OperatorNow, RunningNow, ServerNow
from bot.history.persons import OperatorPeople
from queueing.core.reasons import is_far, words
from queueing.core.world import Reason, Residency

LEAST_WIDTH = 40
_PEOPLE_SHOWN = 5
_WHOLE = 0.95  # of an hour: the minute that has just begun is not recorded yet
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Canvas:
    """What is drawn on: how many columns, whether in colours, and with which signs."""

    width: int = 80
    colours: bool = False
    plain: bool = False  # ASCII alone

    def ink(self, style: str, text: str) -> str:
        """Return a text in a colour or weight."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colours and text else text

    @property
    def signs(self) -> str:
        """The signs of a bar: resident, loading, foreign, free."""
        return "#+%." if self.plain else "█▒░·"

    @property
    def steps(self) -> str:
        """The signs of a curve, from nothing to all."""
        return " .:-=+*#" if self.plain else " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True, slots=True)
class TopState:
    """Everything that is drawn; what could not be read is None."""

    now: OperatorNow
    hours: OperatorHours | None = None
    people: OperatorPeople | None = None


def picture(state: TopState, canvas: Canvas) -> list[str]:
    """Return the lines, none wider than the canvas."""
    now = state.now
    drawn = chain(
        _head(now, canvas),
        *(_host(host, now.at, canvas) for host in now.hosts),
        _lines(now, canvas),
        () if state.hours is None else _hours(state.hours, canvas),
        () if state.people is None else _people(state.people, canvas),
    )
    return list(drawn)


# ---------------------------------------------------------------- now


def _head(now: OperatorNow, canvas: Canvas) -> Iterator[str]:
    running = sum(len(host.running) for host in now.hosts)
    waiting = sum(line.waiting for line in now.lines)
    text = f"usher  {_clock(now.at, now.at)}  {running} running, {waiting} waiting"
    yield canvas.ink("bold", fit(text, canvas.width))
    if now.mode == "paused":
        yield canvas.ink("yellow", fit("everything is paused", canvas.width))


def _host(host: HostNow, now: float, canvas: Canvas) -> Iterator[str]:
    yield ""
    mode = "" if host.mode == "open" else f"  {host.mode}"
    used_mb = host.memory.resident_mb + host.memory.loading_mb
    figures = f"{_gb(used_mb)} of {_gb(host.memory.total_mb)} GB"
    if host.memory.foreign_mb:
        figures += f", {_gb(host.memory.foreign_mb)} by other programs"
    room = canvas.width - _wide(host.name) - len(mode) - len(figures) - 4
    bar = _bar(host.memory, max(10, min(40, room)), canvas)
    name = canvas.ink("bold", host.name) + canvas.ink("yellow", mode)
    line = f"{name}  {bar}  {figures}"
    yield line if room >= 10 else fit(f"{host.name}{mode}  {figures}", canvas.width)
    yield from (_server(server, now, canvas) for server in host.servers)
    yield from (_copy(copy, now, canvas) for copy in host.copies)
    yield from (_running(job, now, canvas) for job in host.running)


def _bar(memory: MemoryNow, width: int, canvas: Canvas) -> str:
    parts = (memory.resident_mb, memory.loading_mb, memory.foreign_mb)
    total = max(memory.total_mb, sum(parts), 1)
    ends = [round(sum(parts[: count + 1]) / total * width) for count in range(3)]
    counts = (ends[0], ends[1] - ends[0], ends[2] - ends[1], width - ends[2])
    styles = ("green", "yellow", "red", "dim")
    drawn = zip(styles, canvas.signs, counts, strict=True)
    return "".join(canvas.ink(style, sign * count) for style, sign, count in drawn)


def _server(server: ServerNow, now: float, canvas: Canvas) -> str:
    if server.up:
        about = server.description or server.kind
        return canvas.ink("dim", fit(f"  {server.name}  up, {about}", canvas.width))
    if server.error is None:
        return canvas.ink("dim", fit(f"  {server.name}  not asked yet", canvas.width))
    cause = f": {server.error}" if server.error else ""
    text = f"  {server.name}  down since {_clock(server.since, now)}{cause}"
    return canvas.ink("red", fit(text, canvas.width))


def _copy(copy: CopyNow, now: float, canvas: Canvas) -> str:
    states = {
        Residency.READY: "in memory",
        Residency.LOADING: f"loading, until about {_clock(copy.ready_at, now)}",
        Residency.UNLOADING: "being unloaded",
    }
    pinned = ", kept by an admin" if copy.pinned else ""
    text = f"  {copy.model}  {_gb(copy.mb)} GB, {states[copy.state]}{pinned}"
    loading = copy.state is Residency.LOADING
    return canvas.ink("yellow", fit(text, canvas.width)) if loading else fit(text, canvas.width)


def _running(job: RunningNow, now: float, canvas: Canvas) -> str:
    done = "" if job.fraction is None else f" {job.fraction:4.0%}"
    until = "" if job.done_at is None else f", done at about {_clock(job.done_at, now)}"
    mark = ">" if canvas.plain else "▶"
    text = f"  {mark}{done} {job.job} {job.model} for {job.name}{until}"
    return canvas.ink("cyan", fit(text, canvas.width))


def _lines(now: OperatorNow, canvas: Canvas) -> Iterator[str]:
    shown = [line for line in now.lines if line.waiting or line.paused or line.troubles]
    if not shown:
        return
    yield ""
    widest = max(_wide(line.model) for line in shown)
    for line in shown:
        yield fit(f"{_padded(line.model, widest)}  {_of_line(line, now.at)}", canvas.width)
        for trouble in line.troubles:
            text = f"  cannot be loaded on {trouble.backend}: {trouble.cause}"
            yield canvas.ink("red", fit(text, canvas.width))


def _of_line(line: LineNow, now: float) -> str:
    said = [f"{line.waiting} waiting"]
    if line.oldest_s is not None:
        said.append(f"the first for {duration(line.oldest_s)}")
    if line.next_at is not None:
        said.append(f"next in {duration(max(0.0, line.next_at - now))}")
    if line.paused:
        said.append("paused")
    elif line.reason is not None:
        said.append(_because(line.reason, now))
    return ", ".join(said)


def _because(reason: Reason, now: float) -> str:
    return "".join(_clock(p, now) if isinstance(p, float) else p for p in words(reason))


# ---------------------------------------------------------------- the last hour


def _hours(hours: OperatorHours, canvas: Canvas) -> Iterator[str]:
    yield ""
    yield canvas.ink("bold", fit("the last hour", canvas.width))
    widest = max((_wide(host.name) for host in hours.hosts), default=0)
    for host in hours.hosts:
        curve = _curve(host, hours, canvas, max(10, min(60, canvas.width - widest - 32)))
        short = host.recorded_s < _WHOLE * (hours.ends - hours.begins)
        share = f"busy {host.busy:.0%}" + f" of {duration(host.recorded_s)}" * short
        text = f"{_padded(host.name, widest)}  {curve}  {share}, {host.loads} loads"
        yield fit(text, canvas.width)
    for model in hours.models:
        if model.done + model.failed + model.cancelled == 0:
            continue  # it was only loaded
        yield fit(_of_model(model), canvas.width)
    given, kept = hours.promises.given, hours.promises.kept
    if given:
        yield fit(f"{kept} of {given} promises kept ({kept / given:.0%})", canvas.width)
    for error in hours.errors[:_PEOPLE_SHOWN]:
        yield canvas.ink(
            "red", fit(f"{error.count} failed: {error.cause}, {error.model}", canvas.width)
        )


def _curve(host: HostHours, hours: OperatorHours, canvas: Canvas, width: int) -> str:
    """Return how busy a host was, a sign for each stretch of the hour."""
    sums = [0.0] * width
    seen = [0.0] * width
    whole_s = hours.ends - hours.begins
    for share in host.shares:
        at = min(width - 1, int((share.at - hours.begins) / whole_s * width))
        sums[at] += share.run
        seen[at] += share.recorded
    top = len(canvas.steps) - 1
    parts = (
        run / all_of_it if all_of_it else 0.0 for run, all_of_it in zip(sums, seen, strict=True)
    )
    return "".join(canvas.steps[min(top, round(part * top))] for part in parts)


def _of_model(model: ModelHours) -> str:
    said = [f"{model.done} done"]
    said += [f"{model.failed} failed"] if model.failed else []
    said += [f"{model.cancelled} cancelled"] if model.cancelled else []
    if model.wait_median_s is not None and model.wait_p95_s is not None:
        said.append(
            f"waited {duration(model.wait_median_s)}, 95 % at most {duration(model.wait_p95_s)}"
        )
    if model.service_median_s is not None:
        said.append(f"took {duration(model.service_median_s)}")
    return f"{model.name}  {', '.join(said)}"


def _people(people: OperatorPeople, canvas: Canvas) -> Iterator[str]:
    used = [each for each in people.people if each.gpu_s >= 1.0][:_PEOPLE_SHOWN]
    if used:
        told = ", ".join(f"{each.name} {duration(each.gpu_s)}" for each in used)
        yield ""
        yield fit(f"most time on the cards today: {told}", canvas.width)


# ---------------------------------------------------------------- words


def duration(seconds: float) -> str:
    """Return a time as people write it in a table: `3.2 s`, `41 s`, `12 min`, `3.5 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def fit(text: str, width: int) -> str:
    """Return a text without control characters, cut to a width with a mark where it was cut."""
    clean = "".join(sign if sign.isprintable() else " " for sign in text)
    if _wide(clean) <= width:
        return clean
    kept, used = "", 0
    for sign in clean:
        used += _wide(sign)
        if used >= width:
            break
        kept += sign
    return f"{kept}…"


def cropped(lines: Sequence[str], height: int) -> Sequence[str]:
    """Return the lines that fit, the last one saying how many do not."""
    if len(lines) <= height:
        return lines
    return [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]


def _wide(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(
        0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _wide(text))


def _gb(size_mb: int) -> str:
    return f"{size_mb / 1024:.1f}"


def _clock(moment: float, now: float) -> str:
    form = "%Y-%m-%d %H:%M:%S" if is_far(moment, now) else "%H:%M:%S"
    return datetime.fromtimestamp(moment).astimezone().strftime(form)
