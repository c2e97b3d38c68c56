"""Memory that a server never gives back, and which models it is then missing for; pure."""

from collections.abc import Iterator
from itertools import product

from queueing.core.catalog import Catalog, HostSpec, ModelSpec


def warnings(catalog: Catalog, backend: str) -> Iterator[str]:
    """Yield for each model of a server that cannot unload which others it keeps off the card."""
    hosts = [catalog.hosts[name] for name in catalog.hosts_of[backend]]
    for host, model in product(hosts, catalog.served_by(backend)):
        others = [other.name for other in _kept_out(catalog, host, backend, model)]
        if others:
            yield (
                f"It cannot be told to unload: once {model.name} is in memory, there is no room on "
                f"{host.name} for {_listed(others)} until this server ends."
            )


def _kept_out(
    catalog: Catalog, host: HostSpec, backend: str, model: ModelSpec
) -> Iterator[ModelSpec]:
    """Yield the models of a host that do not fit beside one, and that it does not make way for."""
    makes_way = catalog.backends[backend].max_models is not None  # for others of its server
    beside = {spec.name for spec in host.backends} - ({backend} if makes_way else set())
    for other in catalog.models.values():
        if other is model or not (on := beside & set(other.backends)):
            continue
        least_mb = min(_part_mb(catalog, host, other, name) for name in on)
        kept_mb = _part_mb(catalog, host, model, backend)
        if least_mb and kept_mb and kept_mb + least_mb > host.usable_mb:
            yield other


def _part_mb(catalog: Catalog, host: HostSpec, model: ModelSpec, backend: str) -> float:
    """Return what a model takes on a host, 0 where it is not there or not known before its first load."""
    return (model.vram_mb or 0) * catalog.parts_of(model, backend).get(host.name, 0.0)


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
