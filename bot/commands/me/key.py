"""`/key new|list|revoke`: keys of the HTTP API. A key acts as the person who created it.

A key is shown once, in private, and stored nowhere. Only an admin can create a key for a service.
`/key new laptop 30d` creates a key that expires.
"""

import re
import unicodedata

from bot.commands.call.context import Call, Context, audited, is_admin, reply
from bot.core.answers import Answer, Reply
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body, CommandText, Content, Moment
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.api_keys import MOST_KEYS, SERVICE, ApiKey, ApiKeys, TooManyKeys
from bot.requests.creation import require_text
from bot.texts.catalogue import join

_NAME_MOST = 40
_ID_MOST = 40
DAY_S = 86_400.0
DAYS_MOST = 3_650
_UNITS_S = {"m": 60.0, "min": 60.0, "h": 3_600.0, "d": DAY_S, "w": 7 * DAY_S}
_LASTS = re.compile(rf"([1-9]\d{{0,6}})({'|'.join(_UNITS_S)})", re.IGNORECASE | re.ASCII)
_UNITS = (
    "ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?|mon?|mos|months?"
    "|y|yrs?|years?|sek|sekunden?|minuten|std|stunden?|tage?n?|wochen?|monate?n?|j|jahre?n?"
)
_LIKE_A_TIME = re.compile(
    rf"(?<!\S)[-+]?p?t?(?:\d[\d.,_]*|[.,]\d+)\s*(?:{_UNITS})(?:\d[\d.,]*(?:{_UNITS})?)*(?!\S)",
    re.IGNORECASE,
)
"""Matches a duration that was left in the name.

Such a name is refused, because a key with a misread duration would be permanent.
"""
OPEN_WEBUI = "openwebui"

COMMAND = Command(
    name="key",
    help="command.key",
    params=(
        Param(
            name="action",
            kind=ParamKind.CHOICE,
            help="param.key_action",
            required=True,
            positional=True,
            choices=("new", "list", "revoke"),
        ),
        Param(name="name", kind=ParamKind.TEXT, help="param.key_name", positional=True),
        Param(
            name="days", kind=ParamKind.DECIMAL, help="param.key_days", least=0.01, most=DAYS_MOST
        ),
        Param(name="service", kind=ParamKind.FLAG, help="param.service", admin=True),
        Param(name="people", kind=ParamKind.FLAG, help="param.people", admin=True),
        Param(name="style", kind=ParamKind.CHOICE, help="param.key_style", choices=(OPEN_WEBUI,)),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    keys = context.api_keys
    if keys is None:
        raise Declined(Refusal(RefusalKind.NO_API))
    if call.invocation.group:  # not every platform can answer privately there
        raise Declined(Refusal(RefusalKind.KEY_IN_GROUP))
    match call.text("action"):
        case "new":
            return await _new(context, call, keys)
        case "revoke":
            return await _revoke(context, call, keys)
    return reply(await _listed(context, call, keys))


async def _new(context: Context, call: Call, keys: ApiKeys) -> Answer:
    name, lasts_s = _named(call.text("name") or "")
    if (days := call.decimal("days")) is not None:
        if lasts_s is not None:
            raise Declined(Refusal(RefusalKind.KEY_LASTS, given=call.text("name") or ""))
        lasts_s = days * DAY_S
    now = context.clock.now()
    service = bool(call.args.get("service")) or bool(call.args.get("people"))
    user, user_name = call.invocation.user, call.invocation.user_name
    if service:
        if not is_admin(context, call):
            raise Declined(Refusal(RefusalKind.ADMINS_ONLY, command="key new --service"))
        user, user_name = _service(name), name
    try:
        key, secret = await keys.new(
            user,
            user_name,
            name=name,
            now=now,
            people=bool(call.args.get("people")),
            style=call.text("style") or "",
            expires_at=None if lasts_s is None else now + lasts_s,
        )
    except TooManyKeys:
        raise Declined(Refusal(RefusalKind.TOO_MANY_KEYS, limit=MOST_KEYS)) from None
    if service:
        await audited(context, call, "key", user, f"new #{key.id}")
    return Reply(content=Content(body=_shown(call, key, secret), secret=True))


def _shown(call: Call, key: ApiKey, secret: str) -> Body:
    text = "key.new_service" if key.is_service else "key.new"
    body = call.say(text, secret=CommandText(secret), number=key.id, person=key.user)
    return join((*body, *_end(call, key)))


def _named(words: str) -> tuple[str, float | None]:
    """Return a key's name, and its lifetime in seconds if the last word is one (`30d`)."""
    name = " ".join(words.split())
    before, _, last = f" {name}".rpartition(" ")
    seconds = None
    if lasts := _LASTS.fullmatch(last):
        seconds = int(lasts[1]) * _UNITS_S[lasts[2].lower()]
        name = before.strip()
    if seconds is not None and seconds > DAYS_MOST * DAY_S:
        raise Declined(Refusal(RefusalKind.KEY_LASTS, given=last))
    if misread := _LIKE_A_TIME.search(name):
        raise Declined(Refusal(RefusalKind.KEY_LASTS, given=misread[0]))
    return require_text(name, _NAME_MOST) if name else "", seconds


def _end(call: Call, key: ApiKey) -> Body:
    """Return the expiry shown after a key; empty if it does not expire."""
    return () if key.expires_at is None else call.say("key.ends", moment=Moment(key.expires_at))


async def _revoke(context: Context, call: Call, keys: ApiKeys) -> Answer:
    word = (call.text("name") or "").removeprefix("#")
    if not word.isdecimal():
        raise Declined(Refusal(RefusalKind.WHICH_KEY))
    key = next((each for each in await _mine(context, call, keys) if each.id == int(word)), None)
    if key is None or not await keys.revoke(key.user, key.id):
        raise Declined(Refusal(RefusalKind.NO_SUCH_KEY, number=int(word)))
    if key.is_service:
        await audited(context, call, "key", key.user, f"revoke #{key.id}")
    return reply(call.say("key.revoked", number=key.id))


async def _listed(context: Context, call: Call, keys: ApiKeys) -> Body:
    mine = await _mine(context, call, keys)
    if not mine:
        return call.say("key.none")
    lines = [_line(call, key) for key in mine]
    return join((*call.say("key.list"), *(part for line in lines for part in ("\n", *line))))


def _line(call: Call, key: ApiKey) -> Body:
    name = f"{key.name} ({key.user})" if key.is_service else key.name or "–"
    line = call.say("key.line", number=key.id, name=name, moment=Moment(key.created_at))
    made = (*line, *_end(call, key))
    if key.used_at is None:
        return (*made, *call.say("key.unused"))
    return (*made, *call.say("key.used", moment=Moment(key.used_at)))


async def _mine(context: Context, call: Call, keys: ApiKeys) -> list[ApiKey]:
    """Return the keys a caller may see and revoke: their own, and for admins those of services."""
    mine = await keys.listed(call.invocation.user)
    return mine + await keys.services() if is_admin(context, call) else mine


def _service(name: str) -> str:
    """Return a service's id, derived from its name."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:_ID_MOST].strip("-")
    if not slug:
        raise Declined(Refusal(RefusalKind.WHICH_SERVICE))
    return f"{SERVICE}{slug}"
