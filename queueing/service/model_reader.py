"""Models: what can be asked for, and what a model's servers have."""

import logging
from collections.abc import Iterable, Mapping

from queueing.core.catalog import Catalog, ModelSpec, Offer
from queueing.core.errors import (
    BackendError,
    Busy,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.found_models import with_found
from queueing.core.ports import Backend, Clock
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Times
from queueing.engine.scheduler import Router
from queueing.service.availability import is_at_hand

log = logging.getLogger(__name__)


class OfferedModels:
    """Keeps the offer and asks about its models."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        times: Times,
        router: Router,
        backends: Mapping[str, Backend],
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self._fleet = fleet
        self._times = times
        self._router = router
        self._backends = backends
        self._clock = clock
        self._bus = bus
        self._offer: Offer | None = None
        self._catalog = fleet.catalog  # that the offer was made from
        self._unable = frozenset[tuple[str, str]]()

    @property
    def offer(self) -> Offer:
        """What can be asked for now; the same value until it changes."""
        catalog, unable = self._fleet.catalog, self._fleet.load_failures.unable_now()
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
        known = [self._backends[name].options(spec) for name in self._fleet.serving(spec)]
        limited = [options for options in known if options is not None]
        return frozenset.intersection(*limited) if limited else None

    def _usual(self, spec: ModelSpec) -> Mapping[str, float]:
        servers = reversed(self._fleet.serving(spec))  # the preferred one counts
        return {k: v for name in servers for k, v in self._backends[name].usual(spec).items()}

    def extend(self, models: Iterable[ModelSpec]) -> None:
        """Add models found on servers, as `with_found` joins them."""
        known = self._fleet.catalog
        joined = with_found(known, models)
        for model in joined:
            if model != known.models.get(model.name):
                log.info("%s is offered by %s", model.name, " and ".join(model.backends))
        self._fleet.know(Catalog(joined, known.hosts.values(), known.retired.values()))
        self._bus.fleet_changed()

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs of a model's first server that can be reached.

        Raises `UnknownModel`, and `BackendError` when none can be.
        """
        spec = self._fleet.catalog.named(model)
        failure: BackendError | None = None
        for name in self._fleet.serving(spec):
            try:
                return await self._backends[name].loras(spec)
            except (Busy, Unavailable, UnknownFailure, UnreadableAnswer) as error:
                failure = error
        raise failure or Unavailable(f"no server runs {spec.name}")

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now on behalf of a job of `beside`.

        It can if it is in memory, or fits without evicting anything and without delaying another
        load by more than `within_s`; see `queueing.service.availability`. False for an unknown name.
        """
        spec, served = self._fleet.catalog.find(model), self._fleet.catalog.find(beside)
        if spec is None or served is None:
            return False
        world = self._router.world
        return is_at_hand(
            self._fleet,
            self._times,
            spec,
            beside=served,
            wanted=[n for n, m in world.models.items() if m.waiting] if world else (),
            within_s=within_s,
            now=self._clock.now(),
        )
