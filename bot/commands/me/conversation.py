"""`/new` starts a new conversation; `/forget` permanently deletes the caller's stored data."""

from zlib import crc32

from bot.commands.call.context import Call, Context, reply
from bot.commands.call.jobs import own_job
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Button
from bot.core.origin import Origin
from bot.core.platform import ChatHistory
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.texts.catalogue import word
from queueing.core.jobs import Job
from queueing.core.requests import Chat

_PAGE = 200

FORGET = Command(
    name="forget",
    help="command.forget",
    params=(
        Param(
            name="what",
            kind=ParamKind.CHOICE,
            help="param.what",
            required=True,
            positional=True,
            choices=("conversation", "me"),
        ),
        Param(name="sure", kind=ParamKind.FLAG, help="param.sure"),
    ),
)
FORGET_ME = Command(
    name="forget-me",
    help="command.forget",
    hidden=True,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),),
)


async def handle_forget(context: Context, call: Call) -> Answer:
    """Delete the caller's data. Deleting all of it needs a confirmation."""
    if call.text("what") == "conversation":
        return await _forget_conversation(context, call)
    if call.args.get("sure"):
        return await _forget_everything(context, call)
    button = Button(
        command=FORGET_ME.name,
        job_id=_mark(call.invocation.user),
        label=word(call.language, "button.forget"),
        danger=True,
    )
    return reply(call.say("forget.ask"), buttons=(button,))


async def handle_forget_me(context: Context, call: Call) -> Answer:
    """Delete everything about the person who asked for it, when they press the button."""
    if call.whole("id") != _mark(call.invocation.user):
        raise Declined(Refusal(RefusalKind.NOT_YOURS))
    return await _forget_everything(context, call)


def _mark(user: str) -> int:
    """Return a number that identifies a person's button."""
    return crc32(user.encode())


async def _forget_everything(context: Context, call: Call) -> Answer:
    """Delete the caller's data.

    The chat's own log goes last, because open jobs' messages need it.
    """
    user, chat = call.invocation.user, call.invocation.chat
    await context.people.forget(user)
    if context.carried is not None:
        context.carried.forget(user)
    await context.records.forget(user)
    if context.api_keys is not None:
        await context.api_keys.revoke_all(user)
    count = await context.queue.erasure.forget(user)
    log = context.chat_logs.get(call.invocation.platform)
    if log is not None:
        await log.clear(chat)
    return _report(call, "forget.me", count, log)


async def _forget_conversation(context: Context, call: Call) -> Answer:
    """Delete every question the caller asked in this chat, with its answer."""
    jobs = await _asked_here(context, call)
    ids = frozenset(job.id for job in jobs)
    log = context.chat_logs.get(call.invocation.platform)
    messages = [await _messages(context, job) for job in jobs] if log is not None else []
    count = await context.queue.erasure.forget(call.invocation.user, ids)
    if log is not None:
        await log.forget(call.invocation.chat, [each for some in messages for each in some])
    return _report(call, "forget.conversation" if count else "forget.nothing", count, log)


def _report(call: Call, key: str, count: int, log: ChatHistory | None) -> Answer:
    """Report what was deleted, and what was not: messages that chat services store."""
    body = call.say(key, count=count)
    return reply(body if log is not None else (*body, " ", *call.say("forget.chat_stays")))


async def _asked_here(context: Context, call: Call) -> list[Job]:
    jobs: list[Job] = []
    before = None
    while page := await context.queue.jobs.history(
        call.invocation.user, limit=_PAGE, before=before
    ):
        jobs += [job for job in page if isinstance(job.request, Chat) and _came_from(job, call)]
        before = page[-1].id
    return jobs


def _came_from(job: Job, call: Call) -> bool:
    origin = Origin.model_validate_json(job.reply_to)
    return (origin.platform, origin.chat) == (call.invocation.platform, call.invocation.chat)


async def _messages(context: Context, job: Job) -> list[str]:
    """Return the messages of the question and the answer in the chat."""
    sent = await context.records.message(job.id)
    asked = Origin.model_validate_json(job.reply_to).request
    return [message for message in (asked, sent.ref.message if sent else None) if message]


NEW = Command(name="new", help="command.new")


async def handle_new(context: Context, call: Call) -> Answer:
    """Start a new conversation. In groups, only replies continue one anyway."""
    if call.invocation.group:
        return reply(call.say("new.in_groups"))
    await begin(context, call)
    return reply(call.say("new.begun"))


async def begin(context: Context, call: Call) -> None:
    """Start a new conversation of the caller in this chat."""
    await call.turn()
    at = call.invocation
    now = context.clock.now()
    await context.records.begin_afresh(
        at.platform, at.chat, at.user, now, idle_s=context.live.idle_s
    )


NEW_TOPIC = Command(
    name="new-topic",
    help="command.new",
    hidden=True,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),),
)


async def handle_new_topic(context: Context, call: Call) -> Answer:
    """Start a new conversation for the person who asked for the answer above the button."""
    await own_job(context, call, call.whole("id") or 0)
    await begin(context, call)
    return reply(call.say("new.begun"))
