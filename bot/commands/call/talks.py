"""Which conversation a question continues, and what was said in it.

A reply chooses an answer, of anyone in the chat. Without one, a private chat with the bot continues
the last exchange there, unless that is long ago or the person began a new conversation.
"""

import re

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import replied_job
from bot.core.origin import Origin
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat

_PAGE = 10
_NAME_MOST = 32
_ROLES = frozenset({"system", "user", "assistant", "developer", "tool", "function"})


async def earlier_job(context: Context, call: Call) -> Job | None:
    """Return the job whose exchange a question continues, None for the first of a conversation."""
    await call.turn()
    invocation = call.invocation
    if invocation.replied_to is not None:
        job = await replied_job(context, call)
        return job if job is not None and isinstance(job.request, Chat) else None
    if invocation.group or call.text("about") is not None or context.idle() <= 0:
        return None
    return await _last(context, call)


def name_of(call: Call) -> str | None:
    """Return the words that name the speaker to the model; None in a private chat."""
    return _told(call.invocation.user_name) if call.invocation.group else None


def quoted_in(call: Call) -> str:
    """Return the words replied to, in a group after their author's name."""
    invocation = call.invocation
    name = _told(invocation.quoted_by) if invocation.group and invocation.quoted else None
    return invocation.quoted if name is None else f"{name}: {invocation.quoted}"


def _told(name: str) -> str | None:
    """Return a name as a model reads it, None if nothing readable is left.

    Only letters, digits and some punctuation are kept: it can neither end the line nor pass for a
    role.
    """
    words = re.sub(r"[^\w .'\u2019-]|_", " ", name)
    told = " ".join(words.split())[:_NAME_MOST].strip()
    return f"({told})" if told.casefold() in _ROLES else told or None


async def _last(context: Context, call: Call) -> Job | None:
    """Return the person's last exchange in this chat, unless it is too old or was ended by `/new`."""
    invocation, now = call.invocation, context.clock.now()
    since = now - context.idle()
    fresh = await context.records.afresh_since(
        invocation.platform, invocation.chat, invocation.user
    )
    before = None
    while page := await context.queue.jobs.history(invocation.user, limit=_PAGE, before=before):
        recent = (
            job for job in page if job.queued_at > fresh and (job.finished_at or now) >= since
        )
        found = next((job for job in recent if _is_exchange(job, call)), None)
        if found is not None or page[-1].queued_at < max(since, fresh):
            return found
        before = page[-1].id
    return None


def _is_exchange(job: Job, call: Call) -> bool:
    """Return whether a job is a question of this chat that was not given up without an answer."""
    if not isinstance(job.request, Chat) or job.state in {JobState.FAILED, JobState.CANCELLED}:
        return False
    origin = Origin.model_validate_json(job.reply_to)
    return (origin.platform, origin.chat) == (call.invocation.platform, call.invocation.chat)
