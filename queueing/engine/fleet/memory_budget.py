"""Budget: how much memory models may take on each host, and how much each model takes.

Memory only; receives measurements, and never measures itself.
"""

from collections.abc import Collection, Mapping

from queueing.core.catalog import HostSpec, ModelSpec


class Budget:
    """Tracks what other programs hold and what loads were measured to take, in MB."""

    def __init__(self) -> None:
        self._other_mb: dict[str, int] = {}  # by host
        self._unmeasured_since: dict[str, float] = {}  # by host that was measured before
        self._lent_mb: dict[str, dict[str, int]] = {}  # by host and server, where none is measured
        self._learned_mb: dict[str, int] = {}  # by model
        self._bound_mb: dict[str, dict[str, int]] = {}  # by host and model of unknown size
        self._restored: set[str] = set()  # models not measured since the start
        self._unsaved: set[str] = set()

    def measured(self, host: str, *, used_mb: int, ours_mb: int, quiet: bool) -> bool:
        """Take a measurement into account; return whether it changed anything.

        What a running job takes temporarily belongs to the models as well, so other programs can be
        seen to grow only while the host is `quiet`.
        """
        lent = self._lent_mb.pop(host, None) is not None  # a measurement contains it
        back = self._unmeasured_since.pop(host, None) is not None
        other = max(0, used_mb - ours_mb)
        before = self._other_mb.get(host, 0)
        if other == before or (other > before and not quiet):
            return lent or back
        self._other_mb[host] = other
        return True

    def unmeasured(self, host: str, since: float) -> None:
        """Drop what other programs held on a host: nothing has measured it since then."""
        self._other_mb.pop(host, None)
        self._unmeasured_since[host] = since

    def unmeasured_since(self, host: str) -> float | None:
        """Return when a host was measured last that can no longer be, None for all others."""
        return self._unmeasured_since.get(host)

    def lent(self, host: str, backend: str, mb: int) -> bool:
        """Note what a server holds for other programs; return whether that is news."""
        by_server = self._lent_mb.setdefault(host, {})
        news = by_server.get(backend, 0) != mb
        by_server[backend] = mb
        return news

    def forget_lent(self, hosts_of: Mapping[str, Collection[str]]) -> None:
        """Forget what servers held that are gone, or elsewhere now."""
        self._lent_mb = {
            host: {name: mb for name, mb in held.items() if host in hosts_of.get(name, ())}
            for host, held in self._lent_mb.items()
        }

    def _all_lent_mb(self, host: str) -> int:
        return sum(self._lent_mb.get(host, {}).values())

    def foreign_mb(self, host: str) -> int:
        """Return what other programs held on a host when it was last looked at."""
        return self._other_mb.get(host, 0) + self._all_lent_mb(host)

    def usable_mb(self, host: HostSpec) -> int:
        """Return what models may take together now.

        Half of the margin is for desktops and the servers' own overhead; what other programs hold
        beyond that shrinks the budget, and so does each model that a server holds for them.
        """
        tolerated = (host.vram_mb - host.usable_mb) // 2
        taken = max(0, self._other_mb.get(host.name, 0) - tolerated)
        return max(0, host.usable_mb - taken - self._all_lent_mb(host.name))

    def restore(self, sizes: Mapping[str, int]) -> None:
        """Start from what earlier runs measured."""
        self._learned_mb = dict(sizes)
        self._restored = set(sizes)

    def doubt(self, model: str) -> None:
        """Let the next measurement replace what is known: the model may be another one by now."""
        self._restored.add(model)

    def learn(self, model: str, vram_mb: int) -> None:
        """Correct what a model is believed to take, upwards only.

        The first measurement of a run replaces what earlier runs measured: the operator may have
        put a smaller model behind the name since.
        """
        believed = 0 if model in self._restored else self._learned_mb.get(model, 0)
        self._restored.discard(model)
        self._learned_mb[model] = max(vram_mb, believed)
        self._unsaved.add(model)

    def take_unsaved(self) -> Mapping[str, int]:
        """Return the sizes learned since the last call, for the store."""
        sizes = {model: self._learned_mb[model] for model in sorted(self._unsaved)}
        self._unsaved.clear()
        return sizes

    def known_mb(self, model: ModelSpec) -> int | None:
        """Return what a copy takes as configured or learned; None until it is measured."""
        learned_mb = self._learned_mb.get(model.name, 0)
        return (learned_mb or None) if model.vram_mb is None else max(model.vram_mb, learned_mb)

    def bounds_on(self, host: str, models: Collection[str]) -> Mapping[str, int]:
        """Return the bounds of these models on a host; those of all others there are forgotten."""
        kept = {m: mb for m, mb in self._bound_mb.get(host, {}).items() if m in models}
        self._bound_mb[host] = kept
        return kept

    def bound(self, host: str, model: str, mb: int) -> bool:
        """Note that a copy of unknown size takes no more than this; return whether that is news.

        It takes something, however little the card shows.
        """
        found, before = max(1, mb), self._bound_mb[host].get(model)
        if before is not None and before <= found:
            return False
        self._bound_mb[host][model] = found
        return True

    def bound_mb(self, host: str, model: str) -> int | None:
        """Return what a copy of unknown size takes on a host at most; None if nothing shows it."""
        return self._bound_mb.get(host, {}).get(model)

    def unknown_mb(self, host: HostSpec, kept_mb: int) -> int:
        """Return what a copy of unknown size takes until it is measured: all that may become free.

        That is the whole host, or what is left beside `kept_mb` of copies that never leave it: a
        model that waited for those as well would wait for ever.
        """
        left_mb = self.usable_mb(host) - kept_mb
        return left_mb if kept_mb and left_mb > 0 else host.usable_mb
