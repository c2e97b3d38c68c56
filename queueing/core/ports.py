"""Protocols for the services that the queue needs, and the system clock.

Adapters elsewhere implement the protocols. One contract suite per protocol runs against every
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

    `flavour` is the program it runs, among those its kind supports: empty if there is only one,
    `GENERIC` if it cannot be determined. `total_mb` and `free_mb` are the memory of its GPU if it
    reports that, None otherwise; with `cuda`, that GPU is one of CUDA or ROCm. `notes` are
    sentences for `usher check`, such as the limits of an old version.
    """

    description: str
    flavour: str = ""
    total_mb: int | None = None
    free_mb: int | None = None
    cuda: bool = False
    notes: tuple[str, ...] = ()


class Backend(Protocol):
    """An inference server. Failures are `BackendError`s only; calls may overlap.

    Methods with a body are defaults that implementations inherit.

    Cancelling a call stops its work, if the server can do that, and then re-raises. After `leave`,
    the attempts of `run` and `resume` keep running instead.
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

    @property
    def stops_loads(self) -> bool:
        """Whether cancelling `load` stops it and frees its memory."""
        return False

    def check(self, model: ModelSpec) -> None:
        """Raise `BadModel` if the model's options cannot work here. No I/O except local files."""

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        """Return the request fields that the model honours here, None for all of them.

        The prompt is not included. Empty for models without choices, such as text models. The model
        has passed `check`.
        """
        return None

    def usual(self, model: ModelSpec) -> Mapping[str, float]:
        """Return the model's default numbers here, which apply where a request names none.

        They are "width", "height", "steps", "seconds" and "fps", as far as they are known. The
        model has passed `check`.
        """
        return {}

    def remarks(self, model: ModelSpec) -> Sequence[str]:
        """Return sentences for `usher check` about settings that work but may be mistakes.

        The model has passed `check`.
        """
        return ()

    def weightless(self, model: ModelSpec) -> bool:
        """Return whether the model takes no memory here, so that it is always available."""
        return False

    def own_name(self, model: ModelSpec) -> str:
        """Return the server's own name for what a model loads into memory.

        Two models with the same own name cannot be distinguished there: unloading one unloads both.
        """
        return model.name

    async def probe(self) -> ServerInfo:
        """Identify the server; raise `Unavailable` when it does not answer."""

    async def admit(self) -> None:
        """Raise `BackendError` if the server refuses work for its key, for `usher check`.

        A list of models may be public, so a server that answers `probe` may still refuse every
        request. Sends no work.
        """
        return  # by default, a key that may ask may work

    async def gone(self) -> None:
        """Return once the server has stopped after this call, even if it restarts at once.

        Called for a server that answers but does no work, whose restart between two probes must be
        noticed. It may return early. It never returns if a restart cannot be detected.
        """
        await asyncio.get_running_loop().create_future()

    async def verify(self, model: ModelSpec) -> None:
        """Check that the server has what the model needs; raise `BadModel` if not."""

    async def sample(self, model: ModelSpec) -> str:
        """Ask the model for the least possible work, with its settings, for `usher check`.

        Returns a note on the outcome, or "" without asking if that could load the model. Raises
        what `run` raises.
        """
        return ""

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return the models the server offers in addition to `known`.

        Each has `backends=(its own name,)`. A known model is left out under any of its names:
        listed twice, its memory would count twice.
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
        the server does not know it, or stopped it early, return None soon. If the attempt failed,
        raise as `run` does.
        """
        return None

    def leave(self) -> bool:
        """Let the server keep running its attempts when their calls are cancelled.

        Called once, before an orderly stop: `resume` finds the attempts at the next start. Returns
        False if the server stops when its client disconnects, or stores nothing.
        """
        return False

    async def load(self, model: ModelSpec) -> None:
        """Load the model; return when it is usable. Idempotent; never makes two copies."""

    async def unload(self, model: ModelSpec) -> None:
        """Free the model's memory; return when the server reports it free. Idempotent."""

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which of those models are in memory; None when the server cannot report it."""

    async def held_besides(self, models: Sequence[ModelSpec]) -> Mapping[str, int]:
        """Return the size in MB of other models in memory, by the server's own names.

        Other programs may share the server. Empty if the server does not report them. A second copy
        of one of `models` counts as another model.
        """
        return {}

    async def aclose(self) -> None:
        """Close connections. Idempotent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuLook:
    """One measurement of a GPU: how programs other than its host's servers use it.

    `busy` is the share of time in which the GPU works, None if unknown. `others_mb` is the memory
    of the largest program that is not a server. It is None where programs cannot be told apart from
    servers.
    """

    busy: float | None = None
    others_mb: int | None = None


