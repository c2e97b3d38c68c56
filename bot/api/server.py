"""Assembles the routes of the HTTP API and serves them at one address."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from bot.api.application import Served, application, unmeasured
from bot.api.calls.callers import Authentication, Route
from bot.api.calls.fetcher import Fetcher
from bot.api.calls.request_files import RequestFiles, RequestImages
from bot.api.calls.uploads import Uploads
from bot.api.document import DESCRIPTION, DocumentRoute
from bot.api.jobs.new_jobs import NewJobs
from bot.api.jobs.webhook_calls import HookSettings
from bot.api.routes.audio import FileAnswers, SpeechRoute, TranscriptionRoutes
from bot.api.routes.chat import ChatRoute, CompletionRoute, ResponseRoute
from bot.api.routes.embeddings import EmbeddingRoute
from bot.api.routes.files import ROUTE, FileRoutes, OriginalFiles, keep_tidy
from bot.api.routes.images import ImageAnswers, ImageEditRoute, ImageRoute, no_variations
from bot.api.routes.jobs import JobRoutes
from bot.api.routes.models import ModelsRoute
from bot.api.runs.answers import AnswerSender, WaitLimits
from bot.api.runs.attendance import Attendance, StoredAttendance
from bot.api.runs.repeats import Repeats
from bot.api.runs.runs import Runs
from bot.api.runs.submitter import Submitter
from bot.core.live_settings import LiveSettings
from bot.core.queue import ResultFiles
from bot.core.service import QueueService
from bot.http.clients import Clients
from bot.http.connection_limits import ConnectionLimits
from bot.http.files import FileSender
from bot.http.listener import Listener, open_at, open_files
from bot.people.api_keys import ApiKeys
from bot.people.links import Links
from bot.people.people import CarriedRights, People
from bot.requests.admission import AdmissionService
from queueing.core.concurrency import TaskGroup
from queueing.core.ports import Clock

CALLS_MOST = 4000
KEPT_BACK = 640  # file descriptors reserved for the web page, chats, servers and the database
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of the API: its address, allowed callers and time limits.

    With `open`, no key is needed.
    """

    host: str = "127.0.0.1"
    port: int = 8081
    url: str | None = None
    open: bool = False
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    patience: WaitLimits = field(default_factory=WaitLimits)
    hooks: HookSettings = field(default_factory=HookSettings)


