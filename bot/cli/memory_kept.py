"""Memory that a server never gives back, and which models it is then missing for; pure."""

from collections.abc import Iterator

from queueing.core.catalog import Catalog, HostSpec, ModelSpec


def warnings(catalog: Catalog, backend: str) -> Iterator[str]:
    """Yield for each model of a server that cannot unload which others it keeps off the card."""
    host = catalog.hosts[catalog.host_of[backend]]
    for model in catalog.served_by(backend):
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
        if other is not model and beside & set(other.backends) and _exceed(host, model, other):
            yield other


def _exceed(host: HostSpec, model: ModelSpec, other: ModelSpec) -> bool:
    if not model.vram_mb or not other.vram_mb:
        return False  # not known before its first load
    return model.vram_mb + other.vram_mb > host.usable_mb


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
