"""`usher` in separate processes that begin with everything imported.

Importing takes longer than most of these runs. `python -m tests.fakes.fork_server` imports once and
then forks a process for each line of JSON it reads; each ends as the command line ends. The command
line itself has its own tests.
"""

import asyncio
import atexit
import io
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import IO, Any

from queueing.core.concurrency import undisturbed

ROOT = Path(__file__).resolve().parents[2]


class Child:
    """A run of `usher`, used as `asyncio.subprocess.Process` is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: Future[int] = Future()

    @property
    def returncode(self) -> int | None:
        """The status it ended with, negative for a signal; None while it runs."""
        return self.ended.result() if self.ended.done() else None

    def send_signal(self, number: int) -> None:
        """Send a signal. Raises `ProcessLookupError` if it has ended."""
        if self.ended.done():
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power failure would."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end and return its status; other waiting tasks see the end, too."""
        return await undisturbed(asyncio.wrap_future(self.ended))


class ForkServer:
    """The process that runs are forked from, for as long as this one lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.fork_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._begun: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._one_by_one = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, arguments: Sequence[str], log: Path) -> Child:
        """Begin a run that writes to a file."""
        assert self._process.stdin is not None
        order = {"arguments": list(arguments), "log": str(log), "environment": dict(os.environ)}
        with self._one_by_one:
            self._process.stdin.write(f"{json.dumps(order)}\n")
            self._process.stdin.flush()
            return self._begun.get(timeout=120)

    def end(self) -> None:
        """End it; it waits for no run."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        children: dict[int, Child] = {}
        for line in self._process.stdout:
            word, pid, *status = line.split()
            if word == "began":
                children[int(pid)] = Child(int(pid))
                self._begun.put(children[int(pid)])
            else:
                children.pop(int(pid)).ended.set_result(int(status[0]))


@cache
def _fork_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.end)
    return server


async def start_usher(arguments: Sequence[str], log: Path) -> Child:
    """Begin `usher` with these arguments in a separate process that writes to a file."""
    return await asyncio.to_thread(_fork_server().start, arguments, log)


# ---------------------------------------------------------------- in the fork server's process


def serve_forks() -> int:
    """Fork for every line, and report which process began or ended, and how."""
    from bot.app import process  # noqa: F401, PLC0415  what `usher run` imports later
    from bot.cli.main import main  # noqa: PLC0415  the tests need none of it

    order = _order_of_a_child()
    return 0 if order is None else main(_become(order))


def _order_of_a_child() -> dict[str, Any] | None:
    """Return a new process's order in that process; None in this one, once there are no more."""
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    orders = io.FileIO(0, closefd=False)  # unbuffered: what is not read yet is looked for
    with selectors.DefaultSelector() as looking:
        for each in (woken, 0):
            looking.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in looking.select():
                if key.fd == woken:
                    os.read(woken, 1000)
                    _reap()
                elif not (line := orders.readline()):
                    return None
                elif _forked():
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(woken)
                    os.close(wakes)
                    order: dict[str, Any] = json.loads(line)
                    return order


def _forked() -> bool:
    """Return whether this is the new process; otherwise report it."""
    child = os.fork()
    if child:
        print(f"began {child}", flush=True)
    return child == 0


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        print(f"ended {pid} {os.waitstatus_to_exitcode(status)}", flush=True)


def _become(order: dict[str, Any]) -> list[str]:
    """Take the place of a process that was started as ordered; return its arguments."""
    log: IO[bytes]
    with Path(order["log"]).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.environ.clear()
    os.environ.update(order["environment"])
    arguments: list[str] = order["arguments"]
    sys.argv = ["usher", *arguments]
    return arguments


if __name__ == "__main__":
    sys.exit(serve_forks())