class ApiServer:
    """Serves the API. While it listens, `connected` is set and `port` is the actual port."""

    def __init__(
        self,
        settings: Settings,
        *,
        queue: QueueService,
        admission: AdmissionService,
        keys: ApiKeys,
        people: People,
        carried: CarriedRights,
        uploads: Uploads,
        results: ResultFiles,
        clock: Clock,
        links: Links,
        shared: StoredAttendance,
        live: LiveSettings,
        fetcher: Fetcher | None = None,
        served: Served = unmeasured,
    ) -> None:
        """Build the routes. Image URLs are only accepted with a `fetcher`.

        `shared` stores which jobs have lost their caller, for all processes that serve the API.
        """
        self.connected = asyncio.Event()
        self.port = settings.port
        self._settings = settings
        self._links = links
        self._uploads = uploads
        self._results = results
        self._sender = FileSender()
        self._clock = clock
        self._clients = Clients(settings.proxies)
        self._runs = Runs(admission.shown, queue.jobs, queue.events.reading)
        queue.events.subscribe(self._runs.on_event)
        self._attendance = Attendance(shared)
        self._answering = AnswerSender(
            self._runs, queue.jobs, queue.submitter, settings.patience, self._attendance
        )
        submitting = Submitter(
            admission=admission,
            clock=clock,
            repeats=Repeats(jobs=queue.jobs, clock=clock, attendance=self._attendance),
            live=live,
        )
        models = ModelsRoute(admission=admission, status=queue.status)
        images = RequestImages(clock=clock, fetcher=fetcher)
        routes = self._routes(queue, submitting, images, models)
        public = {
            "GET /v1/audio/models": models.audio,
            "GET /v1/audio/voices": models.voices,
            "GET /v1/health": models.health,
            ROUTE: OriginalFiles(links, self._clients, self._sender).get,
        }
        described = DocumentRoute([*routes, *public], url=settings.url, open_=settings.open)
        # Created for each run, because aiohttp cannot serve an application twice.
        self._application = partial(
            application,
            self._authentication(keys, people, carried, clock),
            routes,
            self._attendance,
            {DESCRIPTION: described.get, **public},
            settings.origins,
            served=served,
        )

    def _authentication(
        self, keys: ApiKeys, people: People, carried: CarriedRights, clock: Clock
    ) -> Authentication:
        settings = self._settings
        return Authentication(
            keys,
            people,
            carried,
            clock,
            open_=settings.open,
            names=settings.names,
            origins=settings.origins,
            clients=self._clients,
        )

    def _routes(
        self,
        queue: QueueService,
        submitting: Submitter,
        images: RequestImages,
        models: ModelsRoute,
    ) -> Mapping[str, Route]:
        answering, url = self._answering, self._settings.url
        chat = ChatRoute(submitting=submitting, answering=answering, images=images)
        embeddings = EmbeddingRoute(submitting=submitting, answering=answering, images=images)
        responses = ResponseRoute(submitting=submitting, answering=answering, images=images)
        completions = CompletionRoute(submitting=submitting, answering=answering)
        drawn = ImageAnswers(answering=answering, links=self._links, url=url)
        job_images = RequestFiles(jobs=queue.jobs, uploads=self._uploads, clock=self._clock)
        edits = ImageEditRoute(
            submitting=submitting, answers=drawn, images=images, job_images=job_images
        )
        raw = FileAnswers(answering=answering)
        speech = SpeechRoute(submitting=submitting, answering=answering, files=raw)
        transcripts = TranscriptionRoutes(
            submitting=submitting, answering=answering, files=raw, images=images
        )
        jobs = JobRoutes(
            jobs=queue.jobs,
            submitter=queue.submitter,
            status=submitting.admission.shown,
            runs=self._runs,
            results=self._results,
            sender=self._sender,
            new=NewJobs(
                submitting=submitting,
                images=images,
                job_images=job_images,
                hooks=self._settings.hooks,
            ),
        )
        files = FileRoutes(
            uploads=self._uploads, images=images, clock=self._clock, sender=self._sender
        )
        return {
            "POST /v1/chat/completions": chat,
            "POST /v1/embeddings": embeddings,
            **responses.routes,
            **completions.routes,
            "POST /v1/images/generations": ImageRoute(submitting=submitting, answers=drawn),
            "POST /v1/images/edits": edits,
            "POST /v1/images/variations": no_variations,
            "POST /v1/audio/speech": speech,
            **transcripts.routes,
            "GET /v1/models": models.all,
            "GET /v1/models/{name}": models.one,
            "POST /v1/jobs": jobs.submit,
            "GET /v1/jobs": jobs.listed,
            "GET /v1/jobs/{job}": jobs.one,
            "GET /v1/jobs/{job}/events": jobs.events,
            "DELETE /v1/jobs/{job}": jobs.cancel,
            "GET /v1/jobs/{job}/files/{number}": jobs.file,
            "POST /v1/files": files.new,
            "GET /v1/files": files.listed,
            "GET /v1/files/{file}": files.one,
            "GET /v1/files/{file}/content": files.content,
            "DELETE /v1/files/{file}": files.delete,
            "GET /v1/webhooks": jobs.webhooks,
            "GET /v1/queue": jobs.queues,
            "GET /v1/hosts": jobs.hosts,
        }

    async def run(self) -> None:
        """Serve until cancelled. Raises `CannotListen`."""
        listener = Listener(
            self._application(), clients=self._clients, limits=_limits(self._settings), cancels=True
        )
        self._runs.open()
        try:
            await self._listen(listener)
            async with TaskGroup() as tasks:
                tasks.create_task(self._runs.run())
                tasks.create_task(self._answering.run())
                tasks.create_task(self._attendance.run())
                tasks.create_task(keep_tidy(self._uploads, self._clock))
                self.connected.set()
        finally:
            self.connected.clear()
            self._runs.close()
            await listener.close()
            await self._attendance.close()

    async def _listen(self, listener: Listener) -> None:
        host = self._settings.host
        self.port = await open_at(listener, host, self._settings.port)
        log.info("the API is at http://%s:%d/v1", host, self.port)


def _limits(settings: Settings) -> ConnectionLimits:
    """Limit the open connections to the file descriptors that other parts do not need.

    One person may use all of them, because a program may open hundreds of connections at once.
    """
    overall = max(64, min(CALLS_MOST, open_files() - KEPT_BACK))
    strangers = overall if settings.open else max(1, overall // 2)
    return ConnectionLimits(overall=overall, strangers=strangers, person=overall)
