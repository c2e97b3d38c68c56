"""How much memory models may use on each host, and how much each copy takes.

In memory only; it receives measurements and never measures anything itself.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from queueing.core.catalog import Catalog
from queueing.core.ports import Backend
from queueing.core.snapshot import Copy, Residency
from queueing.core.specs import HostSpec, ModelSpec, Shares, divided


class MemoryBudget:
    """Tracks the memory that other programs hold and that loads were measured to take, in MB."""

    def __init__(self) -> None:
        self._other_mb: dict[str, int] = {}  # by host
        self._unmeasured_since: dict[str, float] = {}  # by host whose measurements have stopped
        self._lent_mb: dict[str, dict[str, int]] = {}  # by host and server, on unmeasured hosts
        self._learned_mb: dict[str, int] = {}  # by model
        self._bound_mb: dict[str, dict[str, int]] = {}  # by host and model of unknown size
        self._restored: set[str] = set()  # models not measured in this run
        self._unsaved: set[str] = set()

    def measured(self, host: str, *, used_mb: int, ours_mb: int, quiet: bool) -> bool:
        """Apply a measurement of a host. Returns whether it changed anything.

        Temporary memory of running jobs looks like other programs' memory. Growth of other programs
        therefore counts only while the host is `quiet`.
        """
        lent = self._lent_mb.pop(host, None) is not None  # the measurement includes it
        back = self._unmeasured_since.pop(host, None) is not None
        other = max(0, used_mb - ours_mb)
        before = self._other_mb.get(host, 0)
        if other == before or (other > before and not quiet):
            return lent or back
        self._other_mb[host] = other
        return True

    def unmeasured(self, host: str, since: float) -> None:
        """Discard what other programs hold on a host that has not been measured since then."""
        self._other_mb.pop(host, None)
        self._unmeasured_since[host] = since

    def unmeasured_since(self, host: str) -> float | None:
        """Return when a host's measurements stopped, or None if they have not."""
        return self._unmeasured_since.get(host)

    def lent(self, host: str, backend: str, mb: int) -> bool:
        """Record what a server holds for other programs. Returns whether it changed."""
        by_server = self._lent_mb.setdefault(host, {})
        news = by_server.get(backend, 0) != mb
        by_server[backend] = mb
        return news

    def forget_lent(self, hosts_of: Mapping[str, Collection[str]]) -> None:
        """Forget what removed or moved servers held for other programs."""
        self._lent_mb = {
            host: {name: mb for name, mb in held.items() if host in hosts_of.get(name, ())}
            for host, held in self._lent_mb.items()
        }

    def _all_lent_mb(self, host: str) -> int:
        return sum(self._lent_mb.get(host, {}).values())

    def foreign_mb(self, host: str) -> int:
        """Return what other programs hold on a host, as last measured or reported."""
        return self._other_mb.get(host, 0) + self._all_lent_mb(host)

    def usable_mb(self, host: HostSpec) -> int:
        """Return what all models together may take on a host now.

        Half of the configured margin covers desktops and the overhead of servers. Memory of other
        programs beyond that reduces the budget, as does each model that a server holds for them.
        """
        tolerated = (host.vram_mb - host.usable_mb) // 2
        taken = max(0, self._other_mb.get(host.name, 0) - tolerated)
        return max(0, host.usable_mb - taken - self._all_lent_mb(host.name))

    def restore(self, sizes: Mapping[str, int]) -> None:
        """Load the sizes that earlier runs measured."""
        self._learned_mb = dict(sizes)
        self._restored = set(sizes)

    def doubt(self, model: str) -> None:
        """Let the next measurement replace a model's size, because the model may have changed."""
        self._restored.add(model)

    def learn(self, model: str, vram_mb: int) -> None:
        """Record a measured size of a model. Within a run, the size only grows.

        The first measurement of a run replaces the stored size: the operator may have put a smaller
        model behind the same name.
        """
        believed = 0 if model in self._restored else self._learned_mb.get(model, 0)
        self._restored.discard(model)
        self._learned_mb[model] = max(vram_mb, believed)
        self._unsaved.add(model)

    def take_unsaved(self) -> Mapping[str, int]:
        """Return the sizes learned since the last call, to be stored."""
        sizes = {model: self._learned_mb[model] for model in sorted(self._unsaved)}
        self._unsaved.clear()
        return sizes

    def known_mb(self, model: ModelSpec) -> int | None:
        """Return what a copy takes as configured or learned, or None until it is measured."""
        learned_mb = self._learned_mb.get(model.name, 0)
        return (learned_mb or None) if model.vram_mb is None else max(model.vram_mb, learned_mb)

    def bounds_on(self, host: str, models: Collection[str]) -> Mapping[str, int]:
        """Return the upper bounds of these models on a host, and forget those of all others."""
        kept = {m: mb for m, mb in self._bound_mb.get(host, {}).items() if m in models}
        self._bound_mb[host] = kept
        return kept

    def bound(self, host: str, model: str, mb: int) -> bool:
        """Record an upper bound for a copy of unknown size. Returns whether it is a new low.

        The bound is at least 1 MB, even if the GPU shows no memory in use.
        """
        found, before = max(1, mb), self._bound_mb[host].get(model)
        if before is not None and before <= found:
            return False
        self._bound_mb[host][model] = found
        return True

    def bound_mb(self, host: str, model: str) -> int | None:
        """Return the upper bound of a copy of unknown size on a host, or None."""
        return self._bound_mb.get(host, {}).get(model)

    def unknown_mb(self, host: HostSpec, kept_mb: int) -> int:
        """Return what to reserve for a copy of unknown size: all memory that can become free.

        This is the whole host, less `kept_mb`, which copies hold that never leave: a load would
        wait forever for their memory.
        """
        left_mb = self.usable_mb(host) - kept_mb
        return left_mb if kept_mb and left_mb > 0 else host.usable_mb


