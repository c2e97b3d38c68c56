"""`usher top`: the running bot as a picture in the terminal, from its own process on this machine."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from bot.cli.top_picture import LEAST_WIDTH, Canvas, TopState, cropped, picture
from bot.config.load import sign_at
from bot.history.hours import OperatorHours
from bot.history.now import OperatorNow
from bot.history.persons import OperatorPeople
from bot.history.written import from_json
from bot.runtime import control
from bot.runtime.control import NotRunning
from bot.runtime.operator_desk import HOUR, NOW, PEOPLE

T = TypeVar("T")

EVERY_S = 1.0
HISTORY_EVERY_S = 15.0
NOT_RUNNING = 2
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_THE_END, _REST = "\x1b[H", "\x1b[K\r\n", "\x1b[J"

Ask = Callable[[str], bytes]
"""Asks the running bot; raises `NotRunning`."""


@dataclass
class TopReader:
    """What was read of the running bot: the present each time, the rest now and then."""

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
    """Draw until interrupted, or once; return the exit status."""
    reader = TopReader(lambda call: control.ask(sign_at(path), call))
    try:
        if as_json:
            print(_json(reader.ask))
        elif once or not sys.stdout.isatty():
            print("\n".join(picture(reader.read(), canvas(sys.stdout))))
        else:
            _keep_drawing(reader, path)
    except NotRunning as error:
        print(str(error) or _nothing_there(path), file=sys.stderr)
        return NOT_RUNNING
    return 0


def canvas(stream: TextIO) -> Canvas:
    """Return what a stream can show: in colours only where a person reader and wants them."""
    width = max(LEAST_WIDTH, shutil.get_terminal_size().columns)
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    is_unicode = (stream.encoding or "").lower().replace("-", "").startswith("utf")
    return Canvas(width=width, colours=wanted and stream.isatty(), plain=not is_unicode)


def _json(ask: Ask) -> str:
    whole = {name: json.loads(ask(name)) for name in (NOW, HOUR, PEOPLE)}
    return json.dumps(whole, ensure_ascii=False)


def _keep_drawing(reader: TopReader, path: Path) -> None:
    """Repaint every second until Ctrl-C; the screen is then as it was before."""
    reader.read()  # without a bot, the screen stays as it is
    sys.stdout.write(_ENTER)
    try:
        while True:
            _paint(reader, path)
            time.sleep(EVERY_S)
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _paint(reader: TopReader, path: Path) -> None:
    try:
        lines = picture(reader.read(), canvas(sys.stdout))
    except NotRunning as error:
        lines = [
            str(error) or _nothing_there(path),
            "",
            "It is looked for every second; Ctrl-C ends this.",
        ]
    shown = cropped(lines, max(2, shutil.get_terminal_size().lines - 1))
    text = _TO_THE_END.join(shown)
    sys.stdout.write(f"{_HOME}{text}{_TO_THE_END}{_REST}")
    sys.stdout.flush()


def _nothing_there(path: Path) -> str:
    return f"no running bot has {path}: start it with `usher run`"
