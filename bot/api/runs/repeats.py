"""Recognises repeated calls: by their `Idempotency-Key`, or as retries of an SDK.

SDKs retry broken calls without a key, but count the retries. A call whose `x-stainless-retry-count`
is above 0 takes over a job of the same person with the same request, if that job has lost its
caller. Ten equal calls at once are still ten jobs.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from uuid import uuid4

from aiohttp import web
from pydantic import BaseModel, ValidationError

from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, invalid
from bot.api.runs.attendance import Attendance
from bot.core.origin import Origin
from bot.core.queue import JobReader
from bot.people.api_keys import PLATFORM
from bot.requests.creation import Creation
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock
from queueing.core.requests import File

KEY_MOST = 255  # characters of an `Idempotency-Key`
RECENT_S = 300.0
"""How long an ended job can be taken over. SDKs retry within 8 s, or after `Retry-After`."""
UNSEEN_S = 2.0
"""How long a retry waits for the original call to end, whose end may be noticed later."""
LOOKED_THROUGH = 200  # of a person's newest jobs
COUNTED = "x-stainless-retry-count"


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Finds the job of an earlier call that a call repeats."""

    jobs: JobReader
    clock: Clock
    attendance: Attendance
    _arriving: dict[tuple[str, str], list[asyncio.Event]] = field(default_factory=dict)

    @contextmanager
    def arriving(self, caller: Caller, digest: str) -> Iterator[None]:
        """Register a call until its request is accepted and its job is known."""
        done = asyncio.Event()
        alike = self._arriving.setdefault((caller.user, digest), [])
        alike.append(done)
        try:
            yield
        finally:
            done.set()
            alike.remove(done)
            if not alike:
                self._arriving.pop((caller.user, digest), None)

    async def key(self, request: web.Request, caller: Caller, digest: str) -> str:
        """Return the idempotency key for a request: that of the job it repeats, or a new one.

        Raises `StoreError`, and `ApiError` if the `Idempotency-Key` is too long.
        """
        if given := _given(request.headers):
            if len(given) > KEY_MOST:
                name = "Idempotency-Key"
                raise invalid(f"{name}: must not be longer than {KEY_MOST} characters.", name)
            digest_of_key = hashlib.sha256(f"{caller.user} {given}".encode()).hexdigest()
            return f"{PLATFORM}:{digest_of_key}"
        retried = digest and _count(request.headers) > 0
        if retried and (found := await self._taken_over(request, caller, digest)):
            return found
        return f"{PLATFORM}:{uuid4().hex}"

    async def is_known(self, request: web.Request, caller: Caller, model: str) -> bool:
        """Return whether a call may repeat an accepted one, which must not be rejected."""
        if _given(request.headers):
            key = await self.key(request, caller, "")
            return await self.jobs.find(key) is not None
        if _count(request.headers) > 0:
            return any(job.model == model for job in await self._candidates(caller.user))
        return False

    async def _taken_over(self, request: web.Request, caller: Caller, digest: str) -> str | None:
        """Take over a job for a retry. Returns the job's key, or None if there is no such job."""
        for call in tuple(self._arriving.get((caller.user, digest), ())):
            await call.wait()  # it may be the original call, whose job is not known before
        same = [
            (job, origin.key)
            for job in await self._candidates(caller.user)
            if (origin := origin_of(job)) is not None and origin.digest == digest
        ]
        held = [(job, key) for job, key in same if self.attendance.is_attended(job)]
        if found := await self._first_free(request, same):
            return found
        # One of these calls may have hung up without being noticed yet.
        deserted = await self.attendance.deserted([job for job, _ in held], within_s=UNSEEN_S)
        if deserted and (found := await self._first_free(request, held)):
            return found
        return await self._first_free(request, same, in_doubt=True)

    async def _first_free(
        self, request: web.Request, jobs: Sequence[tuple[Job, str]], *, in_doubt: bool = False
    ) -> str | None:
        for job, key in jobs:
            if await self.attendance.take_over(request, job, in_doubt=in_doubt):
                return key
        return None

    def require_same(self, job: Job, digest: str) -> None:
        """Reject a key that belongs to a different request. Raises `ApiError` (422)."""
        origin = origin_of(job)
        if digest and origin and origin.digest and origin.digest != digest:
            raise _other_request()

    async def _candidates(self, user: str) -> list[Job]:
        """Return jobs that could be taken over, including embeddings. Open jobs come first."""
        still_open = await self.jobs.open_jobs(user)
        ended = await self.jobs.history(user, limit=LOOKED_THROUGH, made_for_jobs=True)
        since = self.clock.now() - RECENT_S
        known = {job.id for job in still_open}
        recent = [
            job
            for job in ended
            if job.id not in known
            and (job.state is JobState.COMPLETED or self.attendance.was_cut(job))
            and (job.finished_at or 0.0) >= since
        ]
        return [*still_open, *recent]


def digest_of(
    headers: Mapping[str, str],
    model: str | None,
    wanted: BaseModel | Creation,
    files: Sequence[File] = (),
) -> str:
    """Return a digest that identifies a request, or "" if its call cannot be repeated."""
    if not _given(headers) and COUNTED not in headers:
        return ""
    found = hashlib.sha256(f"{model} {_text_of(wanted)}".encode("utf-8", "surrogatepass"))
    for file in files:
        found.update(hashlib.sha256(file.data).digest())
    return found.hexdigest()


def _text_of(wanted: BaseModel | Creation) -> str:
    if isinstance(wanted, Creation):
        fields = asdict(replace(wanted, files=()))
        return str({name: value for name, value in fields.items() if value})
    return wanted.model_dump_json(exclude_defaults=True)


def origin_of(job: Job) -> Origin | None:
    """Return where a job came from, or None if that cannot be parsed."""
    try:
        return Origin.model_validate_json(job.reply_to)
    except ValidationError:
        return None


def _given(headers: Mapping[str, str]) -> str:
    return headers.get("Idempotency-Key", "").strip()


def _count(headers: Mapping[str, str]) -> int:
    text = headers.get(COUNTED, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _other_request() -> ApiError:
    return ApiError(
        status=HTTPStatus.UNPROCESSABLE_ENTITY,
        message="This Idempotency-Key belongs to an earlier call with a different request.",
        code="idempotency_key_reused",
    )
