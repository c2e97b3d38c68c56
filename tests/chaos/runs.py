"""The runs of the program: each is a separate process that is started, dies and is started again.

A run is the real command line (`tests.chaos.crash_points`), a process that is killed from outside
at a random moment, kills itself at a commit point, or is told to stop in order.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from tests.chaos.crash_points import IN_ORDER, POINTS

ROOT = Path(__file__).resolve().parents[2]
POINT_WITHIN_S = 4.0  # a commit point not reached by then: killed from outside
STARTS_WITHIN_S = 30.0
STOPS_WITHIN_S = 15.0
AT_START = 0.3  # of the runs that end at a random moment: while they begin
AT_RANDOM = "at random"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """How a run ends: at a commit point, after this many seconds, or (neither) not at all.

    `in_order`: it is told to stop, not killed.
    """

    point: str = ""
    after_s: float | None = None
    in_order: bool = False


def fates(random: Random, kills: int, stops: int) -> list[Fate]:
    """Return how this many runs end, kills and stops mixed.

    Each commit point has its turn; every fourth kill comes at a random moment.
    """
    drawn = _killed(random, kills)
    for _ in range(stops):
        stop = Fate(after_s=random.uniform(0.0, 2.0), in_order=True)
        drawn.insert(random.randrange(len(drawn) + 1), stop)
    return drawn


def _killed(random: Random, kills: int) -> list[Fate]:
    deck: list[str] = []
    drawn: list[Fate] = []
    for number in range(kills):
        if number % 4 == 3:
            drawn.append(Fate(after_s=random.uniform(0.0, 1.5)))
            continue
        if not deck:
            deck = [f"{when} {label}" for label in POINTS for when in ("before", "after")]
            random.shuffle(deck)
        drawn.append(Fate(point=f"{deck.pop()} {random.choice([1, 1, 2, 3, 5])}"))
    return drawn


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A process of the program; `ended` has its exit status when it is over."""

    pid: int
    ended: asyncio.Task[int]

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal, if it still runs."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, how)


class Launcher:
    """Begins runs from a process that has imported everything: that takes longer than a run."""

    def __init__(
        self,
        config: Path,
        log: Path,
        *,
        program: str = "tests.chaos.crash_points",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._log = log
        self._program = program
        self._environment = environment or {}
        self._process: asyncio.subprocess.Process | None = None
        self._newest: Run | None = None

    async def __aenter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._program),
                *("run", "-c", str(self._config)),
                cwd=ROOT,
                env=os.environ | self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave no process behind, however the trial ends."""
        assert self._process is not None
        if self._newest is not None:
            self._newest.kill()
            await self._newest.ended
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def begin(self, fate: Fate) -> Run:
        """Begin a run; the previous one has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{IN_ORDER if fate.in_order else fate.point}\n".encode())
        pid = await self._word("began")
        self._newest = Run(pid=pid, ended=asyncio.create_task(self._word("ended")))
        return self._newest

    async def _word(self, kind: str) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        said = (await self._process.stdout.readline()).decode().split()
        assert said[:1] == [kind], said
        return int(said[1])


@dataclass(kw_only=True)
class Runs:
    """One run after the other with the same configuration and database.

    `polls` counts how often the program has asked a chat for updates, `is_up` tells whether all
    chats reach it; `faults` are sentences about runs that did not end as they should.
    """

    launcher: Launcher
    random: Random
    polls: Callable[[], int]
    is_up: Callable[[], bool]
    slow: float = 1.0
    recovery_s: list[float] = field(default_factory=list)
    died_at: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    async def go_through(
        self,
        kills: int,
        stops: int,
        *,
        died: Callable[[], None],
        left: Callable[[], int],
        calm: Callable[[], Awaitable[None]],
        within_s: float,
    ) -> None:
        """End this often, calling `died` each time; then live until all is done, and stop.

        It is stuck when the rest does not become less for this many seconds. `calm` is awaited
        before it stops.
        """
        for fate in fates(self.random, kills, stops):
            run = await self._begin(fate)
            await self._end(run, fate)
            died()
        last = await self._begin(Fate())
        if await self._lasts(last, left, within_s):
            await calm()
            await self._stop(last)

    async def _lasts(self, run: Run, left: Callable[[], int], within_s: float) -> bool:
        """Wait until nothing is left to do; return whether the run has not ended."""
        least = left()
        try:
            async with asyncio.timeout(within_s) as limit:
                while (now_left := left()) or self.polls() == 0:
                    if now_left < least:
                        least = now_left
                        limit.reschedule(asyncio.get_running_loop().time() + within_s)
                    await asyncio.sleep(0.2)
                    if run.ended.done():
                        self.faults.append(f"it ended by itself with {run.ended.result()}")
                        return False
        except TimeoutError:
            self.faults.append(f"{least} requests do not end")
        return True

    async def _stop(self, run: Run) -> None:
        run.kill(signal.SIGTERM)
        await asyncio.wait([run.ended], timeout=STOPS_WITHIN_S)
        if not run.ended.done():
            self.faults.append("it does not stop in order")
            run.kill()
        elif status := run.ended.result():
            self.faults.append(f"it stopped in order with {status}")
        await run.ended

    # ------------------------------------------------------------ one run

    async def _begin(self, fate: Fate) -> Run:
        """Start a run and wait until it is up, unless it is to die before that."""
        polls, began = self.polls(), asyncio.get_running_loop().time()
        run = await self.launcher.begin(fate)
        at_random = fate.after_s is not None and not fate.in_order
        if at_random and self.random.random() < AT_START:
            await asyncio.sleep(self.random.uniform(0.0, 0.3))
            return run
        if await self._until(run, lambda: self.polls() > polls):
            self.recovery_s.append(asyncio.get_running_loop().time() - began)
            await self._until(run, self.is_up)
        return run

    async def _until(self, run: Run, condition: Callable[[], bool]) -> bool:
        """Wait until a condition is true; return whether it was before the run ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STARTS_WITHIN_S):
                while not condition() and not run.ended.done():  # noqa: ASYNC110  a process
                    await asyncio.sleep(0.01)
        return condition()

    async def _end(self, run: Run, fate: Fate) -> None:
        """Wait for a run to end by itself, or end it."""
        if fate.in_order and fate.after_s is not None:
            await asyncio.wait([run.ended], timeout=fate.after_s * self.slow)
            await self._stop(run)
            return
        died = fate.point.rpartition(" ")[0] or AT_RANDOM
        within_s = POINT_WITHIN_S if fate.after_s is None else fate.after_s
        await asyncio.wait([run.ended], timeout=within_s * self.slow)
        if not run.ended.done():
            died = AT_RANDOM
            run.kill()
        if (status := await run.ended) != -signal.SIGKILL:
            self.faults.append(f"it ended by itself with {status}")
        self.died_at[died] += 1
