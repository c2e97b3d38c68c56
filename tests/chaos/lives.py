"""The lives of the program: starts it as its own process, lets it die, starts it again.

A life is the real command line (`python -m bot run`) killed from outside at a random moment, or
`tests.chaos.mortal`, the same with a commit point at which it kills itself.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

from tests.chaos.mortal import POINTS, VARIABLE

ROOT = Path(__file__).resolve().parents[2]
POINT_WITHIN_S = 4.0  # a commit point not reached by then: killed from outside
STARTS_WITHIN_S = 30.0
STOPS_WITHIN_S = 15.0
AT_START = 0.3  # of the lives that end at a random moment: while they begin
AT_RANDOM = "at random"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """How a life ends: at a commit point, after so many seconds, or (neither) not at all."""

    point: str = ""
    after_s: float | None = None


def fates(random: Random, kills: int) -> list[Fate]:
    """Return how so many lives end: each commit point in turn, every fourth at a random moment."""
    deck: list[str] = []
    drawn = []
    for number in range(kills):
        if number % 4 == 3:
            drawn.append(Fate(after_s=random.uniform(0.0, 1.5)))
            continue
        if not deck:
            deck = [f"{when} {label}" for label in POINTS for when in ("before", "after")]
            random.shuffle(deck)
        drawn.append(Fate(point=f"{deck.pop()} {random.choice([1, 1, 2, 3, 5])}"))
    return drawn


@dataclass(kw_only=True)
class Lives:
    """One life after the other on the same configuration and database.

    `polls` counts how often the program has asked the chat for updates; `faults` are sentences
    about lives that ended otherwise than they should.
    """

    config: Path
    random: Random
    polls: Callable[[], int]
    log: Path
    recovery_s: list[float] = field(default_factory=list)
    died_at: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _living: asyncio.subprocess.Process | None = None
    _prepared: asyncio.subprocess.Process | None = None

    async def go_through(
        self, kills: int, *, died: Callable[[], None], left: Callable[[], int], within_s: float
    ) -> None:
        """Die so often, calling `died` each time; then live until nothing is left to do, and stop.

        It is stuck when what is left does not get less for so many seconds.
        """
        plan = [*fates(self.random, kills), Fate()]
        try:
            for fate, following in pairwise(plan):
                process = await self._begin(fate, following)
                await self._end(process, fate)
                died()
            await self._last(await self._begin(plan[-1], None), left, within_s)
        finally:
            for started in (self._living, self._prepared):
                await _ended(started)

    async def _last(
        self, process: asyncio.subprocess.Process, left: Callable[[], int], within_s: float
    ) -> None:
        least = left()
        try:
            async with asyncio.timeout(within_s) as limit:
                while (now_left := left()) or self.polls() == 0:
                    if now_left < least:
                        least = now_left
                        limit.reschedule(asyncio.get_running_loop().time() + within_s)
                    await asyncio.sleep(0.2)
                    if process.returncode is not None:
                        self.faults.append(f"it ended by itself with {process.returncode}")
                        return
        except TimeoutError:
            self.faults.append(f"{least} requests do not end")
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOPS_WITHIN_S):
                await process.wait()
        except TimeoutError:
            self.faults.append("it does not stop in order")
            process.kill()
            await process.wait()

    # ------------------------------------------------------------ one life

    async def _begin(self, fate: Fate, following: Fate | None) -> asyncio.subprocess.Process:
        """Start a life, or give the prepared one its word; prepare the one after it."""
        polls, began = self.polls(), asyncio.get_running_loop().time()
        process, self._prepared = self._prepared, None
        if process is None:
            process = await self._spawn(fate, wait=False)
        else:
            assert process.stdin is not None
            process.stdin.write(b"begin\n")
        self._living = process
        if following is not None and following.after_s is None:
            self._prepared = await self._spawn(following, wait=True)
        if fate.after_s is not None and self.random.random() < AT_START:
            await asyncio.sleep(self.random.uniform(0.0, 1.0))
            return process
        await self._up(process, polls)
        if self.polls() > polls:
            self.recovery_s.append(asyncio.get_running_loop().time() - began)
        return process

    async def _up(self, process: asyncio.subprocess.Process, polls: int) -> None:
        """Wait until it asks for updates, or has died before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STARTS_WITHIN_S):
                while self.polls() == polls and process.returncode is None:  # noqa: ASYNC110  a process
                    await asyncio.sleep(0.01)

    async def _end(self, process: asyncio.subprocess.Process, fate: Fate) -> None:
        """Wait for a life to end by itself, or end it."""
        died = fate.point.rpartition(" ")[0] or AT_RANDOM
        try:
            async with asyncio.timeout(POINT_WITHIN_S if fate.after_s is None else fate.after_s):
                await process.wait()
        except TimeoutError:
            died = AT_RANDOM
            process.kill()
            await process.wait()
        if process.returncode != -signal.SIGKILL:
            self.faults.append(f"it ended by itself with {process.returncode}")
        self.died_at[died] += 1

    async def _spawn(self, fate: Fate, *, wait: bool) -> asyncio.subprocess.Process:
        environment = dict(os.environ)
        program = ["bot"]
        if fate.point or wait:
            program = ["tests.chaos.mortal", *(["--wait"] if wait else [])]
            environment[VARIABLE] = fate.point
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *program, "run", "-c", str(self.config)),
                cwd=ROOT,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )


async def _ended(process: asyncio.subprocess.Process | None) -> None:
    """Leave no process behind, however the trial ends."""
    if process is None or process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
