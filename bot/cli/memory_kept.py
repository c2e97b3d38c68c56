"""Warnings about memory that servers never release, and the models it blocks. Pure."""

from collections.abc import Collection, Iterator, Sequence
from itertools import product

from queueing.core.catalog import Catalog
from queueing.core.specs import HostSpec, ModelSpec


def warnings(catalog: Catalog, backend: str) -> Iterator[str]:
    """Yield, for each model of a server that cannot unload, which other models it blocks."""
    hosts = [catalog.hosts[name] for name in catalog.hosts_of[backend]]
    for host, model in product(hosts, catalog.served_by(backend)):
        others = [other.name for other in _kept_out(catalog, host, backend, model)]
        if others:
            yield (
                f"It cannot unload on request: once {model.name} is in memory, there is no space on "
                f"{host.name} for {_listed(others)} until this server stops."
            )


def of_unknown_size(catalog: Catalog, backend: str) -> Iterator[str]:
    """Yield, for each model of a server that cannot unload, that its size should be set.

    Until its size is known, a model counts as filling the GPU, and the others wait.
    """
    for host in (catalog.hosts[name] for name in catalog.hosts_of[backend]):
        for model in catalog.served_by(backend):
            others = list(_beside(catalog, host, backend, model))
            if model.vram_mb is None and others:
                yield (
                    f"{backend} cannot unload on request, and the size of {model.name} is unknown: set its "
                    f"`vram`, or {_listed(others)} may wait forever for space on {host.name}."
                )


def preloaded(catalog: Catalog) -> Iterator[str]:
    """Yield, for each host, which models do not fit next to the preloaded ones.

    A preloaded model is on one of its servers, so a model with several hosts counts for none of
    them.
    """
    for host in catalog.hosts.values():
        here = {spec.name for spec in host.backends}
        kept = [
            each
            for each in catalog.models.values()
            if each.preload and each.backends and here.issuperset(each.backends)
        ]
        out = [
            each.name for each in catalog.models.values() if _lacks_room(catalog, host, kept, each)
        ]
        if out:
            names = _listed([each.name for each in kept])
            yield (
                f"{names} {'stays' if len(kept) == 1 else 'stay'} in memory because `preload` is set: "
                f"there is no space left on {host.name} for {_listed(out)}."
            )


def _lacks_room(
    catalog: Catalog, host: HostSpec, kept: Sequence[ModelSpec], model: ModelSpec
) -> bool:
    """Return whether a model that has only this host does not fit next to the others kept there."""
    on = {spec.name for spec in host.backends}
    others = [each for each in kept if each is not model]
    if not others or not model.backends or not on.issuperset(model.backends):
        return False
    least_mb = _least_mb(catalog, host, model)
    others_mb = sum(_least_mb(catalog, host, each) for each in others)
    return bool(least_mb) and least_mb + others_mb > host.usable_mb


def _least_mb(catalog: Catalog, host: HostSpec, model: ModelSpec) -> float:
    return min(_part_mb(catalog, host, model, name) for name in model.backends)


def together(catalog: Catalog, keepers: Collection[str]) -> Iterator[str]:
    """Yield, for each host, which models do not fit next to everything that servers keep there.

    `keepers` are the servers that cannot unload. Models that do not fit next to a single other one
    are reported by `warnings`.
    """
    for host in catalog.hosts.values():
        here = [spec.name for spec in host.backends if spec.name in keepers]
        out = [
            each.name for each in catalog.models.values() if _is_crowded(catalog, host, here, each)
        ]
        if out:
            yield (
                f"{_listed(here)} cannot unload on request: once their models are in memory, there "
                f"may be no space on {host.name} for {_listed(out)} until a server stops."
            )


def _is_crowded(catalog: Catalog, host: HostSpec, keepers: Sequence[str], model: ModelSpec) -> bool:
    """Return whether a model fits next to each model that stays on a host, but not next to all.

    Preloaded models stay too. A model of unknown size needs at least some space.
    """
    on = {spec.name for spec in host.backends} & set(model.backends)
    if not on:
        return False
    least_mb = max(1.0, min(_part_mb(catalog, host, model, name) for name in on))
    kept_mb = [mb for name in keepers for mb in _staying_mb(catalog, host, name, model)]
    if not kept_mb:
        return False
    kept_mb += _preloaded_mb(catalog, host, keepers, model)
    if least_mb + max(kept_mb) > host.usable_mb:
        return False
    return least_mb + sum(kept_mb) > host.usable_mb


def _preloaded_mb(
    catalog: Catalog, host: HostSpec, keepers: Sequence[str], but: ModelSpec
) -> list[float]:
    """Return the sizes of the preloaded models of a host's other servers."""
    others = {spec.name for spec in host.backends} - set(keepers)
    return [
        _least_mb(catalog, host, each)
        for each in catalog.models.values()
        if each.preload and each is not but and each.backends and others.issuperset(each.backends)
    ]


def _staying_mb(catalog: Catalog, host: HostSpec, backend: str, but: ModelSpec) -> Sequence[float]:
    """Return the largest sizes a server can keep on a host while another model waits."""
    most = catalog.backends[backend].max_models
    if most is not None and backend in but.backends:
        return ()  # it replaces its models by others of the same server
    sizes = (
        _part_mb(catalog, host, model, backend)
        for model in catalog.served_by(backend)
        if model is not but
    )
    return sorted(sizes, reverse=True)[:most]


def _kept_out(
    catalog: Catalog, host: HostSpec, backend: str, model: ModelSpec
) -> Iterator[ModelSpec]:
    """Yield a host's models that do not fit next to `model`, which stays when they wait."""
    for other, on in _beside(catalog, host, backend, model).items():
        least_mb = min(_part_mb(catalog, host, catalog.models[other], name) for name in on)
        kept_mb = _part_mb(catalog, host, model, backend)
        if least_mb and kept_mb and kept_mb + least_mb > host.usable_mb:
            yield catalog.models[other]


def _beside(
    catalog: Catalog, host: HostSpec, backend: str, model: ModelSpec
) -> dict[str, set[str]]:
    """Return the models for which `model` is not unloaded, each with its servers on the host."""
    makes_way = catalog.backends[backend].max_models is not None  # for its server's other models
    beside = {spec.name for spec in host.backends} - ({backend} if makes_way else set())
    found = {each.name: beside & set(each.backends) for each in catalog.models.values()}
    return {name: on for name, on in found.items() if on and name != model.name}


def _part_mb(catalog: Catalog, host: HostSpec, model: ModelSpec, backend: str) -> float:
    """Return a model's size on a host; 0 if it is not there or its size is unknown."""
    return (model.vram_mb or 0) * catalog.parts_of(model, backend).get(host.name, 0.0)


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
