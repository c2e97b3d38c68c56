"""What the bot itself stores in the database, beside the queue's jobs."""

from dataclasses import dataclass

from bot.api.calls.uploads import Uploads
from bot.api.jobs.webhooks import derived_key
from bot.api.runs.stored_attendance import StoredAttendance
from bot.app.in_force import InForce
from bot.core.origin import name_in
from bot.delivery.records import MessageRecords
from bot.monitoring.history import StoredHistory, StoredUsage
from bot.people.api_keys import ApiKeys
from bot.people.audit_log import AuditLog
from bot.people.invites import Invites
from bot.people.link_ends import LinkEnds
from bot.people.links import Links, key_of
from bot.people.people import People
from bot.people.upload_quota import ReceivedBytes
from bot.platforms.web.chat_log import ChatLog
from queueing.core.ports import Clock
from queueing.store.jobs.results import StoredFiles
from queueing.store.sql.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class BotRecords:
    """The bot's own records of one database."""

    records: MessageRecords
    people: People
    keys: ApiKeys
    audit: AuditLog
    chat_log: ChatLog
    invites: Invites | None
    links: Links
    uploads: Uploads
    results: StoredFiles
    hook_key: bytes
    attendance: StoredAttendance
    received: ReceivedBytes
    history: StoredHistory
    usage: StoredUsage


async def read_records(database: Database, in_force: InForce, clock: Clock) -> BotRecords:
    """Return the bot's records; reads what is kept in memory. Raises `StoreError`."""
    records, web = MessageRecords(database), in_force.config.chats.web
    key = await key_of(records)
    links = _links(database, in_force, clock, key)
    return BotRecords(
        records=records,
        people=People(database),
        keys=ApiKeys(database),
        audit=AuditLog(database),
        chat_log=ChatLog(database),
        invites=await Invites.read(database, web.page()) if web and web.token else None,
        links=links,
        uploads=Uploads(database),
        results=StoredFiles(database),
        hook_key=derived_key(key),
        attendance=StoredAttendance(database),
        received=ReceivedBytes(database, lambda: in_force.config.limits.files_per_hour_mb, clock),
        history=StoredHistory(database),
        usage=StoredUsage(database, name_in),
    )


def _links(database: Database, in_force: InForce, clock: Clock, key: bytes) -> Links:
    web = in_force.config.chats.web
    return Links(
        StoredFiles(database),
        LinkEnds(database),
        People(database),
        clock,
        key=key,
        page=web.page() if web and web.url else None,
        days=lambda: in_force.config.retention.days,
    )
