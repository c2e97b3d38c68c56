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


def of_unknown_size(catalog: Catalog, backend: str) -> Iterator[str]:
    """Yield for each model of a server that cannot unload that its size should be set.

    Until something shows how much it takes, it counts as filling the card, and the others wait.
    """
    for host in (catalog.hosts[name] for name in catalog.hosts_of[backend]):
        for model in catalog.served_by(backend):
            others = list(_beside(catalog, host, backend, model))
            if model.vram_mb is None and others:
                yield (
                    f"{backend} cannot be told to unload, and the size of {model.name} is unknown: set its "
                    f"`vram`, or {_listed(others)} may wait in vain for room on {host.name}."
                )


def _kept_out(
    catalog: Catalog, host: HostSpec, backend: str, model: ModelSpec
) -> Iterator[ModelSpec]:
    """Yield the models of a host that do not fit beside one, and that it does not make way for."""
    for other, on in _beside(catalog, host, backend, model).items():
        least_mb = min(_part_mb(catalog, host, catalog.models[other], name) for name in on)
        kept_mb = _part_mb(catalog, host, model, backend)
        if least_mb and kept_mb and kept_mb + least_mb > host.usable_mb:
            yield catalog.models[other]


def _beside(
    catalog: Catalog, host: HostSpec, backend: str, model: ModelSpec
) -> dict[str, set[str]]:
    """Return the models of a host that one does not make way for, with their servers there."""
    makes_way = catalog.backends[backend].max_models is not None  # for others of its server
    beside = {spec.name for spec in host.backends} - ({backend} if makes_way else set())
    found = {each.name: beside & set(each.backends) for each in catalog.models.values()}
    return {name: on for name, on in found.items() if on and name != model.name}


def _part_mb(catalog: Catalog, host: HostSpec, model: ModelSpec, backend: str) -> float:
    """Return what a model takes on a host, 0 if it is not there or its size is not known yet."""
    return (model.vram_mb or 0) * catalog.parts_of(model, backend).get(host.name, 0.0)


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
