"""The whole bot in virtual time: real queue, store, presenter and handler; fake neighbours."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.app.setup import MIGRATIONS
from bot.commands.call.context import Context
from bot.commands.call.pasted import Fetch
from bot.commands.dispatcher import Dispatcher
from bot.commands.registry import COMMANDS, work
from bot.config.chats import ChatsConfig
from bot.core.live_settings import LiveSettings
from bot.core.platform import ALONE, ChatHistory, ChatLease, ChatPlatform
from bot.core.service import QueueService
from bot.delivery.presenter import Presenter
from bot.delivery.records import MessageRecords
from bot.delivery.spoken_answers import SpokenAnswers
from bot.people.access import Access, PersonLimits
from bot.people.api_keys import ApiKeys
from bot.people.audit_log import AuditLog
from bot.people.names import IdForm, NameForms
from bot.people.people import CarriedRights, People
from bot.people.upload_quota import ReceivedBytes
from bot.requests.admission import AdmissionService
from bot.requests.enhancer import Enhancer
from bot.requests.limits import RequestLimits
from bot.requests.options import Style
from bot.requests.rules import Rule, RuleTable
from bot.requests.transcriber import Transcriber
from queueing.core.leases import LeaseReader
from queueing.core.ports import Clock
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.chat import FakeChat
from tests.simulation.installation import Installation

ADMIN = "fake:99"
PEOPLE = NameForms(person=IdForm(pattern=r"fake:[0-9]+", example="fake:1"))


@dataclass(frozen=True, kw_only=True)
class Bot:
    """The parts that a test may look at while the bot runs."""

    dispatcher: Dispatcher
    queue: JobQueue
    presenter: Presenter
    records: MessageRecords
    people: People
    carried: CarriedRights
    access: Access
    keys: ApiKeys
    clock: Clock
    chat: FakeChat
    installation: Installation
    rules: RuleTable


@asynccontextmanager
async def bot(
    installation: Installation,
    chat: FakeChat | None = None,
    *others: ChatPlatform,
    limits: PersonLimits | None = None,
    admins: Sequence[str] = (ADMIN,),
    chat_logs: Mapping[str, ChatHistory] | None = None,
    styles: Mapping[str, Style] | None = None,
    service: Callable[[JobQueue], QueueService] = lambda queue: queue,
    lease: ChatLease = ALONE,
    roles: LeaseReader | None = None,
    live: LiveSettings | None = None,
    rules: Sequence[Rule] = (),
    table: RuleTable | None = None,
    fetch: Fetch | None = None,
) -> AsyncIterator[Bot]:
    """Run the bot on an installation's servers and database until the block ends.

    It speaks to `chat`, by default a new one, and to the others; `chat_logs` are those of platforms
    whose messages Usher itself stores. The bot asks the queue through `service`.
    """
    chat = chat or FakeChat()
    clock, live = installation.clock, live or LiveSettings()
    database = await open_database(installation.url, migrations=(MIGRATIONS,), inline=True)
    records, people = MessageRecords(database), People(database)
    carried = CarriedRights(database)
    async with installation.queue(JobStore(database)) as queue:
        asked = service(queue)
        named = [name for rule in rules for name in rule.who]
        access = Access(admins, limits or PersonLimits(), named=named)
        table = table or RuleTable(rules)
        context = Context(
            queue=asked,
            admission=AdmissionService(
                submitter=asked.submitter,
                jobs=asked.jobs,
                models=asked.models,
                limits=RequestLimits(
                    submitter=asked.submitter,
                    jobs=asked.jobs,
                    models=asked.models,
                    status=asked.status,
                    access=access,
                    received=ReceivedBytes(database, live, clock),
                    clock=clock,
                    live=live,
                ),
                styles=styles or {},
                live=live,
                rules=table,
            ),
            records=records,
            people=people,
            audit=AuditLog(database),
            access=access,
            clock=clock,
            commands=COMMANDS,
            fetch=fetch,
            chat_logs=chat_logs or {},
            live=live,
            naming={**ChatsConfig.naming(), "fake": PEOPLE},
            roles=roles,
            carried=carried,
        )
        presenter = Presenter(
            queue=asked,
            status=context.admission.shown,
            records=records,
            platforms={each.name: each for each in (chat, *others)},
            clock=clock,
            work=partial(work, context),
            live=live,
            readings=SpokenAnswers(context.admission, people, asked.jobs),
            rules=table,
        )
        transcriber = Transcriber(
            submitter=asked.submitter,
            jobs=asked.jobs,
            deliveries=asked.deliveries,
            erasure=asked.erasure,
            admission=context.admission,
            people=people,
            chat_settings=live.chat_settings,
        )
        enhancer = Enhancer(
            submitter=asked.submitter,
            jobs=asked.jobs,
            deliveries=asked.deliveries,
            erasure=asked.erasure,
            admission=context.admission,
            clock=clock,
            chat_settings=live.chat_settings,
        )
        asked.events.subscribe(presenter.on_event)
        asked.events.subscribe(enhancer.on_event)
        asked.events.subscribe(transcriber.on_event)
        serving = [
            asyncio.ensure_future(presenter.run()),
            asyncio.ensure_future(enhancer.run()),
            asyncio.ensure_future(transcriber.run()),
        ]
        try:
            yield Bot(
                dispatcher=Dispatcher(context, presenter, lease=lease),
                queue=queue,
                presenter=presenter,
                records=records,
                people=people,
                carried=carried,
                access=access,
                keys=ApiKeys(database),
                clock=clock,
                chat=chat,
                installation=installation,
                rules=table,
            )
        finally:
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)
    await database.aclose()


@asynccontextmanager
async def played(
    installation: Installation, chat: FakeChat | None = None, **given: Any
) -> AsyncIterator[Bot]:
    """Run the bot as `bot` does, and at the end until everything the block began is shown."""
    async with bot(installation, chat, **given) as running:
        yield running
        await settled(running)
    assert not installation.violations


async def settled(running: Bot) -> FakeChat:
    """Return the chat once everything that was begun is shown."""
    await asyncio.sleep(6)
    return running.chat


async def quiet(running: Bot) -> None:
    """Wait until every job has ended and its end is shown, checking less and less often."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(200_000):
        while await running.queue.deliveries.unacknowledged():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(max(1.0, (loop.time() - began) / 100))