@dataclass(eq=False, repr=False)
class HostMemory:
    """Answers how large models are and how much memory is left for them.

    Calls `changed` after a change. `serving` returns the backends that can serve a model.
    """

    catalog: Catalog
    backends: Mapping[str, Backend]
    _: KW_ONLY
    serving: Callable[[ModelSpec], Sequence[str]]
    changed: Callable[[], None]
    budget: MemoryBudget = field(default_factory=MemoryBudget, init=False)
    # models that take no memory on any server
    _weightless: dict[str, bool] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.copies_on: Callable[[str], Sequence[Copy]] = lambda _host: ()
        self.resized: Callable[[], None] = lambda: None

    def forget(self) -> None:
        """After a reload, forget what removed servers held and which models take no memory."""
        self.budget.forget_lent(self.catalog.hosts_of)
        self._weightless.clear()

    def mb_on(self, host: str) -> int:
        """Return what all copies together take on a host, in MB."""
        return sum(_mb_on(copy, host) for copy in self.copies_on(host))

    def held_mb(self, host: str) -> int:
        """Return what all copies hold on a host now, in MB.

        A copy that loads while another leaves has at most the room that is left.
        """
        copies = self.copies_on(host)
        arriving = [copy for copy in copies if copy.residency is Residency.LOADING]
        there_mb = self.mb_on(host) - sum(_mb_on(copy, host) for copy in arriving)
        room_mb = max(0, self.usable_mb(host) - there_mb)
        return there_mb + min(room_mb, sum(_mb_on(copy, host) for copy in arriving))

    def quiet(self, host: str, *, but: str = "") -> bool:
        """Return whether nothing runs, loads or unloads on a host, ignoring the model `but`."""
        return all(
            copy.residency is Residency.READY and not copy.running
            for copy in self.copies_on(host)
            if copy.model != but
        )

    def measured(self, host: str, total_mb: int, free_mb: int) -> None:
        """Apply a measurement of a host's GPU."""
        if self._bound(host, total_mb - free_mb):
            self.resized()
            self.changed()
        ours_mb = self.mb_on(host)
        # The configured memory may be only a part of the GPU. The rest belongs to other programs.
        theirs_mb = max(0, total_mb - self.catalog.hosts[host].vram_mb)
        used_mb, quiet = max(0, total_mb - free_mb - theirs_mb), self.quiet(host)
        if self.budget.measured(host, used_mb=used_mb, ours_mb=ours_mb, quiet=quiet):
            self.changed()

    def _bound(self, host: str, held_mb: int) -> bool:
        """Derive upper bounds for copies of unknown size from the total memory in use on a host.

        Only for copies that their server never unloads. Such a server may have had its model before
        it was asked to load it, so no load shows the size. Without a bound, the copy would block
        every other model as long as it runs. Memory in use beyond the bounds counts as other
        programs' memory.
        """
        copies = self.copies_on(host)
        unknown = {copy.model for copy in copies if self._is_unmeasured(copy)}
        bounds = self.budget.bounds_on(host, unknown)
        new = unknown - bounds.keys() or (unknown if len(unknown) == 1 else set())
        if not new or any(copy.residency is not Residency.READY for copy in copies):
            return False
        rest_mb = held_mb - sum(_mb_on(copy, host) for copy in copies if copy.model not in new)
        news = [self.budget.bound(host, model, rest_mb // len(new)) for model in new]
        return any(news)

    def _is_unmeasured(self, copy: Copy) -> bool:
        spec = self.catalog.models.get(copy.model)
        return (
            self._never_unloads(copy.backend)
            and spec is not None
            and self.known_vram_mb(spec) is None
        )

    def unmeasured(self, host: str, since: float) -> None:
        """Fall back to the configured memory of a host that has not been measured since then."""
        self.budget.unmeasured(host, since)
        self.changed()

    def lent(self, backend: str, mb: int, on: Collection[str]) -> None:
        """Record what a server holds for other programs, on its unmeasured GPUs `on`.

        How those models are split among GPUs is unknown, so the server's own split is assumed.
        """
        shares = dict(self.catalog.spread(mb, backend))
        news = [self.budget.lent(host, backend, shares[host]) for host in on]
        if any(news):
            self.changed()

    def usable_mb(self, host: str) -> int:
        """Return how much memory all models together may take on a host now, in MB."""
        return self.budget.usable_mb(self.catalog.hosts[host])

    def vram_mb(self, spec: ModelSpec) -> int:
        """Return what a copy takes in MB. For an unknown size, all memory that can become free."""
        known_mb = self.known_vram_mb(spec)
        if known_mb is not None:
            return known_mb
        places = {tuple(self.catalog.parts_of(spec, name)) for name in self.serving(spec)}
        rooms = (sum(self._unknown_mb(spec, host) for host in hosts) for hosts in places)
        return max(rooms, default=0)

    def shares(self, spec: ModelSpec, backend: str) -> Shares:
        """Return what a copy takes on each host of a backend; empty if the backend has only one."""
        if len(self.catalog.hosts_of[backend]) == 1:
            return ()
        parts = self.catalog.parts_of(spec, backend)
        known_mb = self.known_vram_mb(spec)
        if known_mb is not None:
            return divided(known_mb, parts)
        return tuple((host, self._unknown_mb(spec, host)) for host in parts)

    def _unknown_mb(self, spec: ModelSpec, host: str) -> int:
        bound_mb = self.budget.bound_mb(host, spec.name)
        if bound_mb is not None:
            return bound_mb
        return self.budget.unknown_mb(self.catalog.hosts[host], self._kept_mb(host))

    def _kept_mb(self, host: str) -> int:
        """Return the MB on a host held by copies that never leave to make room for another model.

        Copies without a known or bounded size do not count: they would leave no memory at all.
        """
        return sum(
            _mb_on(copy, host)
            for copy in self.copies_on(host)
            if (copy.pinned or self._never_unloads(copy.backend))
            and (spec := self.catalog.models.get(copy.model)) is not None
            and (self.known_vram_mb(spec) or self.budget.bound_mb(host, spec.name)) is not None
        )

    def _never_unloads(self, backend: str) -> bool:
        """Return whether a server never unloads a model, neither on request nor to load another."""
        bound = self.catalog.backends[backend].max_models
        return bound is None and not self.backends[backend].can_unload

    def known_vram_mb(self, spec: ModelSpec) -> int | None:
        """Return what a copy takes in MB, or None if it has not been measured."""
        return 0 if self._is_weightless(spec) else self.budget.known_mb(spec)

    def _is_weightless(self, spec: ModelSpec) -> bool:
        known = self._weightless.get(spec.name)
        if known is None:
            servers = [self.backends[name] for name in spec.backends if name in self.backends]
            known = bool(servers) and all(server.weightless(spec) for server in servers)
            self._weightless[spec.name] = known
        return known


def _mb_on(copy: Copy, host: str) -> int:
    return dict(copy.shares)[host] if copy.shares else copy.vram_mb
