"""Submits programs' requests as jobs: idempotency, limits, and refusals as API errors."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.bodies import release
from bot.api.calls.callers import Caller
from bot.api.calls.errors import refused
from bot.api.runs.attendance import seen_through
from bot.api.runs.repeats import Repeats, digest_of
from bot.api.runs.runs import without_words
from bot.core.live_settings import LiveSettings
from bot.core.origin import Origin, Webhook
from bot.core.refusals import Declined, Refusal, refusal_of
from bot.people.api_keys import PLATFORM
from bot.requests.admission import AdmissionService
from bot.requests.creation import Creation
from bot.requests.limits import SubmissionDetails, ban_of
from queueing.core.errors import NotCapable, Refused, UnknownModel
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.requests import Capability, File, Request

FindFile = Callable[[str, str], Awaitable[File]]
"""Loads and checks the file that a request refers to. The second argument is the field's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTime:
    """When a job may run. With `later`, it runs when nothing else waits.

    `due_at` is when it should be done.
    """

    later: bool = False
    due_at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitter:
    """Submits requests for callers.

    Rejects requests with words that the operator does not allow.
    """

    admission: AdmissionService
    clock: Clock
    repeats: Repeats
    live: LiveSettings

    async def submit(
        self,
        request: web.Request,
        caller: Caller,
        model: str,
        wanted: Request,
        files: tuple[File, ...] = (),
        *,
        hook: Webhook | None = None,
        when: JobTime | None = None,
    ) -> Job:
        """Submit a request and return its job. Raises `ApiError` and `StoreError`.

        A repeated call gets the job of the original call. The returned job lacks the text that only
        its server reads; release the rest of the request too before waiting. `hook` is called when
        the job ends. If the caller hangs up, the cancellation is delayed until the job is known.
        """
        digest = await _digest(request, model, wanted, files)
        asking = await self._asking(request, caller, digest, hook, when)
        with self.repeats.arriving(caller, digest):
            admission = self._of(caller)
            made = await seen_through(admission.submit(asking, model, wanted, files))
            return await self._accepted(request, made, digest)

    async def draw(
        self,
        request: web.Request,
        caller: Caller,
        drawing: Creation,
        *,
        hook: Webhook | None = None,
        when: JobTime | None = None,
    ) -> Job:
        """Submit a request for an image. Raises the same errors as `submit`."""
        digest = await _digest(request, drawing.model, drawing, drawing.files)
        drawing, unused = self._understood(caller, drawing)
        asking = await self._asking(request, caller, digest, hook, when, unused=unused)
        with self.repeats.arriving(caller, digest):
            made = await seen_through(self._of(caller).draw(asking, drawing))
            return await self._accepted(request, made, digest)

    def _of(self, caller: Caller) -> AdmissionService:
        return self.admission.of(caller.asker)

    def _understood(self, caller: Caller, drawing: Creation) -> tuple[Creation, tuple[str, ...]]:
        """Return a request with its prompt's parameters applied, and those that have no effect.

        A prompt that is refused stays as it is, because a repeated call must not fail here.
        """
        try:
            return self._of(caller).understood(caller.person, drawing)
        except (Declined, Refused):
            return drawing, ()

    async def require(
        self,
        request: web.Request,
        caller: Caller,
        model: str | None,
        needs: Capability,
        *others: Capability,
    ) -> None:
        """Reject a model without any of these capabilities, before work on the request begins.

        Raises `ApiError`. `submit` performs the same check. Both allow repeats of an accepted call.
        """
        if model is None:
            return
        admission = self._of(caller)
        spec = admission.catalog.find(model)
        if spec is not None and spec.capabilities & set(others):
            return
        try:
            admission.require(model, needs)
        except (UnknownModel, NotCapable) as error:
            refusal = refusal_of(error, tuple(admission.catalog.models))
        except Declined as declined:
            refusal = declined.refusal
        else:
            return
        if not await self.repeats.is_known(request, caller, model):
            raise refused(refusal, self.clock.now())

    def require_welcome(self, caller: Caller) -> None:
        """Reject a banned person, who may only read, cancel and delete their own data."""
        now = self.clock.now()
        if (ban := ban_of(caller.person, now)) is not None:
            raise refused(ban, now)

    def usual_model(self, caller: Caller, needs: Capability) -> str:
        """Return the default model for a capability. Raises `ApiError` if there is none."""
        try:
            return self._of(caller).usual_model(caller.person, needs)
        except Declined as declined:
            raise refused(declined.refusal, self.clock.now()) from None

    def finding(
        self,
        request: web.Request,
        caller: Caller,
        model: str | None,
        needs: Sequence[Capability],
        find: FindFile,
    ) -> FindFile:
        """Wrap `find` so that it first checks that the model has one of the needed capabilities."""

        async def found(text: str, param: str) -> File:
            await self.require(request, caller, model, *needs)
            return await find(text, param)

        return found

    def style(self, named: str | None) -> str | None:
        """Return the style if it exists, otherwise None.

        OpenAI's clients also send OpenAI's own styles, such as "vivid".
        """
        styles = {name.casefold() for name in self.admission.styles}
        return named if named is not None and named.casefold() in styles else None

    async def _accepted(self, request: web.Request, made: Job | Refusal, digest: str) -> Job:
        if not isinstance(made, Job):
            raise refused(made, self.clock.now())
        release(request)
        self.repeats.require_same(made, digest)
        await self.repeats.attendance.attend(request, made)
        return without_words(made)

    async def _asking(
        self,
        request: web.Request,
        caller: Caller,
        digest: str,
        hook: Webhook | None,
        when: JobTime | None,
        *,
        unused: tuple[str, ...] = (),
    ) -> SubmissionDetails:
        when = when or JobTime()
        key = await self.repeats.key(request, caller, digest)
        origin = Origin(
            platform=PLATFORM,
            chat=PLATFORM,
            within=() if caller.key is None else (caller.key.room.removeprefix(f"{PLATFORM}:"),),
            group=False,
            user=caller.user,
            user_name=caller.name,
            language="en",
            key=key,
            digest=digest,
            accepted_by=self.repeats.attendance.run_name,
            hook=hook,
            unused=unused,
            rights=tuple(sorted(caller.asker.rights)),
        ).model_dump_json()
        return SubmissionDetails(
            person=caller.person,
            rights=caller.asker.rights,
            key=key,
            unwanted=self.live.chat_settings.of("", ()).words,
            reply_to=origin,
            way="api",
            later=when.later,
            due_at=when.due_at,
        )


async def _digest(
    request: web.Request, model: str | None, wanted: Request | Creation, files: Sequence[File]
) -> str:
    """Return a request's digest. Files are hashed in a thread, because that takes a while."""
    if not files:
        return digest_of(request.headers, model, wanted, files)
    return await asyncio.to_thread(digest_of, request.headers, model, wanted, files)
