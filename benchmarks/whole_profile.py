"""Where the processor's time goes while `benchmarks.whole` runs, by part of the bot.

A timer of processor time interrupts the event loop every few milliseconds; what has been used since
the last time belongs to the part at work, and what other threads used to the database. Unlike a
profile of all functions it makes small ones look no more expensive than they are.
"""

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self
from unittest.mock import patch

from queueing.store.batching import Batcher

EVERY_S = 0.002
THREADS = "other threads: the database"
LOOP = "the event loop itself"
OWN = "the benchmark's callers, chat and server"
OTHER = "other parts"
_ROOT = f"{Path(__file__).resolve().parent.parent}/"
_OURS = ("bot/", "queueing/", "backends/", "benchmarks/", "tests/")
# The first that is found anywhere in what a task is doing: part, end of a path, functions or any.
PARTS = (
    ("the history of the last hours, beside its writes", "history/recorder.py", ()),
    ("the history of the last hours, beside its writes", "history/batch.py", ()),
    ("the history of the last hours, beside its writes", "history/timeline.py", ()),
    ("the changes of a job, and telling of them", "service/event_bus.py", ("both", "publish")),
    ("the result: reading it, showing it, noting that", "delivery/editor.py", ("_finish",)),
    ("the first message: where the job stands", "delivery/editor.py", ("_update",)),
    ("the first message: where the job stands", "delivery/inquiry.py", ()),
    ("which message of a chat is next", "delivery/presenter.py", ()),
    ("the call: reading it, limits, accepting it", "dispatch/dispatcher.py", ()),
    ("the attempt: sending, watching, fetching", "engine/job_runner.py", ()),
    ("the attempt: sending, watching, fetching", "engine/attempts.py", ()),
    ("the scheduler: snapshots and decisions", "engine/scheduler.py", ()),
    ("the loop's side of the database", "store/batching.py", ()),
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
    for part, end, functions in PARTS:
        if any(path.endswith(end) and (not functions or name in functions) for path, name in stack):
            return part
    return OTHER


@dataclass
class Profile:
    """Takes samples until its block ends, and counts the tasks and changes that are made."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tasks: int = 0
    changes: int = 0  # and questions, given to the database

    def __enter__(self) -> Self:
        """Begin in the thread of a running event loop."""
        asyncio.get_running_loop().set_task_factory(self._task)
        submit = Batcher.submit

        def counted(batcher: Batcher, kind: Any, item: Any) -> Any:
            self.changes += 1
            return submit(batcher, kind, item)

        self._counting = patch.object(Batcher, "submit", counted)
        self._counting.start()
        self._used = time.thread_time(), time.process_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more samples."""
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


def table(
    seconds: Mapping[str, float], cpu_ms_per_job: float, limit: tuple[str, float]
) -> list[str]:
    """Return what each part takes of a job as lines, and below them the limit."""
    whole = sum(seconds.values())
    most_first = sorted(seconds.items(), key=lambda each: -each[1])
    shares = {part: each / whole for part, each in most_first}
    lines = [f"{part:<50}{of:>7.1%}{of * cpu_ms_per_job:>8.3f}" for part, of in shares.items()]
    ends = (("a job in the whole bot, ms", cpu_ms_per_job), limit)
    return [*lines, *(f"{name:<57}{ms:>8.3f}" for name, ms in ends)]
