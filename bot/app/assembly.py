"""Builds the bot's stores, and everything between people and the queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bot.api.application import unmeasured
from bot.api.calls.fetcher import Fetcher, NotFetched
from bot.api.calls.uploads import Uploads
from bot.api.jobs.webhook_calls import HookSettings, JobEndings
from bot.api.jobs.webhooks import derived_key
from bot.api.runs.answers import WaitLimits
from bot.api.runs.attendance import StoredAttendance
from bot.api.server import ApiServer, Settings
from bot.app.logs import TAIL
from bot.app.reloader import LiveConfig
from bot.commands.call.context import Context
from bot.commands.registry import COMMANDS, work
from bot.config.loader import Config
from bot.config.sections import ApiConfig
from bot.core.asker import Asker
from bot.core.errors import ChatUnavailable
from bot.core.origin import name_in
from bot.core.platform import ALONE, ChatLease, ChatPlatform
from bot.core.service import QueueService
from bot.delivery.presenter import Presenter
from bot.delivery.records import MessageRecords
from bot.delivery.result_renderer import OriginalHints
from bot.delivery.spoken_answers import SpokenAnswers
from bot.monitoring.dashboard import Dashboard, DashboardReader
from bot.monitoring.history import History, StoredUsage
from bot.monitoring.metrics import DeliveryCounts, Metrics
from bot.people import api_keys
from bot.people.access import Access
from bot.people.api_keys import ApiKeys
from bot.people.audit_log import AuditLog
from bot.people.invites import Invites
from bot.people.links import LinkEnds, Links, key_of
from bot.people.names import NameForms
from bot.people.people import CarriedRights, People
from bot.people.upload_quota import ReceivedBytes
from bot.platforms.registry import PlatformParts
from bot.platforms.web.chat.chat_log import ChatLog
from bot.platforms.web.chat.protocol import ModelQueue, overview
from bot.platforms.web.operator.dashboard import DashboardData
from bot.platforms.web.routes.choices import Choices
from bot.platforms.web.routes.gallery_store import GalleryStore
from bot.requests.admission import AdmissionService
from bot.requests.dictation import Dictation
from bot.requests.enhancer import Enhancer
from bot.requests.limits import Bounds, RequestLimits
from bot.requests.shown_status import ShownStatus
from bot.requests.transcriber import Transcriber
from queueing.core.leases import LeaseReader
from queueing.core.ports import Clock
from queueing.store.jobs.job_reader import StoredFiles
from queueing.store.sql.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class BotStores:
    """The bot's own tables in one database."""

    records: MessageRecords
    people: People
    keys: ApiKeys
    carried: CarriedRights
    audit: AuditLog
    chat_log: ChatLog
    gallery: GalleryStore
    invites: Invites | None
    links: Links
    uploads: Uploads
    results: StoredFiles
    hook_key: bytes
    attendance: StoredAttendance
    received: ReceivedBytes
    history: History
    usage: StoredUsage


async def read_records(database: Database, in_force: LiveConfig, clock: Clock) -> BotStores:
    """Open the stores and load those kept in memory. Raises `StoreError`."""
    records, web = MessageRecords(database), in_force.config.chats.web
    key = await key_of(records)
    links = _links(database, in_force, clock, key)
    return BotStores(
        records=records,
        people=People(database),
        keys=ApiKeys(database),
        carried=CarriedRights(database),
        audit=AuditLog(database),
        chat_log=ChatLog(database),
        gallery=GalleryStore(database),
        invites=await Invites.read(database, web.page()) if web and web.token else None,
        links=links,
        uploads=Uploads(database),
        results=StoredFiles(database),
        hook_key=derived_key(key),
        attendance=StoredAttendance(database),
        received=ReceivedBytes(database, in_force, clock),
        history=History(database),
        usage=StoredUsage(database, name_in),
    )


