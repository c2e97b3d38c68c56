"""Host memory: how much models may take on each host, and what a copy of each model takes there.

Memory only. What is measured and learned is kept by the `Budget`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from queueing.core.catalog import Catalog, ModelSpec
from queueing.core.divided import Shares, divided
from queueing.core.ports import Backend
from queueing.core.snapshot import Copy, Residency
from queueing.engine.fleet.memory_budget import Budget


class HostMemory:
    """Answers how large models are and what is left for them; calls `changed` after a change.

    `serving` returns the backends that can serve a model, `copies_on` what is on a host. `resized`
    is called when copies there turn out to take less than was assumed.
    """

    def __init__(
        self,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        *,
        serving: Callable[[ModelSpec], Sequence[str]],
        copies_on: Callable[[str], Sequence[Copy]],
        changed: Callable[[], None],
        resized: Callable[[], None],
    ) -> None:
        self.catalog = catalog
        self.budget = Budget()
        self._backends = backends
        self._serving = serving
        self._copies_on = copies_on
        self._changed = changed
        self._resized = resized
        self._weightless: dict[str, bool] = {}  # models that take no memory anywhere

    def forget(self) -> None:
        """Forget what servers held that are gone or elsewhere, and which models take no memory."""
        self.budget.forget_lent(self.catalog.hosts_of)
        self._weightless.clear()

    def mb_on(self, host: str) -> int:
        """Return what all copies together take on a host."""
        return sum(_mb_on(copy, host) for copy in self._copies_on(host))

    def quiet(self, host: str, *, but: str = "") -> bool:
        """Return whether nothing runs, loads or unloads on a host, apart from one model's load."""
        return all(
            copy.residency is Residency.READY and not copy.running
            for copy in self._copies_on(host)
            if copy.model != but
        )

    def measured(self, host: str, total_mb: int, free_mb: int) -> None:
        """Take a measurement of a host's card into account."""
        if self._bound(host, total_mb - free_mb):
            self._resized()
            self._changed()
        ours_mb = self.mb_on(host)
        # The configured memory may be a part of the card: the rest is there for other programs.
        theirs_mb = max(0, total_mb - self.catalog.hosts[host].vram_mb)
        used_mb, quiet = max(0, total_mb - free_mb - theirs_mb), self.quiet(host)
        if self.budget.measured(host, used_mb=used_mb, ours_mb=ours_mb, quiet=quiet):
            self._changed()

    def _bound(self, host: str, held_mb: int) -> bool:
        """Bound what staying copies of unknown size take by what all programs hold on a host.

        A server may have had its model before it was asked to load it, and then no load shows its
        size. Without a bound it would keep every other model away for as long as it runs. What a
        bound leaves out counts as other programs' memory.
        """
        copies = self._copies_on(host)
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
        return self._keeps(copy.backend) and spec is not None and self.known_vram_mb(spec) is None

    def unmeasured(self, host: str, since: float) -> None:
        """Count on the configured memory of a host that nothing has measured since then."""
        self.budget.unmeasured(host, since)
        self._changed()

    def lent(self, backend: str, mb: int, on: Collection[str]) -> None:
        """Take into account what a server holds for other programs, on those of its cards.

        They are those that nothing measures. What models of others are divided by is not known: as
        the server's own are, therefore.
        """
        shares = dict(self.catalog.spread(mb, backend))
        news = [self.budget.lent(host, backend, shares[host]) for host in on]
        if any(news):
            self._changed()

    def usable_mb(self, host: str) -> int:
        """Return how much memory models may take together on a host now."""
        return self.budget.usable_mb(self.catalog.hosts[host])

    def vram_mb(self, spec: ModelSpec) -> int:
        """Return what a copy takes; one of unknown size takes all that may become free on a host."""
        known_mb = self.known_vram_mb(spec)
        if known_mb is not None:
            return known_mb
        places = {tuple(self.catalog.parts_of(spec, name)) for name in self._serving(spec)}
        rooms = (sum(self._unknown_mb(spec, host) for host in hosts) for hosts in places)
        return max(rooms, default=0)

    def shares(self, spec: ModelSpec, backend: str) -> Shares:
        """Return what a copy takes on each host there; empty where it takes all on the only one."""
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
        """Return what copies take on a host that never leave it for another model.

        Nothing can be left beside one whose size is neither known nor bounded: those do not count.
        """
        return sum(
            _mb_on(copy, host)
            for copy in self._copies_on(host)
            if (copy.pinned or self._keeps(copy.backend))
            and (spec := self.catalog.models.get(copy.model)) is not None
            and (self.known_vram_mb(spec) or self.budget.bound_mb(host, spec.name)) is not None
        )

    def _keeps(self, backend: str) -> bool:
        """Return whether a server drops no model, neither on request nor for another one."""
        bound = self.catalog.backends[backend].max_models
        return bound is None and not self._backends[backend].can_unload

    def known_vram_mb(self, spec: ModelSpec) -> int | None:
        """Return what a copy takes, None until it is measured."""
        return 0 if self._is_weightless(spec) else self.budget.known_mb(spec)

    def _is_weightless(self, spec: ModelSpec) -> bool:
        known = self._weightless.get(spec.name)
        if known is None:
            servers = [self._backends[name] for name in spec.backends if name in self._backends]
            known = bool(servers) and all(server.weightless(spec) for server in servers)
            self._weightless[spec.name] = known
        return known


def _mb_on(copy: Copy, host: str) -> int:
    return dict(copy.shares)[host] if copy.shares else copy.vram_mb
