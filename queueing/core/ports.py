"""The services the queue needs, as protocols it owns, and the clock that everything uses.

Adapters implement the others elsewhere; one contract suite per protocol runs against every
implementation. An implementation raises only the errors named here.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from queueing.core.requests import Capability, Output, Progress, Work
from queueing.core.specs import HostSpec, ModelSpec


class Clock(Protocol):
    """Provides the time. Waiting is plain asyncio and needs no port."""

    def now(self) -> float:
        """Return UNIX seconds."""


# ---------------------------------------------------------------- inference servers

Report = Callable[[Progress], None]
"""Called with each progress; must neither block nor raise."""

Fetch = Callable[[], Awaitable[Output]]
"""Fetches the output of an attempt the server has finished; may be awaited again after an error."""

GENERIC = "generic"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """What a server reports about itself: name and version, its memory, and notes.

    `flavour` is the program among those its kind can talk to: empty if there is one only,
    `GENERIC` if nothing tells which. `total_mb` and `free_mb` are the memory of its GPU if it
    reports that, None otherwise. `notes` are sentences for `usher check`, such as what an old
    version cannot do.
    """

    description: str
    flavour: str = ""
    total_mb: int | None = None
    free_mb: int | None = None
    notes: tuple[str, ...] = ()


class Backend(Protocol):
    """An inference server. Failures are `BackendError`s only; calls may overlap.

    What has a body is the default, which a kind inherits.

    Cancelling any call stops its work on the server as far as the server can, then re-raises; after
    `leave` the attempts of `run` and `resume` keep running instead.
    """

    capabilities: frozenset[Capability]  # what servers of this kind can do at all

    @property
    def unloads_together(self) -> bool:
        """Whether one unload frees all models of this server."""
        return False

    @property
    def can_unload(self) -> bool:
        """Whether the server unloads on request; else a model stays until the server drops it."""
        return True

    def check(self, model: ModelSpec) -> None:
        """Raise `BadModel` when the model's options cannot work here. No I/O except local files."""

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        """Return the fields of its requests the model honours here; None: all of them.

        The prompt is not included. Empty for models that people choose nothing for, such as those
        that write. The model has passed `check`.
        """
        return None

    def usual(self, model: ModelSpec) -> Mapping[str, float]:
        """Return the numbers of its requests that the model works with here if they name none.

        They are "width", "height", "steps", "seconds" and "fps", as far as they are known. The model
        has passed `check`.
        """
        return {}

    def remarks(self, model: ModelSpec) -> Sequence[str]:
        """Return sentences for `usher check` about what works, but may not be meant.

        The model has passed `check`.
        """
        return ()

    def weightless(self, model: ModelSpec) -> bool:
        """Return whether the model takes no memory here: always available, never in the way."""
        return False

    def own_name(self, model: ModelSpec) -> str:
        """Return the server's own name for what a model loads into memory.

        Two models with the same own name cannot be distinguished there: unloading one unloads both.
        """
        return model.name

    async def probe(self) -> ServerInfo:
        """Identify the server; raise `Unavailable` when it does not answer."""

    async def gone(self) -> None:
        """Return once the server has gone away since the call, even if it is back at once.

        It is called for a server that answers but does not work, whose restart between two probes
        must be noticed. It may return early, and never returns if there is nothing to notice.
        """
        await asyncio.get_running_loop().create_future()

    async def verify(self, model: ModelSpec) -> None:
        """Check that the server has what the model needs; raise `BadModel` if not."""

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return the models the server offers beside `known`, each with `backends=(its own name,)`.

        A known model is left out under any of its names: listed twice, its memory would count
        twice.
        """

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:
        """Return the names of the LoRAs the server has for a model, as requests may name them.

        Empty if the model takes none. Raises `Unavailable`.
        """
        return ()

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Run one attempt; return when the server has finished it, which frees the slot."""

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:
        """Resume an attempt sent before a crash, under the same `work.key`.

        If it still runs, follow it to its end. If it has finished, return its `Fetch` at once. If
        the server does not know it, or it was stopped before its end, return None soon. Fails as
        `run` does when the attempt failed.
        """
        return None

    def leave(self) -> bool:
        """From now on, let the server keep running its attempts when their calls are cancelled.

        Called once, before an orderly stop: `resume` finds the attempts at the next start. Returns
        False if the server stops when its client disconnects, or stores nothing.
        """
        return False

    async def load(self, model: ModelSpec) -> None:
        """Bring the model into memory; return when it is usable. Idempotent; never two copies."""

    async def unload(self, model: ModelSpec) -> None:
        """Free the model's memory; return when the server reports it free. Idempotent."""

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which of those models are in memory; None when the server cannot report it."""

    async def held_besides(self, models: Sequence[ModelSpec]) -> Mapping[str, int]:
        """Return what else is in memory, by the server's own names, in MB: others use it as well.

        Empty where the server does not report that. A further copy of one of the models counts.
        """
        return {}

    async def aclose(self) -> None:
        """Close connections. Idempotent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuLook:
    """One look at a GPU: what uses it beside the servers of its host.

    `busy` is the share of time in which it works, None if that is unknown. `others_mb` is what the
    largest program that belongs to no server holds, None where programs cannot be told from servers.
    """

    busy: float | None = None
    others_mb: int | None = None


