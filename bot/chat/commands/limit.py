"""`/limit <person>`, for admins: a person's own limits and lane, overriding their role's."""

from bot.chat.api.answers import Answer
from bot.chat.api.table import Command, Param, ParamKind
from bot.chat.commands.context import Call, CallRefused, Context, audited, reply
from bot.chat.commands.parse import options
from bot.chat.commands.people import meant_person
from bot.chat.texts import word
from bot.people.users import NO_LIMIT
from queueing.core.jobs import LANES

_NONE = "none"

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
        Param(name="lane", kind=ParamKind.CHOICE, help="param.lane", choices=LANES),
        Param(name="reset", kind=ParamKind.FLAG, help="param.reset"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    user = await meant_person(context, call)
    changes: dict[str, int | str | None] = {}
    if call.args.get("reset"):
        changes = dict.fromkeys(("max_open", "per_hour", "lane"))
    for name, column in (("open", "max_open"), ("per-hour", "per_hour")):
        if name in call.args:
            changes[column] = NO_LIMIT if call.args[name] == _NONE else call.whole(name)
    if user == call.invocation.user and 0 in changes.values():
        raise CallRefused("refused.own_limit")
    if (lane := call.text("lane")) is not None:
        changes["lane"] = lane
    person = await context.people.get(user)
    if changes:
        person = await context.people.change(user, **changes)
        await audited(context, call, "limit", user, _typed(call))
    limits = context.access.limits_of(person, ())
    return reply(
        call.say(
            "limit.shown",
            person=user,
            open=limits.open_per_person,
            per_hour=_shown(call, limits.per_hour),
            lane=limits.lane,
        )
    )


def _shown(call: Call, per_hour: int | None) -> str:
    return word(call.language, "limit.none") if per_hour is None else str(per_hour)


def _typed(call: Call) -> str:
    """Return the options of the call as an admin types them."""
    given = [param.name for param in options(COMMAND) if param.name in call.args]
    return " ".join(
        f"--{name}" if call.args[name] is True else f"--{name} {call.args[name]}" for name in given
    )
