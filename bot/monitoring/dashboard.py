"""The data for operators: read from the queue, the history and people, and converted to JSON."""

import logging
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter

from bot.core.origin import THE_BOT
from bot.core.queue import JobReader, QueueStatus
from bot.monitoring.history import History, StoredUsage, Usage
from bot.monitoring.hours import Recorded, bounds, grain_of, hours_of
from bot.monitoring.live_state import LiveState, now_of
from bot.monitoring.records import (
    HourSpan,
    HoursRecord,
    PeopleRecord,
    PeopleSpan,
    PersonUse,
)
from bot.people.access import Access, day_of
from bot.people.api_keys import LOCAL
from bot.people.audit_log import AuditLog
from bot.people.names import NameForms
from bot.people.people import People, Person
from queueing.core.errors import StoreError
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

PEOPLE_MOST = 500
ACTS_SHOWN = 50
_NAMES_EVERY_S = 60.0
_SHARED = frozenset({"web:local", LOCAL})
"""The names of whoever needs no token or key, or has the operator's own."""


@dataclass(kw_only=True, slots=True)
class _Names:
    """People's names ("" if unknown), and when all of them were last read."""

    by_user: dict[str, str] = field(default_factory=dict)
    read_at: float = -math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardReader:
    """Implements `Dashboard` in any process that can reach the queue and the database.

    `naming` holds each platform's way to name people. Only people with such names can be banned.
    """

    status: QueueStatus
    history: History
    usage: StoredUsage
    gpu: JobReader
    people: People
    access: Access
    audit: AuditLog
    clock: Clock
    naming: Mapping[str, NameForms] = field(default_factory=dict)
    _names: _Names = field(default_factory=_Names)

    async def read_now(self) -> LiveState:
        """Return the current state. Raises `StoreError` while the queue is unreachable."""
        snapshot, now = self.status.snapshot(), self.clock.now()
        names = await self._known_names({job.owner for job in snapshot.running})
        return now_of(snapshot, now, names)

    async def read_hours(self, span: HourSpan) -> HoursRecord:
        """Return the history of a span. Raises `StoreError`."""
        now, grain = self.clock.now(), grain_of(span)
        begins, ends = bounds(span, now)
        is_drawn = span is not HourSpan.WEEK
        recorded = Recorded(
            models=await self.history.models(grain, begins, ends),
            hosts=await self.history.hosts(grain, begins, ends),
            segments=await self.history.segments(begins, ends) if is_drawn else {},
        )
        configured = [host.name for host in self.status.snapshot().hosts]
        return hours_of(span, now, recorded, configured)

    async def read_people(self, span: PeopleSpan = PeopleSpan.TODAY) -> PeopleRecord:
        """Return usage by person. Raises `StoreError`."""
        now = self.clock.now()
        since = self._since(span, now)
        gpu_s = await self.gpu.gpu_used(since)
        usage = await self.usage.since(since)
        used = (user for user in usage.users | gpu_s.keys() if not user.startswith(THE_BOT))
        users = sorted(used, key=lambda user: (-gpu_s.get(user, 0.0), user))
        persons = await self.people.known(users[:PEOPLE_MOST])
        names = await self._known_names({person.user for person in persons})
        shown = [
            self._use(person, gpu_s.get(person.user, 0.0), usage, names, now) for person in persons
        ]
        shown.sort(key=lambda each: (-each.gpu_s, -each.running - each.waiting, each.user))
        return PeopleRecord(
            at=now,
            since=since,
            people=tuple(shown[:PEOPLE_MOST]),
            more=max(0, len({*users, *(each.user for each in shown)}) - PEOPLE_MOST),
            acts=tuple(await self.audit.newest(ACTS_SHOWN)),
        )

    def _since(self, span: PeopleSpan, now: float) -> float:
        if span is PeopleSpan.TODAY:
            return day_of(now, self.access.zone).began_at
        return now - (1 if span is PeopleSpan.DAY else 2) * 24 * 3600.0

    def _use(
        self, person: Person, gpu_s: float, usage: Usage, names: Mapping[str, str], now: float
    ) -> PersonUse:
        user, banned = person.user, person.is_banned(now)
        admin, names_of = self.access.is_admin(user), self.naming.get(user.partition(":")[0])
        return PersonUse(
            user=user,
            name=names.get(user, user),
            gpu_s=gpu_s,
            jobs=usage.jobs[user],
            waiting=usage.waiting[user],
            running=usage.running[user],
            limits=self.access.limits_of(person, frozenset()),
            banned=banned,
            banned_until=person.banned_until if banned else None,
            ban_reason=person.ban_reason if banned else None,
            admin=admin,
            bannable=not admin
            and user not in _SHARED
            and names_of is not None
            and names_of.is_user(user),
        )

    async def _known_names(self, users: AbstractSet[str]) -> Mapping[str, str]:
        """Return people's names, cached for a minute, or longer if the database is unavailable."""
        now, known = self.clock.now(), self._names
        old = now >= known.read_at + _NAMES_EVERY_S
        wanted = users if old else users - known.by_user.keys()
        if wanted:
            try:
                names = await self.usage.names(wanted)
            except StoreError as error:
                log.warning("cannot read people's names: %s", error)
                names = known.by_user
            told = {user: names.get(user, "") for user in wanted}
            known.by_user = told if old else known.by_user | told
            known.read_at = now if old else known.read_at
        return {user: name for user, name in known.by_user.items() if name}


class Dashboard(Protocol):
    """Reads the data for operators. Every call raises `StoreError`."""

    async def read_now(self) -> LiveState:
        """Return the current state."""

    async def read_hours(self, span: HourSpan) -> HoursRecord:
        """Return the history of a span."""

    async def read_people(self, span: PeopleSpan = PeopleSpan.TODAY) -> PeopleRecord:
        """Return usage by person."""


Shown = TypeVar("Shown", LiveState, HoursRecord, PeopleRecord)

_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (LiveState, HoursRecord, PeopleRecord)
}


def to_json(record: LiveState | HoursRecord | PeopleRecord) -> bytes:
    """Return a record as JSON, with None as null."""
    return _ADAPTERS[type(record)].dump_json(record, warnings="error")


def from_json(data: bytes, kind: type[Shown]) -> Shown:
    """Parse a record that `to_json` wrote. Raises `ValueError`."""
    record: Shown = _ADAPTERS[kind].validate_json(data)
    return record
