"""What a command's handler receives, and what it may answer.

A handler only decides and stores. It never sends: the presenter sends what it returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.commands.call.parser import Args, suggested
from bot.commands.call.pasted import Fetch
from bot.core.answers import Reply
from bot.core.command import Command, Topic
from bot.core.content import Body, Button, Content
from bot.core.live_settings import LiveSettings
from bot.core.platform import ChatHistory, Invocation
from bot.core.refusals import Declined, Phrase, Refusal, RefusalKind
from bot.core.service import QueueService
from bot.delivery.records import MessageRecords
from bot.people.access import Access
from bot.people.api_keys import ApiKeys
from bot.people.audit_log import Act, AuditLog
from bot.people.invites import Invites
from bot.people.links import Links
from bot.people.names import NameForms
from bot.people.people import CarriedRights, People, Person
from bot.requests.admission import AdmissionService
from bot.requests.rules import Rule
from bot.texts.catalogue import Value, say
from queueing.core.catalog import Catalog
from queueing.core.leases import LeaseReader
from queueing.core.ports import Clock


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Everything a handler may use.

    `naming` holds each platform's way to name people. `chat_logs` are the chats the bot stores
    itself, by platform. `invites` is None if the web chat has no token, so that all its visitors
    are the same person. `api_keys` is None without an API. `roles` is None where one process does
    everything. `fetch` is None where no images are fetched.
    """

    queue: QueueService
    admission: AdmissionService
    records: MessageRecords
    people: People
    audit: AuditLog
    access: Access
    clock: Clock
    commands: Sequence[Command]
    chat_logs: Mapping[str, ChatHistory] = field(default_factory=dict)
    live: LiveSettings = field(default_factory=LiveSettings)
    invites: Invites | None = None
    naming: Mapping[str, NameForms] = field(default_factory=dict)
    links: Links | None = None
    api_keys: ApiKeys | None = None
    roles: LeaseReader | None = None
    carried: CarriedRights | None = None
    fetch: Fetch | None = None

    @property
    def catalog(self) -> Catalog:
        """The models that the caller may use, and all hosts and backends known now."""
        return self.admission.catalog

    def under(self, rule: Rule) -> "Context":
        """Return the context of a call that allows what a rule allows."""
        return replace(self, admission=self.admission.under(rule))


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An invocation with its checked values, its caller, and their language."""

    invocation: Invocation
    args: Args
    person: Person
    language: str

    def text(self, name: str) -> str | None:
        """Return a text value, or None if it was not given."""
        value = self.args.get(name)
        return None if value is None else str(value)

    def whole(self, name: str) -> int | None:
        """Return a whole number, or None if it was not given."""
        value = self.args.get(name)
        return None if value is None else int(value)

    def decimal(self, name: str) -> float | None:
        """Return a number, or None if it was not given."""
        value = self.args.get(name)
        return None if value is None else float(value)

    async def turn(self) -> None:
        """Wait until everything the caller sent here earlier is accepted or refused."""
        if self.invocation.arrival is not None:
            await self.invocation.arrival.turn()

    def say(self, key: str, **values: Value) -> Body:
        """Return a text in the caller's language."""
        return say(self.language, key, **values)


def reply(body: Body, *, private: bool = True, buttons: Sequence[Button] = ()) -> Reply:
    """Return a text answer, with its buttons in one row."""
    rows = (tuple(buttons),) if buttons else ()
    return Reply(content=Content(body=_trimmed(body), buttons=rows), private=private)


def _trimmed(body: Body) -> Body:
    """Return a body without line breaks at its end, which lists leave there."""
    *front, last = body or ("",)
    return (*front, last.rstrip("\n")) if isinstance(last, str) else body


def offered(commands: Sequence[Command], *, admin: bool) -> list[Command]:
    """Return the commands that a caller may type, with the parameters that they may use."""
    shown = [each for each in commands if not each.hidden and (admin or not each.admin)]
    return shown if admin else [_for_everyone(each) for each in shown]


def tells_of_jobs(command: Command) -> bool:
    """Return whether a command makes, shows or changes a person's jobs."""
    return not command.admin and (command.hidden or command.topic is not Topic.HERE)


def _for_everyone(command: Command) -> Command:
    return replace(command, params=[each for each in command.params if not each.admin])


def unknown_command(name: str, known: Sequence[Command]) -> Declined:
    """Return the refusal of an unknown command, with a suggestion for the one that was meant."""
    meant = suggested(name, [each.name for each in known])
    hint = Phrase("hint.did_you_mean", {"names": f"/{meant}"}) if meant else Phrase("hint.help")
    return Declined(Refusal(RefusalKind.UNKNOWN_COMMAND, command=name[:40], hint=hint))


def is_admin(context: Context, call: Call) -> bool:
    """Return whether the caller is an admin in this call."""
    return context.access.is_admin(call.invocation.user, call.invocation.rights)


async def audited(
    context: Context, call: Call, action: str, subject: str, detail: str = ""
) -> None:
    """Record an admin's action, and the right that allowed it unless their own id did."""
    actor, now = call.invocation.user, context.clock.now()
    right = context.access.admin_by(actor, call.invocation.rights)
    if right is not None and right != actor:
        detail = f"{detail}, as {right}" if detail else f"as {right}"
    await context.audit.write(
        Act(at=now, actor=actor, action=action, subject=subject, detail=detail)
    )
