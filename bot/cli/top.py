"""`usher top`: watch the running bot in the terminal, from a separate process on its machine."""

import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from bot.app import control_socket
from bot.app.console import Cropped, console, line, show
from bot.app.control_socket import HOUR, NOW, PEOPLE, NotRunning
from bot.config.loader import sign_at
from bot.monitoring.dashboard import from_json
from bot.monitoring.live_state import (
    CopyNow,
    HostNow,
    LiveState,
    MemoryNow,
    QueueNow,
    RunningNow,
    ServerNow,
)
from bot.monitoring.records import HostHours, HoursRecord, ModelHours, PeopleRecord
from bot.texts.catalogue import DEFAULT_LANGUAGE, is_far
from bot.texts.reasons import sentence
from queueing.core.snapshot import Residency
from queueing.core.status import Estimate

_MOST_ROWS = 5  # errors, and people
_WHOLE = 0.95  # of an hour: the current minute is not recorded yet

Row = tuple[str, str, str]
"""A name, its description, and a style for both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopState:
    """Everything on the screen. Parts that could not be read are None."""

    now: LiveState
    hours: HoursRecord | None = None
    people: PeopleRecord | None = None

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield from _head(self.now)
        for host in self.now.hosts:
            yield from _host(host, self.now.at, options)
        yield from _queues(self.now)
        if self.hours is not None:
            yield from _last_hour(self.hours, options)
        if self.people is not None:
            yield from _people(self.people)


def _table(rows: Iterator[Row]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, text, style in rows:
        table.add_row(line(name, style), line(text, style))
    return table


def _drawings(*rows: tuple[Text, Text, str]) -> Table:
    """Return rows with a bar or a curve in the middle, which never wraps."""
    table = Table.grid("", Column(no_wrap=True), "", padding=(0, 2, 0, 0))
    for name, drawing, text in rows:
        table.add_row(name, drawing, line(text))
    return table


# ---------------------------------------------------------------- now


def _head(now: LiveState) -> Iterator[RenderableType]:
    running = sum(len(host.running) for host in now.hosts)
    waiting = sum(each.waiting for each in now.queues)
    yield Text(f"usher  {_clock(now.at, now.at)}  {running} running, {waiting} waiting", "bold")
    if now.mode == "paused":
        yield Text("everything is paused", "yellow")


def _host(host: HostNow, now: float, options: ConsoleOptions) -> Iterator[RenderableType]:
    name, memory = line(host.name, "bold"), host.memory
    if host.mode != "open":
        name.append(f"  {host.mode}", "yellow")
    figures = f"{_gb(memory.resident_mb + memory.loading_mb)} of {_gb(memory.total_mb)} GB"
    if memory.foreign_mb:
        figures += f", {_gb(memory.foreign_mb)} by other programs"
    if host.unmeasured_since is not None:
        figures += f", not measured since {_clock(host.unmeasured_since, now)}"
    yield Text()
    yield _drawings((name, _bar(memory, options), figures))
    yield Padding.indent(_table(_parts(host, now, ">" if options.ascii_only else "▶")), 2)


def _bar(memory: MemoryNow, options: ConsoleOptions) -> Text:
    """Draw loaded models, loading models, other programs and free memory as a bar."""
    width = max(10, min(40, options.max_width - 50))
    parts = (memory.resident_mb, memory.loading_mb, memory.foreign_mb)
    total = max(memory.total_mb, sum(parts), 1)
    ends = [0, *(round(sum(parts[:count]) / total * width) for count in (1, 2, 3)), width]
    signs = zip("#+%." if options.ascii_only else "█▒░·", pairwise(ends), strict=True)
    drawn = [sign * (end - begin) for sign, (begin, end) in signs]
    return Text.assemble(*zip(drawn, ("green", "yellow", "red", "dim"), strict=True))


def _parts(host: HostNow, now: float, mark: str) -> Iterator[Row]:
    yield from (_server(server, now) for server in host.servers)
    yield from (_copy(copy, now) for copy in host.copies)
    yield from (_running(job, now, mark) for job in host.running)


def _server(server: ServerNow, now: float) -> Row:
    if server.up:
        return server.name, f"up, {server.description or server.kind}", "dim"
    if server.error is None:
        return server.name, "not checked yet", "dim"
    cause = f": {server.error}" if server.error else ""
    return server.name, f"down since {_clock(server.since, now)}{cause}", "red"


def _copy(copy: CopyNow, now: float) -> Row:
    states = {
        Residency.READY: "in memory",
        Residency.LOADING: f"loading{' ahead' if copy.ahead else ''}, until about {_clock(copy.ready_at, now)}",
        Residency.UNLOADING: "being unloaded",
    }
    pinned = ", kept by an admin" if copy.pinned else ""
    style = "yellow" if copy.state is Residency.LOADING else ""
    return copy.model, f"{_gb(copy.mb)} GB, {states[copy.state]}{pinned}", style


def _running(job: RunningNow, now: float, mark: str) -> Row:
    done = "" if job.fraction is None else f", {job.fraction:.0%}"
    until = "" if job.ends is None else f", done {_range(job.ends, now)}"
    return f"{mark} {job.job}", f"{job.model} for {job.name}{done}{until}", "cyan"


def _queues(now: LiveState) -> Iterator[RenderableType]:
    shown = [each for each in now.queues if each.waiting or each.paused or each.troubles]
    if shown:
        yield Text()
        yield _table(row for each in shown for row in _queue(each, now.at))


def _queue(queue: QueueNow, now: float) -> Iterator[Row]:
    parts = [f"{queue.waiting} waiting"]
    if queue.oldest_s is not None:
        parts.append(f"longest wait {duration(queue.oldest_s)}")
    if queue.next_ends is not None:
        parts.append(f"a new job done {_range(queue.next_ends, now)}")
    if queue.paused:
        parts.append("paused")
    elif queue.reason is not None:
        clock = partial(_clock, now=now)
        parts.append(sentence(queue.reason, DEFAULT_LANGUAGE, clock))
    yield queue.model, ", ".join(parts), ""
    for trouble in queue.troubles:
        yield "", f"cannot be loaded on {trouble.backend}: {trouble.cause}", "red"


# ---------------------------------------------------------------- the last hour


def _last_hour(hours: HoursRecord, options: ConsoleOptions) -> Iterator[RenderableType]:
    yield Text()
    yield Text("the last hour", "bold")
    yield _drawings(*(_of_host(host, hours, options) for host in hours.hosts))
    if any(map(_ended, hours.models)):  # the others were only loaded
        yield _table((each.name, _of_model(each), "") for each in hours.models if _ended(each))
    given, kept = hours.promises.given, hours.promises.kept
    if given:
        yield Text(f"{kept} of {given} first estimates kept ({kept / given:.0%})")
    for error in hours.errors[:_MOST_ROWS]:
        yield line(f"{error.count} failed: {error.cause}, {error.model}", "red")


def _of_host(
    host: HostHours, hours: HoursRecord, options: ConsoleOptions
) -> tuple[Text, Text, str]:
    short = host.recorded_s < _WHOLE * (hours.ends - hours.begins)
    share = f"busy {host.busy:.0%}" + f" of {duration(host.recorded_s)}" * short
    return line(host.name), _curve(host, hours, options), f"{share}, {host.loads} loads"


def _curve(host: HostHours, hours: HoursRecord, options: ConsoleOptions) -> Text:
    """Draw how busy a host was, with one character for each part of the hour."""
    width = max(10, min(60, options.max_width - 40))
    steps = " .:-=+*#" if options.ascii_only else " ▁▂▃▄▅▆▇█"
    busy, seen = [0.0] * width, [0.0] * width
    for share in host.shares:
        part = (share.at - hours.begins) / (hours.ends - hours.begins)
        at = min(width - 1, int(part * width))
        busy[at] += share.run
        seen[at] += share.recorded
    top = len(steps) - 1
    parts = (run / whole if whole else 0.0 for run, whole in zip(busy, seen, strict=True))
    return Text("".join(steps[min(top, round(part * top))] for part in parts))


def _ended(model: ModelHours) -> int:
    return model.done + model.failed + model.cancelled


def _of_model(model: ModelHours) -> str:
    parts = [f"{model.done} done"]
    parts += [f"{model.failed} failed"] if model.failed else []
    parts += [f"{model.cancelled} cancelled"] if model.cancelled else []
    if model.wait_median_s is not None and model.wait_p95_s is not None:
        p95 = duration(model.wait_p95_s)
        parts.append(f"waited {duration(model.wait_median_s)}, 95 % at most {p95}")
    if model.service_median_s is not None:
        parts.append(f"took {duration(model.service_median_s)}")
    return ", ".join(parts)


def _people(people: PeopleRecord) -> Iterator[RenderableType]:
    used = [each for each in people.people if each.gpu_s >= 1.0][:_MOST_ROWS]
    if used:
        listed = ", ".join(f"{each.name} {duration(each.gpu_s)}" for each in used)
        yield Text()
        yield line(f"most GPU time today: {listed}")


# ---------------------------------------------------------------- words


def duration(seconds: float) -> str:
    """Return a duration as in a table: `3.2 s`, `41 s`, `12 min`, `3.5 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def _gb(size_mb: int) -> str:
    return f"{size_mb / 1024:.1f}"


def _range(estimate: Estimate, now: float) -> str:
    return f"about {_clock(estimate.earliest, now)} to {_clock(estimate.latest, now)}"


def _clock(moment: float, now: float) -> str:
    form = "%Y-%m-%d %H:%M:%S" if is_far(moment, now) else "%H:%M:%S"
    return datetime.fromtimestamp(moment).astimezone().strftime(form)


if sys.platform != "win32":
    import termios
    import tty

EVERY_S = 1.0
HISTORY_EVERY_S = 15.0
NOT_RUNNING = 2
_ESC = b"\x1b"
_ESC_S = 0.05  # between the parts of one key, such as an arrow
_OTHER_KEYS = re.compile(rb"\x1b[\[O][0-9;]*[ -/]*[@-~]")

Ask = Callable[[str], bytes]
"""Asks the running bot; raises `NotRunning`."""


@dataclass
class TopReader:
    """Reads the current state at every call, and the history every `HISTORY_EVERY_S`."""

    ask: Ask
    clock: Callable[[], float] = time.monotonic
    _read_at: float | None = field(default=None, init=False)
    _hours: HoursRecord | None = field(default=None, init=False)
    _people: PeopleRecord | None = field(default=None, init=False)

    def read(self) -> TopState:
        """Return the whole state. Raises `NotRunning`."""
        now = from_json(self.ask(NOW), LiveState)
        if self._read_at is None or self.clock() >= self._read_at + HISTORY_EVERY_S:
            self._hours = from_json(self.ask(HOUR), HoursRecord)
            self._people = from_json(self.ask(PEOPLE), PeopleRecord)
            self._read_at = self.clock()
        return TopState(now=now, hours=self._hours, people=self._people)


def top(path: Path, *, once: bool, as_json: bool) -> int:
    """Draw until the person quits, or once. Returns the exit status."""
    reader = TopReader(lambda call: control_socket.ask(sign_at(path), call))
    try:
        if as_json:
            print(_json(reader.ask))
        elif once or not console().is_interactive:
            show(reader.read())
        else:
            _keep_drawing(reader, path)
    except NotRunning as error:
        print(_absence(error, path), file=sys.stderr)
        return NOT_RUNNING
    return 0


def _json(ask: Ask) -> str:
    whole = {name: json.loads(ask(name)) for name in (NOW, HOUR, PEOPLE)}
    return json.dumps(whole, ensure_ascii=False)


def _keep_drawing(reader: TopReader, path: Path) -> None:
    """Redraw every second until `q`, Esc or Ctrl-C, then restore the screen."""
    first = Cropped(reader.read())  # without a bot, the screen stays as it is
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # so that a kill also restores the screen
    with (
        suppress(KeyboardInterrupt),
        _keyboard() as keyboard,
        Live(first, console=console(), screen=True, auto_refresh=False) as live,
    ):
        while not _quits_within(EVERY_S, keyboard):
            live.update(Cropped(_read(reader, path)), refresh=True)


def _read(reader: TopReader, path: Path) -> RenderableType:
    try:
        return reader.read()
    except NotRunning as error:
        return line(f"{_absence(error, path)}. Retrying every second; press Ctrl-C to stop.")


def _absence(error: NotRunning, path: Path) -> str:
    return str(error) or f"no running bot uses {path}: start it with `usher run`"


@contextmanager
def _keyboard() -> Iterator[Sequence[int]]:
    """Yield the descriptors for reading single keys without echo; empty without a terminal."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield ()
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield (terminal,)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _quits_within(seconds: float, keyboard: Sequence[int]) -> bool:
    ends = time.monotonic() + seconds
    while select.select(keyboard, (), (), max(0.0, ends - time.monotonic()))[0]:
        pressed = os.read(keyboard[0], 64)
        if pressed.endswith(_ESC) and select.select(keyboard, (), (), _ESC_S)[0]:
            pressed += os.read(keyboard[0], 64)
        if quits(pressed):
            return True
    return False


def quits(pressed: bytes) -> bool:
    """Return whether `q` or Esc was pressed, or the terminal has closed.

    Arrows and other keys begin with Esc as well.
    """
    return not pressed or bool(set(b"qQ" + _ESC) & set(_OTHER_KEYS.sub(b"", pressed)))
