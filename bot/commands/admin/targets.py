"""Finding the person an admin's command means."""

import re

from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.jobs import replied_job

_MENTION = re.compile(r"<@!?(\d{1,25})>")
_USER = re.compile(r"[a-z]+:\S{1,64}")


async def meant_person(context: Context, call: Call) -> str:
    """Return the user an admin names: by id, by mention, or by replying to a job's message.

    A bare id belongs to the platform of the call. Raises `CallRefused`.
    """
    named = call.text("person")
    if named is None:
        job = await replied_job(context, call)
        if job is None:
            raise CallRefused("refused.which_person", command=call.invocation.command)
        return job.owner
    if mention := _MENTION.fullmatch(named):
        named = mention[1]
    if re.fullmatch(r"[0-9]{1,25}", named):
        named = f"{call.invocation.platform}:{named}"
    if not _USER.fullmatch(named):
        raise CallRefused("refused.which_person", command=call.invocation.command)
    _check(context, named)
    return named


def _check(context: Context, user: str) -> None:
    """Refuse an impossible user id: anything set for it would never apply. Raises `CallRefused`."""
    platform = user.partition(":")[0]
    names = context.naming.get(platform)
    if names is None:
        known = ", ".join(context.naming)
        raise CallRefused("refused.no_such_chat", name=platform[:40], names=known)
    if not names.is_user(user):
        raise CallRefused("refused.no_such_user", name=user[:60], example=names.person.example)