class GpuWatch(Protocol):
    """Looks at who uses the GPUs of this machine."""

    async def use(self, host: HostSpec, loaded: frozenset[str]) -> GpuLook | None:
        """Return who uses the host's GPU, None when it cannot be asked.

        `loaded` are the host's servers that hold a model now, so that their processes must be seen.
        """


class HostControl(Protocol):
    """Wakes machines and puts them to sleep. Both raise `BackendError` where that fails."""

    async def wake(self, host: HostSpec) -> None:
        """Call a machine once; whether it wakes shows when its servers answer."""

    async def sleep(self, host: HostSpec) -> None:
        """Tell a machine to sleep; it may go on answering for a while."""


class MemoryProbe(Protocol):
    """Measures the GPUs of this machine."""

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's GPU in MB, or None when it cannot be measured."""


log = logging.getLogger(__name__)

_CATCHING_UP = 0.99  # of the true speed, while the machine's time is behind
JUMP_S = 12 * 3600.0
"""A clock that is set this far ahead at once is not followed at first."""
AWAY_S = 2 * 24 * 3600.0
"""A start this long after the newest stored moment is doubted at first."""
OFF_MOST_S = 60.0
"""A clock that differs by more from the database server's is wrong: one of the two is."""
DOUBTED_S = 24 * 3600.0
"""How long a clock that is far ahead is doubted: nobody may be there to say that it is right."""
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_SEES_SLEEP = _BOOTTIME is not None or sys.platform == "win32"


def awake_s() -> float:
    """Return the seconds since this machine started, those it slept included."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class SystemClock:
    """The machine's time, but never backwards: a clock set back would stretch every pause.

    It continues slightly slower instead, until the machine's time has caught up. One that is set
    ahead by half a day or more is not followed until it is set back, or for a day.
    """

    def __init__(self) -> None:
        self._now = time.time()
        self._steady = awake_s()
        self._behind = False
        self._ahead_since: float | None = None
        self._doubted_until = 0.0
        self.off_s = 0.0  # how far the database server's clock is ahead of this machine's

    def now(self) -> float:
        """Return UNIX seconds."""
        real, steady = time.time(), awake_s()
        passed = steady - self._steady
        self._steady = steady
        if real - self._now - passed > JUMP_S and self._stays(steady):
            self._now += passed
        else:
            self._ahead_since = None
            self._now = max(self._now + passed * _CATCHING_UP, real)
        return self._now  # a job asks for it forty times

    def start_after(self, newest: float | None) -> None:
        """Compare the machine's time with the newest moment that was stored before, if any was."""
        now = self.now()
        if newest is None:
            return
        if now < newest:
            self._now, self._behind = newest, True
        elif now - newest > AWAY_S:
            self._doubted_until = self._steady + DOUBTED_S

    def compare(self, off_s: float) -> None:
        """Note how far the database server's clock is ahead of this machine's."""
        self.off_s = off_s

    @property
    def doubt(self) -> str | None:
        """Say why the time may be wrong; None if it is believed."""
        now = self.now()
        if self._behind and now > time.time():
            return "the clock of this machine is behind what was stored before: set it"
        self._behind = False
        if is_off(self.off_s):
            return off_in_words(self.off_s)
        if self._ahead_since is not None:
            return "the clock of this machine was set far ahead: restart Usher if that is right"
        if self._steady < self._doubted_until:
            return "the clock is days ahead of what was stored last: set it if that is wrong"
        return None

    def _stays(self, steady: float) -> bool:
        """Return whether a clock that was set ahead is not followed yet."""
        if self._behind or not _SEES_SLEEP:
            return False
        if self._ahead_since is None:
            self._ahead_since = steady
            log.error(
                "the clock of this machine was set far ahead: Usher goes on with the old time"
            )
        return steady - self._ahead_since < DOUBTED_S


def is_off(off_s: float) -> bool:
    """Return whether a difference between two clocks is more than a sign of their imprecision."""
    return abs(off_s) > OFF_MOST_S


def off_in_words(off_s: float) -> str:
    """Say how far this machine's clock is off, as the database server's is ahead by `off_s`."""
    way = "behind" if off_s > 0 else "ahead of"
    return (
        f"the clock of this machine is {abs(off_s):.0f} s {way} the database server's: set it right"
    )


def doubt_of(clock: Clock) -> str | None:
    """Say why a clock may be wrong: nothing expires or is deleted meanwhile."""
    return clock.doubt if isinstance(clock, SystemClock) else None
