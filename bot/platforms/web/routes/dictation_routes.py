"""The routes by which the page has a recording transcribed: send it, wait for its text, cancel it."""

import re

from aiohttp import web

from bot.core.refusals import Refusal
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.routes.assets import browsers_language, require_own_page
from bot.platforms.web.routes.files import UPLOAD_S, read_body
from bot.platforms.web.routes.sessions import Sessions
from bot.requests.dictation import Dictated, Dictation, Speaker
from bot.texts.catalogue import language_of, plain
from bot.texts.refusals import sentence, told
from queueing.core.concurrency import timeout
from queueing.core.errors import Problem, ProblemKind, StoreError, problem
from queueing.core.jobs import JobState
from queueing.core.ports import Clock
from queueing.core.requests import Record

WAIT_S = 20.0  # for one request; proxies end those that take much longer
_KEY = re.compile(r"[0-9a-zA-Z-]{16,64}")


class DictationRow(Record):
    """A recording's state: its `text` when it is done, or `why` there is none.

    While it waits, `wait_s` is the time until it is probably done.
    """

    done: bool
    text: str = ""
    why: str = ""
    wait_s: int | None = None


class DictationRoutes:
    """The routes of recordings. A person sends one at a time."""

    def __init__(self, who: Sessions, calls: Calls, dictation: Dictation, clock: Clock) -> None:
        self._who = who
        self._calls = calls
        self._dictation = dictation
        self._clock = clock
        self._sending: set[str] = set()

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""
        router.add_post(f"{path}/dictation/{{key}}", self._send)
        router.add_get(f"{path}/dictation/{{key}}", self._wait)
        router.add_delete(f"{path}/dictation/{{key}}", self._cancel)

    async def _send(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._who.require(request)
        key = request.match_info["key"]
        if _KEY.fullmatch(key) is None:
            raise web.HTTPBadRequest
        if not self._calls.allowed(person) or person.id in self._sending:
            raise web.HTTPTooManyRequests
        self._sending.add(person.id)
        try:
            async with timeout(UPLOAD_S):
                data = await read_body(request)
            speaker = await self._speaker(request, person)
            outcome = await self._dictation.submit(speaker, key, data)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except StoreError:
            raise web.HTTPServiceUnavailable from None
        finally:
            self._sending.discard(person.id)
        if isinstance(outcome, Refusal):
            why = plain(sentence(outcome, speaker.language, "transcribe"))
            return _answer(DictationRow(done=True, why=why))
        return await self._state(request, person, within_s=0)

    async def _wait(self, request: web.Request) -> web.Response:
        return await self._state(request, self._who.require(request), within_s=WAIT_S)

    async def _state(
        self, request: web.Request, person: WebPerson, *, within_s: float
    ) -> web.Response:
        user, key = self._calls.user(person), request.match_info["key"]
        try:
            found = await self._dictation.find(user, key, within_s=within_s)
        except StoreError:
            raise web.HTTPServiceUnavailable from None
        if found is None:
            raise web.HTTPNotFound
        return _answer(self._row(found, await self._language(request, person)))

    async def _cancel(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._who.require(request)
        try:
            await self._dictation.cancel(self._calls.user(person), request.match_info["key"])
        except StoreError:
            raise web.HTTPServiceUnavailable from None
        return web.Response(status=204)

    def _row(self, found: Dictated, language: str) -> DictationRow:
        job = found.job
        if not job.state.final:
            wait_s = found.ends_at and max(0, round(found.ends_at - self._clock.now()))
            return DictationRow(done=False, wait_s=wait_s)
        if found.text:
            return DictationRow(done=True, text=found.text)
        if job.state is JobState.FAILED and job.error:
            why = Problem.read(job.error)
        else:
            silent = found.text is not None
            why = problem(ProblemKind.NOTHING_SAID if silent else ProblemKind.STOPPED)
        return DictationRow(done=True, why=told(why, language))

    async def _speaker(self, request: web.Request, person: WebPerson) -> Speaker:
        return Speaker(
            platform=self._calls.platform,
            chat=person.id,
            user=self._calls.user(person),
            name=person.name,
            language=await self._language(request, person),
        )

    async def _language(self, request: web.Request, person: WebPerson) -> str:
        return language_of(await self._calls.language_of(person) or browsers_language(request))


def _answer(row: DictationRow) -> web.Response:
    return web.json_response(text=row.model_dump_json())
