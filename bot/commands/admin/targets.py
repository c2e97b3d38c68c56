"""Finds the model, host or person that an admin's command names."""

import re

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import replied_job
from bot.core.refusals import Declined, Phrase, Refusal, RefusalKind
from bot.texts.catalogue import word
from queueing.core.catalog import Catalog

_MENTION = re.compile(r"<@!?(\d{1,25})>")
_USER = re.compile(r"[a-z]+:\S{1,64}")


async def meant_person(context: Context, call: Call) -> str:
    """Return the user an admin names by id, by mention, or by replying to a job's message.

    A bare id belongs to the platform of the call. Raises `Declined`.
    """
    named = call.text("person")
    if named is None:
        job = await replied_job(context, call)
        if job is None:
            raise Declined(Refusal(RefusalKind.WHICH_PERSON))
        return job.owner
    if mention := _MENTION.fullmatch(named):
        named = mention[1]
    if re.fullmatch(r"[0-9]{1,25}", named):
        named = f"{call.invocation.platform}:{named}"
    if not _USER.fullmatch(named):
        raise Declined(Refusal(RefusalKind.WHICH_PERSON))
    _check(context, named)
    return named


def _check(context: Context, user: str) -> None:
    """Refuse an impossible user id, because settings for it would never apply.

    Raises `Declined`.
    """
    platform = user.partition(":")[0]
    names = context.naming.get(platform)
    if names is None:
        known = ", ".join(context.naming)
        raise Declined(Refusal(RefusalKind.NO_SUCH_CHAT, name=platform[:40], names=known))
    if not names.is_user(user):
        raise Declined(
            Refusal(RefusalKind.NO_SUCH_USER, name=user[:60], example=names.person.example)
        )


_NEAR_NAMED = 3


def meant_model(catalog: Catalog, call: Call) -> str:
    """Return the name of the model a call names. Raises `UnknownModel`."""
    return catalog.named(call.text("model") or "").name


def meant_host(catalog: Catalog, call: Call) -> str:
    """Return the name of the host a call names, ignoring case. Raises `Declined`."""
    named = call.text("host") or ""
    for host in catalog.host_names:
        if host.casefold() == named.casefold():
            return host
    names = ", ".join(catalog.host_names)
    hint = Phrase("hint.models", {"names": names})
    raise Declined(Refusal(RefusalKind.NO_SUCH_HOST, name=named[:60], hint=hint))


def meant_target(catalog: Catalog, call: Call) -> tuple[str | None, str | None]:
    """Return the model or the host a call names; (None, None) if it names nothing.

    A word that is not a model counts as a host. Naming both is refused, because it would suggest
    that only the model on that host is affected. Raises `UnknownModel` or `Declined`.
    """
    host = call.text("host")
    if host is None:
        return (None if call.text("model") is None else meant_model(catalog, call)), None
    if call.text("model") is not None:
        raise Declined(Refusal(RefusalKind.ONE_TARGET))
    if host.casefold() in {name.casefold() for name in catalog.host_names}:
        return None, meant_host(catalog, call)
    if near := catalog.nearest(host):
        hint = Phrase("hint.did_you_mean", {"names": ", ".join(near[:_NEAR_NAMED])})
    else:
        hint = Phrase("hint.machines", {"names": ", ".join(catalog.host_names)})
    raise Declined(Refusal(RefusalKind.NO_SUCH_TARGET, name=host[:60], hint=hint))


def words(call: Call, model: str | None, host: str | None) -> str:
    """Return the name of the paused or resumed target, in the caller's language."""
    return model or host or word(call.language, "pause.everything")


def subject(model: str | None, host: str | None) -> str:
    """Return the target's name for the audit log, which has one language."""
    return model or host or "everything"
