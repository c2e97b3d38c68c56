"""The services the queue needs, as protocols it owns.

Adapters implement them elsewhere; one contract suite per protocol runs against every
implementation. An implementation raises only the errors named here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from queueing.core.catalog import HostSpec, ModelSpec
from queueing.core.requests import Capability, Output, Progress, Work


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
    `GENERIC` if nothing tells which. `total_mb` and `free_mb` are the memory of its card if it
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
class CardLook:
    """One look at a card: what uses it beside the servers of its host.

    `busy` is the share of time in which it works, None if that is unknown. `others_mb` is what the
    largest program that belongs to no server holds, None where programs cannot be told from servers.
    """

    busy: float | None = None
    others_mb: int | None = None


class CardWatch(Protocol):
    """Looks at who uses the cards of this machine."""

    async def use(self, host: HostSpec, loaded: frozenset[str]) -> CardLook | None:
        """Return who uses the host's card, None when it cannot be asked.

        `loaded` are the host's servers that hold a model now, so that their processes must be seen.
        """


class Machines(Protocol):
    """Wakes machines and puts them to sleep. Both raise `BackendError` where that fails."""

    async def wake(self, host: HostSpec) -> None:
        """Call a machine once; whether it wakes shows when its servers answer."""

    async def sleep(self, host: HostSpec) -> None:
        """Tell a machine to sleep; it may go on answering for a while."""


class MemoryProbe(Protocol):
    """Measures the cards of this machine."""

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's card in MB, or None when it cannot be measured."""
