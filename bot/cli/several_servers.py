"""What servers have in common: models that several serve, and names that two would have; pure."""

from collections.abc import Iterator, Mapping, Sequence

from bot.cli.findings import Finding, told
from queueing.core.catalog import Catalog, ModelSpec
from queueing.core.found_models import with_found

Offered = Mapping[str, Sequence[ModelSpec]]
"""What each server offers by itself."""


def joined(catalog: Catalog, offered: Offered) -> Catalog:
    """Return the catalog with what servers offer, as a running bot has it."""
    found = (model for name in catalog.backends for model in offered.get(name, ()))
    return Catalog(with_found(catalog, found), catalog.hosts.values())


def rows(whole: Catalog, offered: Offered) -> Iterator[Finding]:
    """Tell which of the models offered are served together, and which have another name."""
    for model in whole.models.values():
        if model.discovered and len(model.backends) > 1:
            servers = " and ".join(model.backends)
            yield told("models", model.name, f"{servers} have it and share its line")
    for backend, models in offered.items():
        for model in models:
            other = whole.find(model.name)
            if other is None or backend in other.backends:
                continue
            name = next((each.name for each in whole.served_by(backend) if _is(each, model)), "")
            owners = " and ".join(other.backends)
            text = f"{backend} has another one than {owners}; it is offered as {name}"
            yield told("models", model.name, text)


def _is(one: ModelSpec, other: ModelSpec) -> bool:
    return one.options == other.options and one.name.startswith(other.name)
