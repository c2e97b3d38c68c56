"""Finding the model or the host an admin means."""

from bot.commands.context import Call, CallRefused
from bot.texts import word
from queueing.catalog import Catalog
from queueing.errors import UnknownModel

_NAMED = 3


def meant_model(catalog: Catalog, call: Call) -> str:
    """Return the name of the model a call names. Raises `UnknownModel`."""
    named = call.text("model") or ""
    model = catalog.find(named)
    if model is None:
        raise UnknownModel(named, catalog.nearest(named))
    return model.name


def meant_host(catalog: Catalog, call: Call) -> str:
    """Return the name of the host a call names, whatever its case. Raises `CallRefused`."""
    named = call.text("host") or ""
    for host in catalog.hosts:
        if host.casefold() == named.casefold():
            return host
    names = ", ".join(catalog.hosts)
    raise CallRefused(
        "refused.no_such_host",
        name=named[:60],
        hint=word(call.language, "hint.models", names=names),
    )


def meant_target(catalog: Catalog, call: Call) -> tuple[str | None, str | None]:
    """Return the model and the host a call names, None for what it does not.

    A word that is no model is taken for a host. Raises `UnknownModel` or `CallRefused`.
    """
    model = None if call.text("model") is None else meant_model(catalog, call)
    if call.text("host") is None:
        return model, None
    try:
        return model, meant_host(catalog, call)
    except CallRefused:
        near = catalog.nearest(call.text("host") or "")
        if model is None and near:
            names = ", ".join(near[:_NAMED])
            raise CallRefused(
                "refused.no_such_target",
                name=(call.text("host") or "")[:60],
                hint=word(call.language, "hint.did_you_mean", names=names),
            ) from None
        raise


def words(call: Call, model: str | None, host: str | None) -> str:
    """Return what is paused or goes on, in the caller's language."""
    return _names(model, host) or word(call.language, "pause.everything")


def subject(model: str | None, host: str | None) -> str:
    """Return the same for the audit log, which has one language."""
    return _names(model, host) or "everything"


def _names(model: str | None, host: str | None) -> str:
    return ", ".join(name for name in (model, host) if name is not None)
