"""What can be requested, what a model's servers offer, and whether a model can answer at once."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from queueing.core.catalog import Catalog, Offer, with_found
from queueing.core.errors import (
    BackendError,
    Busy,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.ports import Backend, Clock
from queueing.core.snapshot import Residency
from queueing.core.specs import ModelSpec
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.scheduler import Scheduler


def is_at_hand(
    fleet: Fleet,
    times: LearnedTimes,
    spec: ModelSpec,
    *,
    beside: ModelSpec,
    wanted: Collection[str],
    within_s: float,
    now: float,
) -> bool:
    """Return whether a model can work for a job of the model `beside` without delaying others.

    It can if it is in memory or being loaded. It also can if it fits without an eviction, next to
    all copies of a host and every model that still has to load there, including `beside` and the
    `wanted` ones. A host has one loader, so if one of those waits for it, this load must also
    finish within `within_s` seconds.
    """
    if fleet.rests.paused.stops_model(spec.name):
        return False
    up = [name for name in fleet.serving(spec) if _is_open(fleet, name)]
    copies = [copy for copy in fleet.copies.of(spec.name) if copy.backend in up]
    if any(copy.residency is not Residency.UNLOADING for copy in copies):
        return True
    if copies or fleet.load_failures.of(spec.name).until > now:
        return False  # it is being unloaded, or in backoff after a failed load
    awaited = [fleet.catalog.models[name] for name in {*wanted, beside.name} - {spec.name}]
    awaited = [model for model in awaited if not fleet.copies.of(model.name)]
    return any(
        _fits(fleet, spec, name, awaited, is_quick=times.load_s(spec.name, name) <= within_s)
        for name in up
    )


def _is_open(fleet: Fleet, backend: str) -> bool:
    hosts = fleet.catalog.hosts_of[backend]
    stopped = any(fleet.rests.paused.stops_host(h) or fleet.rests.why(h) is not None for h in hosts)
    return fleet.health.of(backend).up and not stopped


def _fits(
    fleet: Fleet, spec: ModelSpec, backend: str, awaited: Collection[ModelSpec], *, is_quick: bool
) -> bool:
    server = fleet.catalog.backends[backend]
    if server.max_models is not None and server.max_models <= sum(
        copy.backend == backend and copy.vram_mb > 0 for copy in fleet.copies
    ):
        return False
    return all(
        _fits_on(fleet, host, needed_mb, awaited, is_quick=is_quick)
        for host, needed_mb in _needs(fleet, spec, backend).items()
    )


def _fits_on(
    fleet: Fleet, host: str, needed_mb: int, awaited: Collection[ModelSpec], *, is_quick: bool
) -> bool:
    coming = [
        max(places)
        for model in awaited
        if (
            places := [
                n[host] for b in fleet.serving(model) if host in (n := _needs(fleet, model, b))
            ]
        )
    ]
    if coming and not is_quick:
        return False
    return fleet.memory.mb_on(host) + sum(coming) + needed_mb <= fleet.memory.usable_mb(host)


def _needs(fleet: Fleet, spec: ModelSpec, backend: str) -> dict[str, int]:
    """Return the MB a copy would take, by host."""
    shares = fleet.memory.shares(spec, backend)
    return dict(shares) or {fleet.catalog.host_of[backend]: fleet.memory.vram_mb(spec)}


log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class LocalModelReader:
    """Caches the offer and answers questions about models."""

    fleet: Fleet
    times: LearnedTimes
    router: Scheduler
    backends: Mapping[str, Backend]
    clock: Clock
    bus: EventBus
    _offer: Offer | None = field(default=None, init=False)
    _unable: frozenset[tuple[str, str]] = field(default_factory=frozenset, init=False)

    def __post_init__(self) -> None:
        self._catalog = self.fleet.catalog  # the one the offer was made from

    @property
    def offer(self) -> Offer:
        """What can be requested now; the same value until it changes."""
        catalog, unable = self.fleet.catalog, self.fleet.load_failures.unable_now()
        if self._offer is None or self._catalog is not catalog or self._unable != unable:
            self._catalog, self._unable = catalog, unable
            self._offer = Offer(
                models=tuple(catalog.models.values()),
                hosts=tuple(catalog.hosts.values()),
                options={spec.name: self._options(spec) for spec in catalog.models.values()},
                usual={spec.name: self._usual(spec) for spec in catalog.models.values()},
            )
        return self._offer

    def _options(self, spec: ModelSpec) -> frozenset[str] | None:
        known = [self.backends[name].options(spec) for name in self.fleet.serving(spec)]
        limited = [options for options in known if options is not None]
        return frozenset.intersection(*limited) if limited else None

    def _usual(self, spec: ModelSpec) -> Mapping[str, float]:
        servers = reversed(self.fleet.serving(spec))  # the preferred one is applied last and wins
        return {k: v for name in servers for k, v in self.backends[name].usual(spec).items()}

    def extend(self, models: Iterable[ModelSpec]) -> None:
        """Add models found on servers, merged by `with_found`."""
        known = self.fleet.catalog
        joined = with_found(known, models)
        for model in joined:
            if model != known.models.get(model.name):
                log.info("discovered %s on %s", model.name, " and ".join(model.backends))
        self.fleet.know(Catalog(joined, known.hosts.values(), known.retired.values()))
        self.bus.fleet_changed()

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs of the model's first reachable server.

        Raises `UnknownModel`, and `BackendError` if none is reachable.
        """
        spec = self.fleet.catalog.named(model)
        failure: BackendError | None = None
        for name in self.fleet.serving(spec):
            try:
                return await self.backends[name].loras(spec)
            except (Busy, Unavailable, UnknownFailure, UnreadableAnswer) as error:
                failure = error
        raise failure or Unavailable(f"no server runs {spec.name}")

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could work now for a job of the model `beside`.

        It can if it is in memory, or fits without an eviction and without delaying another load by
        more than `within_s`; see `queueing.service.model_reader.is_at_hand`. False for an unknown
        name.
        """
        spec, served = self.fleet.catalog.find(model), self.fleet.catalog.find(beside)
        if spec is None or served is None:
            return False
        snapshot = self.router.latest
        return is_at_hand(
            self.fleet,
            self.times,
            spec,
            beside=served,
            wanted=[n for n, m in snapshot.models.items() if m.waiting] if snapshot else (),
            within_s=within_s,
            now=self.clock.now(),
        )
