"""The notice of a long queue, and which models are free instead. Pure."""

from collections.abc import Collection, Sequence

from bot.core.content import Body
from bot.texts.catalogue import say
from queueing.core.catalog import Catalog
from queueing.core.snapshot import Residency
from queueing.core.status import CopyStatus, ModelStatus, StatusReport

_FREE_NAMED = 3


def busy_queue(
    model: str,
    wait_s: float,
    snapshot: StatusReport,
    catalog: Catalog,
    language: str,
    *,
    offered: Catalog,
) -> Body:
    """Return the notice of a long queue to show above the message of a new job.

    It names the models of those `offered` that are free instead, or reports that everything is busy. It is empty if
    neither applies: the message shows the expected end anyway.
    """
    taken = _taken(snapshot.models, catalog)
    free = _free_instead(model, snapshot.models, offered, taken)
    minutes = round(wait_s / 60)
    if free:
        names = ", ".join(free[:_FREE_NAMED])
        said = say(language, "status.busy", model=model, minutes=minutes, names=names)
    elif _all_busy(snapshot, catalog, taken):
        said = say(language, "status.all_busy", model=model, minutes=minutes)
    else:
        return ()
    return (*said, "\n")


def _taken(models: Sequence[ModelStatus], catalog: Catalog) -> Collection[str]:
    """Return the servers that do one thing at a time and are busy."""
    return {
        copy.backend
        for model in models
        for copy in model.copies
        if _is_busy(copy)
        and copy.backend in catalog.backends
        and catalog.backends[copy.backend].serial
    }


def _free_instead(
    model: str, models: Sequence[ModelStatus], catalog: Catalog, taken: Collection[str]
) -> list[str]:
    """Return the idle loaded models that can do everything this one can."""
    spec = catalog.find(model)
    if spec is None:
        return []
    return [
        other.name
        for other in models
        if other.name != spec.name
        and not (other.waiting or other.running or other.paused or other.reason)
        and any(_is_ready(copy, taken) for copy in other.copies)
        and other.name in catalog.models
        and catalog.models[other.name].capabilities >= spec.capabilities
    ]


def _all_busy(snapshot: StatusReport, catalog: Catalog, taken: Collection[str]) -> bool:
    """Return whether every working host is busy and no copy can take another job."""
    away = {host.name for host in snapshot.hosts if host.paused or host.rest is not None}
    working = {server.host for server in snapshot.backends if server.up} - away
    copies = [
        (model, copy) for model in snapshot.models for copy in model.copies if copy.host in working
    ]
    busy = {copy.host for _, copy in copies if _is_busy(copy)}
    if not working or busy != working:
        return False
    return not any(
        _is_ready(copy, taken) and _takes_more(model, copy, catalog) for model, copy in copies
    )


def _is_busy(copy: CopyStatus) -> bool:
    return copy.running > 0 or copy.residency is not Residency.READY


def _is_ready(copy: CopyStatus, taken: Collection[str]) -> bool:
    return copy.residency is Residency.READY and copy.backend not in taken


def _takes_more(model: ModelStatus, copy: CopyStatus, catalog: Catalog) -> bool:
    """Return whether the copy would start a request for the model at once."""
    spec = catalog.models.get(model.name)
    if spec is None or model.paused or model.waiting:
        return False
    return copy.running < spec.parallel
