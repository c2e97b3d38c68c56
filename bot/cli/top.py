"""`usher top`: watch the running bot in the terminal, from a separate process on its machine."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import RenderableType
from rich.live import Live

from bot.app import control_socket
from bot.app.console import Cropped, console, line, show
from bot.app.control_socket import NotRunning
from bot.app.operator_desk import HOUR, NOW, PEOPLE
from bot.cli.top_picture import TopState
from bot.config.loader import sign_at
from bot.monitoring.live_state import OperatorNow
from bot.monitoring.persons import OperatorPeople
from bot.monitoring.records import OperatorHours
from bot.monitoring.written import from_json

if sys.platform != "win32":
    import termios
    import tty

EVERY_S = 1.0
HISTORY_EVERY_S = 15.0
NOT_RUNNING = 2

Ask = Callable[[str], bytes]
"""Asks the running bot; raises `NotRunning`."""


@dataclass
class TopReader:
    """Reads the present at every call, and the history every `HISTORY_EVERY_S`."""

    ask: Ask
    clock: Callable[[], float] = time.monotonic
    _read_at: float | None = field(default=None, init=False)
    _hours: OperatorHours | None = field(default=None, init=False)
    _people: OperatorPeople | None = field(default=None, init=False)

    def read(self) -> TopState:
        """Return everything. Raises `NotRunning`."""
        now = from_json(self.ask(NOW), OperatorNow)
        if self._read_at is None or self.clock() >= self._read_at + HISTORY_EVERY_S:
            self._hours = from_json(self.ask(HOUR), OperatorHours)
            self._people = from_json(self.ask(PEOPLE), OperatorPeople)
            self._read_at = self.clock()
        return TopState(now=now, hours=self._hours, people=self._people)


def top(path: Path, *, once: bool, as_json: bool) -> int:
    """Draw until the person ends it, or once; return the exit status."""
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
    """Redraw every second until `q` or Ctrl-C, then restore the screen."""
    first = Cropped(reader.read())  # without a bot, the screen stays as it is
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a kill restores the screen, too
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
        return line(f"{_absence(error, path)}. Looking again every second; Ctrl-C ends this.")


def _absence(error: NotRunning, path: Path) -> str:
    return str(error) or f"no running bot has {path}: start it with `usher run`"


@contextmanager
def _keyboard() -> Iterator[Sequence[int]]:
    """Yield where to read single keys, without an echo; nowhere if standard input is no terminal."""
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
        if os.read(keyboard[0], 1) in {b"", b"q", b"Q"}:  # empty: the terminal is gone
            return True
    return False