def _links(database: Database, in_force: LiveConfig, clock: Clock, key: bytes) -> Links:
    web = in_force.config.chats.web
    return Links(
        StoredFiles(database),
        LinkEnds(database),
        People(database),
        clock,
        key=key,
        page=web.page() if web and web.url else None,
        live=in_force,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedParts:
    """The objects from which the parts between people and the queue are built."""

    in_force: LiveConfig
    clock: Clock
    queue: QueueService
    stored: BotStores
    roles: LeaseReader | None = None
    instruments: Metrics | None = None
    fetcher: Fetcher | None = None

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.in_force.config

    @property
    def access(self) -> Access:
        """The permissions in force."""
        return self.in_force.access


def fittings(
    given: SharedParts, admission: AdmissionService, lease: ChatLease = ALONE
) -> PlatformParts:
    """Build what chat platforms need. Platforms only send and act while the `lease` is held."""
    stored, queue = given.stored, given.queue
    return PlatformParts(
        commands=COMMANDS,
        notes=stored.records,
        access=given.access,
        clock=given.clock,
        chat_log=stored.chat_log,
        overview=partial(_overview, admission.shown),
        web_people=stored.invites,
        originals=stored.links,
        results=stored.results,
        gallery=stored.gallery,
        catalog=lambda: queue.models.offer.catalog,
        rules=given.in_force.rules,
        operator=lambda: DashboardData(
            operator_records(given), queue.jobs, given.roles, TAIL.after
        ),
        choices=_choices(given),
        dictation=_dictation(given, admission),
        live=given.in_force,
        lease=lease,
        proxies=given.config.proxies,
    )


def _overview(shown: ShownStatus, asker: Asker | None) -> tuple[ModelQueue, ...]:
    """Return the rows that a person may see, or all rows."""
    report = shown.snapshot() if asker is None else shown.report(asker)
    return overview(report.models)


def _choices(given: SharedParts) -> Choices:
    return Choices(
        models=given.queue.models,
        status=given.queue.status,
        people=given.stored.people,
        live=given.in_force,
        styles=given.in_force.styles,
        clock=given.clock,
        rules=given.in_force.rules,
    )


def _dictation(given: SharedParts, admission: AdmissionService) -> Dictation:
    queue = given.queue
    dictation = Dictation(
        submitter=queue.submitter,
        jobs=queue.jobs,
        status=queue.status,
        admission=admission,
        people=given.stored.people,
        access=given.access,
    )
    queue.events.subscribe(dictation.on_event)
    return dictation


# ------------------------------------------------------------ requests


def admission(given: SharedParts) -> AdmissionService:
    """Build the service that admits all requests."""
    queue = given.queue
    return AdmissionService(
        submitter=queue.submitter,
        jobs=queue.jobs,
        models=queue.models,
        limits=_limits(given),
        styles=given.in_force.styles,
        live=given.in_force,
        rules=given.in_force.rules,
    )


def _limits(given: SharedParts) -> RequestLimits:
    queue = given.queue

    bounds = Bounds()
    queue.events.subscribe(lambda event: bounds.on_event(event, queue.models.offer.usual))
    return RequestLimits(
        bounds=bounds,
        submitter=queue.submitter,
        jobs=queue.jobs,
        models=queue.models,
        status=queue.status,
        access=given.access,
        received=given.stored.received,
        clock=given.clock,
        live=given.in_force,
    )


def enhancer(given: SharedParts, admission: AdmissionService) -> Enhancer:
    """Build the enhancer, which improves prompts with a text model."""
    queue = given.queue
    return Enhancer(
        submitter=queue.submitter,
        jobs=queue.jobs,
        deliveries=queue.deliveries,
        erasure=queue.erasure,
        admission=admission,
        clock=given.clock,
        chat_settings=given.in_force.chat_settings,
    )


def transcriber(given: SharedParts, admission: AdmissionService) -> Transcriber:
    """Build the transcriber of recordings."""
    queue = given.queue
    return Transcriber(
        submitter=queue.submitter,
        jobs=queue.jobs,
        deliveries=queue.deliveries,
        erasure=queue.erasure,
        admission=admission,
        people=given.stored.people,
        chat_settings=given.in_force.chat_settings,
    )


# ------------------------------------------------------------ chats


def context(given: SharedParts, admission: AdmissionService) -> Context:
    """Build the context of commands."""
    config, stored = given.config, given.stored
    return Context(
        queue=given.queue,
        admission=admission,
        records=stored.records,
        people=stored.people,
        audit=stored.audit,
        access=given.access,
        clock=given.clock,
        commands=COMMANDS,
        live=given.in_force,
        chat_logs={"web": stored.chat_log},
        invites=stored.invites,
        naming=_naming(given),
        links=stored.links,
        api_keys=stored.keys if config.api is not None else None,
        carried=stored.carried if config.api is not None else None,
        roles=given.roles,
        fetch=None if given.fetcher is None else partial(_fetched, given.fetcher),
    )


async def _fetched(fetcher: Fetcher, address: str, most: int) -> bytes:
    try:
        return await fetcher.get(address, most)
    except NotFetched as error:
        raise ChatUnavailable(str(error)) from error


def presenter(
    given: SharedParts, platforms: Sequence[ChatPlatform], commands: Context
) -> Presenter:
    """Build the presenter, which keeps messages up to date and delivers results."""
    config, stored = given.config, given.stored
    return Presenter(
        queue=given.queue,
        status=commands.admission.shown,
        records=stored.records,
        platforms={platform.name: platform for platform in platforms},
        clock=given.clock,
        work=partial(work, commands),
        live=given.in_force,
        originals=OriginalHints(stored.links, on_page=config.chats.web is not None),
        readings=SpokenAnswers(commands.admission, stored.people, given.queue.jobs),
        rules=given.in_force.rules,
        meter=None if given.instruments is None else DeliveryCounts(given.instruments),
    )


# ------------------------------------------------------------ operators


def operator_records(given: SharedParts) -> Dashboard:
    """Build the data of the operator's dashboard."""
    stored = given.stored
    return DashboardReader(
        status=given.queue.status,
        history=stored.history,
        usage=stored.usage,
        gpu=given.queue.jobs,
        people=stored.people,
        access=given.access,
        audit=stored.audit,
        clock=given.clock,
        naming=_naming(given),
    )


def _naming(given: SharedParts) -> Mapping[str, NameForms]:
    """Return each platform's way to name people, and that of programs."""
    return {**given.config.chats.naming(), **api_keys.NAMING}


# ------------------------------------------------------------ programs


def gateway(given: SharedParts, api: ApiConfig, admission: AdmissionService) -> ApiServer:
    """Build the HTTP API."""
    stored = given.stored
    return ApiServer(
        _settings(given, api),
        queue=given.queue,
        admission=admission,
        keys=stored.keys,
        people=stored.people,
        carried=stored.carried,
        uploads=stored.uploads,
        results=stored.results,
        clock=given.clock,
        links=stored.links,
        shared=stored.attendance,
        live=given.in_force,
        fetcher=given.fetcher,
        served=unmeasured if given.instruments is None else given.instruments.served,
    )


def endings(given: SharedParts, api: ApiConfig) -> JobEndings:
    """Build the part that calls webhooks and acknowledges the ended jobs of programs."""
    queue = given.queue
    return JobEndings(
        _hooks(given, api), deliveries=queue.deliveries, jobs=queue.jobs, clock=given.clock
    )


def _hooks(given: SharedParts, api: ApiConfig) -> HookSettings:
    return HookSettings(
        origins=api.webhooks, key=given.stored.hook_key, url=api.url, proxies=given.config.proxies
    )


def _settings(given: SharedParts, api: ApiConfig) -> Settings:
    return Settings(
        host=api.host,
        port=api.port,
        url=api.url,
        open=api.open,
        names=api.all_names(),
        origins=api.cors,
        proxies=api.proxies,
        patience=WaitLimits(hold_s=api.hold_s, wait_s=api.wait_s),
        hooks=_hooks(given, api),
    )
