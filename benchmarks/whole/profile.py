"""Where processor time goes while `benchmarks.whole --profile` runs.

A timer interrupts the event loop after every few milliseconds of processor time. `Profile` counts the
time since the last interrupt for the part of the bot at work, and that of other threads for the
database. Unlike a profile of all functions, this does not overstate small ones. `LongSteps` measures
processor time too, so other programs on the machine do not make a step longer; it reports garbage
collection separately, because it can happen in the middle of any step.
"""

import asyncio
import gc
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self
from unittest.mock import patch

from queueing.store.sql.batcher import Batcher

EVERY_S = 0.002
LONG_S = 0.010
THREADS = "other threads: the database"
LOOP = "the event loop itself"
OWN = "the benchmark's callers, chat and server"
OTHER = "other parts"
_ROOT = f"{Path(__file__).resolve().parents[2]}/"
_OURS = ("bot/", "queueing/", "backends/", "benchmarks/", "tests/")
_HISTORY = "the history of the last hours, without its writes"
_FIRST = "the first message: where the job stands"
_ATTEMPT = "the attempt: sending, watching, fetching"
# The first match anywhere in a task's stack wins: part, end of a path, functions (or any).
PARTS = (
    (_HISTORY, "monitoring/recorder.py"),
    (_HISTORY, "monitoring/history.py"),
    (_HISTORY, "monitoring/timeline.py"),
    ("the changes of a job, and announcing them", "engine/event_bus.py", "both", "publish"),
    ("the result: reading it, showing it, noting that", "delivery/editor.py", "_finish"),
    (_FIRST, "delivery/editor.py", "_update"),
    (_FIRST, "delivery/standings.py"),
    ("which message of a chat is next", "delivery/presenter.py"),
    ("the call: reading it, limits, accepting it", "commands/dispatcher.py"),
    (_ATTEMPT, "engine/job_runner.py"),
    (_ATTEMPT, "engine/attempt_sender.py"),
    ("the scheduler: snapshots and decisions", "engine/scheduler.py"),
    ("the loop's side of the database", "sql/batcher.py"),
)


def part_of(frame: FrameType | None) -> str:
    """Return the part of the bot that an interrupted task belongs to."""
    stack: list[tuple[str, str]] = []
    while frame is not None and frame.f_code.co_name != "_run_once":
        path = frame.f_code.co_filename
        if path.startswith(_ROOT) and (own := path.removeprefix(_ROOT)).startswith(_OURS):
            stack.append((own, frame.f_code.co_name))
        frame = frame.f_back
    if not stack:
        return LOOP
    if stack[0][0].startswith(("benchmarks/", "tests/")):
        return OWN
    for part, end, *functions in PARTS:
        if any(path.endswith(end) and name in (functions or [name]) for path, name in stack):
            return part
    return OTHER


class Profile:
    """Samples the event loop inside its block; counts the tasks and database calls made there."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tasks = 0
        self.changes = 0  # and questions to the database
        self.steps = LongSteps()

    def __enter__(self) -> Self:
        """Begin, in the thread of a running event loop."""
        asyncio.get_running_loop().set_task_factory(self._task)
        submit = Batcher.submit

        def counted(batcher: Batcher, kind: Any, item: Any) -> Any:
            self.changes += 1
            return submit(batcher, kind, item)

        self._counting = patch.object(Batcher, "submit", counted)
        self._counting.start()
        self.steps.__enter__()
        self._used = time.thread_time(), time.process_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling."""
        self.steps.__exit__()
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # a last one may be on its way
        self._counting.stop()
        asyncio.get_running_loop().set_task_factory(None)

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **named: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return asyncio.Task(coro, loop=loop, **named)

    def _sample(self, _signal: int, frame: FrameType | None) -> None:
        own, everything = time.thread_time(), time.process_time()
        spent = own - self._used[0]
        self.seconds[part_of(frame)] += spent
        self.seconds[THREADS] += max(0.0, everything - self._used[1] - spent)
        self._used = own, everything

    def lines(self, cpu_ms_per_job: float) -> list[str]:
        """Return each part's share of a job, largest first, as lines of a table."""
        whole = sum(self.seconds.values())
        largest_first = sorted(self.seconds.items(), key=lambda each: -each[1])
        return [
            f"{part:<50}{seconds / whole:>7.1%}{seconds / whole * cpu_ms_per_job:>8.3f}"
            for part, seconds in largest_first
        ]


class LongSteps:
    """Watches the event loop of this thread inside its block for steps beyond `LONG_S`."""

    def __init__(self) -> None:
        self._long: defaultdict[str, list[float]] = defaultdict(list)  # seconds, by step
        self._collections: list[float] = []  # of garbage, in seconds
        self._began = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        step = asyncio.Handle._run  # noqa: SLF001  # where every step begins and ends

        def timed(handle: asyncio.Handle) -> None:
            name, began = _name(handle), time.thread_time()
            step(handle)
            took_s = time.thread_time() - began
            if took_s > LONG_S:
                self._long[name].append(took_s)

        self._timing = patch.object(asyncio.Handle, "_run", timed)
        self._timing.start()
        gc.callbacks.append(self._collect)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        gc.callbacks.remove(self._collect)
        self._timing.stop()

    def _collect(self, phase: str, _found: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collections.append(time.thread_time() - self._began)

    def lines(self, jobs: int) -> Sequence[str]:
        """Return what was seen as lines of a table."""
        longest = _ms(self._collections)
        garbage = f"garbage collection, in all of these, ms; the longest {longest} ms"
        longest_first = sorted(self._long.items(), key=lambda each: -max(each[1]))
        return [
            f"{garbage:<57}{sum(self._collections) * 1000 / jobs:>8.3f}",
            *(
                f"steps beyond {LONG_S * 1000:.0f} ms: {len(took)} of {name}, the longest {_ms(took)} ms"
                for name, took in longest_first
            ),
        ]


def _ms(seconds: Sequence[float]) -> str:
    return f"{max(seconds, default=0.0) * 1000:.1f}"


def _name(handle: asyncio.Handle) -> str:
    """Return what a step belongs to: the coroutine of its task, or the function it calls."""
    called: Any = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001  # as above
    task = getattr(called, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task))
    return str(getattr(called, "__qualname__", called))
