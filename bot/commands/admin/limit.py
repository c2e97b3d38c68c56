"""`/limit <person>`, for admins: a person's own limits and lane, which override their role's.

`--today` lists who used the GPUs today.
"""

from bot.commands.admin.targets import meant_person
from bot.commands.call.context import Call, Context, audited, reply
from bot.commands.call.parser import options
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.access import day_of
from bot.people.people import NO_LIMIT, Person
from bot.texts.catalogue import join, minutes, say, word
from queueing.core.jobs import LANES

_NONE = "none"
_LISTED = 20

COMMAND = Command(
    name="limit",
    help="command.limit",
    admin=True,
    params=(
        Param(name="person", kind=ParamKind.PERSON, help="param.person", positional=True),
        Param(name="open", kind=ParamKind.WHOLE, help="param.open", least=0, most=10_000),
        Param(
            name="per-hour",
            kind=ParamKind.WHOLE,
            help="param.per_hour",
            least=0,
            most=10_000,
            choices=(_NONE,),
        ),
        Param(
            name="gpu-minutes",
            kind=ParamKind.WHOLE,
            help="param.gpu_minutes",
            least=0,
            most=1440,
            choices=(_NONE,),
        ),
        Param(name="lane", kind=ParamKind.CHOICE, help="param.lane", choices=LANES),
        Param(name="reset", kind=ParamKind.FLAG, help="param.reset"),
        Param(name="today", kind=ParamKind.FLAG, help="param.today"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    if call.args.get("today"):
        return reply(await _today(context, call))
    user = await meant_person(context, call)
    changes: dict[str, int | str | None] = {}
    if call.args.get("reset"):
        changes = dict.fromkeys(("max_open", "per_hour", "gpu_per_day", "lane"))
    for name, column in (("open", "max_open"), ("per-hour", "per_hour")):
        if name in call.args:
            changes[column] = NO_LIMIT if call.args[name] == _NONE else call.whole(name)
    if "gpu-minutes" in call.args:
        unlimited = call.args["gpu-minutes"] == _NONE
        changes["gpu_per_day"] = NO_LIMIT if unlimited else 60 * (call.whole("gpu-minutes") or 0)
    if user == call.invocation.user and 0 in changes.values():
        raise Declined(Refusal(RefusalKind.OWN_LIMIT))
    if (lane := call.text("lane")) is not None:
        changes["lane"] = lane
    person = await context.people.get(user)
    if changes:
        person = await context.people.change(user, **changes)
        await audited(context, call, "limit", user, _typed(call))
    return reply(await _limits(context, call, person))


async def _limits(context: Context, call: Call, person: Person) -> Body:
    limits, language = context.access.limits_of(person, ()), call.language
    shown = word(
        language,
        "limit.shown",
        person=person.user,
        open=limits.open_per_person,
        per_hour=_shown(call, limits.per_hour),
        lane=limits.lane,
    )
    time = await context.queue.jobs.gpu_time(person.user, _since(context))
    used, most_s = minutes(time.used_s, language), limits.gpu_seconds_per_day
    if most_s is None:
        return say(language, "limit.gpu_free", shown=shown, used=used)
    return say(language, "limit.gpu", shown=shown, used=used, limit=minutes(most_s, language))


async def _today(context: Context, call: Call) -> Body:
    """Return who used the GPUs today, the heaviest user first."""
    used = await context.queue.jobs.gpu_used(_since(context))
    if not used:
        return call.say("limit.unused")
    most = sorted(used.items(), key=lambda each: (-each[1], each[0]))[:_LISTED]
    rows = (f"\n{person}: {minutes(seconds, call.language)}" for person, seconds in most)
    return join((*call.say("limit.today"), *rows))


def _since(context: Context) -> float:
    return day_of(context.clock.now(), context.access.zone).began_at


def _shown(call: Call, per_hour: int | None) -> str:
    return word(call.language, "limit.none") if per_hour is None else str(per_hour)


def _typed(call: Call) -> str:
    """Return the options of the call as an admin types them."""
    given = [param.name for param in options(COMMAND) if param.name in call.args]
    return " ".join(
        f"--{name}" if call.args[name] is True else f"--{name} {call.args[name]}" for name in given
    )