class GpuWatch(Protocol):
    """Measures who uses the GPUs of this machine."""

    async def use(self, host: HostSpec, loaded: frozenset[str]) -> GpuLook | None:
        """Return who uses the host's GPU, None if it cannot be measured.

        `loaded` are the host's servers that hold a model, so their processes must be visible.
        """


class HostControl(Protocol):
    """Wakes machines and puts them to sleep. Both raise `BackendError` on failure."""

    async def wake(self, host: HostSpec) -> None:
        """Send one wake-up packet. The machine is awake once its servers answer."""

    async def sleep(self, host: HostSpec) -> None:
        """Ask a machine to sleep. It may keep answering for a while."""


class MemoryProbe(Protocol):
    """Measures the GPUs of this machine."""

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's GPU in MB, or None when it cannot be measured."""


log = logging.getLogger(__name__)

_CATCHING_UP = 0.99  # of real time, while the machine's clock is behind
JUMP_S = 12 * 3600.0
"""A jump of the clock this far ahead is not followed at first."""
AWAY_S = 2 * 24 * 3600.0
"""A clock this far ahead of the newest stored time is doubted when the bot starts."""
OFF_MOST_S = 60.0
"""A larger difference from the database server's clock means that one of the two is wrong."""
DOUBTED_S = 24 * 3600.0
"""How long a clock that is far ahead is doubted, as there may be no one to correct it."""
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_SEES_SLEEP = _BOOTTIME is not None or sys.platform == "win32"


def awake_s() -> float:
    """Return the seconds since this machine started, including time asleep."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class SystemClock:
    """The machine's time, but never backwards: a clock set back would stretch every pause.

    When set back, it continues slightly slower until the machine's time has caught up. A jump ahead
    of `JUMP_S` or more is ignored for `DOUBTED_S`, or until the clock is set back.
    """

    def __init__(self) -> None:
        self._now = time.time()
        self._steady = awake_s()
        self._behind = False
        self._ahead_since: float | None = None
        self._doubted_until = 0.0
        self.off_s = 0.0  # seconds the database server's clock is ahead of this machine's

    def now(self) -> float:
        """Return UNIX seconds."""
        real, steady = time.time(), awake_s()
        passed = steady - self._steady
        self._steady = steady
        if real - self._now - passed > JUMP_S and self._ignores_jump(steady):
            self._now += passed
        else:
            self._ahead_since = None
            self._now = max(self._now + passed * _CATCHING_UP, real)
        return self._now  # performance matters: a job calls this forty times

    def start_after(self, newest: float | None) -> None:
        """Check the machine's time against the newest time stored before, if any."""
        now = self.now()
        if newest is None:
            return
        if now < newest:
            self._now, self._behind = newest, True
        elif now - newest > AWAY_S:
            self._doubted_until = self._steady + DOUBTED_S

    def compare(self, off_s: float) -> None:
        """Record how many seconds the database server's clock is ahead of this machine's."""
        self.off_s = off_s

    @property
    def doubt(self) -> str | None:
        """Why the time may be wrong, None if it is trusted."""
        now = self.now()
        if self._behind and now > time.time():
            return "the clock of this machine is behind the newest time stored: correct it"
        self._behind = False
        if is_off(self.off_s):
            return off_in_words(self.off_s)
        if self._ahead_since is not None:
            return "the clock of this machine was set far ahead: restart Usher if that is right"
        if self._steady < self._doubted_until:
            return "the clock is days ahead of the newest time stored: correct it if it is wrong"
        return None

    def _ignores_jump(self, steady: float) -> bool:
        """Return whether to keep ignoring a jump of the clock."""
        if self._behind or not _SEES_SLEEP:
            return False
        if self._ahead_since is None:
            self._ahead_since = steady
            log.error(
                "the clock of this machine was set far ahead: keeping the old time for up to a day"
            )
        return steady - self._ahead_since < DOUBTED_S


def is_off(off_s: float) -> bool:
    """Return whether the difference between two clocks is too large to be a measuring error."""
    return abs(off_s) > OFF_MOST_S


def off_in_words(off_s: float) -> str:
    """Describe how far this machine's clock is off; the database server's is ahead by `off_s`."""
    way = "behind" if off_s > 0 else "ahead of"
    return (
        f"the clock of this machine is {abs(off_s):.0f} s {way} the database server's: correct it"
    )


def doubt_of(clock: Clock) -> str | None:
    """Return why a clock may be wrong, None if it is trusted.

    While in doubt, nothing expires or is deleted.
    """
    return clock.doubt if isinstance(clock, SystemClock) else None
