"""Routes of the native API. Another person's job gets a 404, like a job that does not exist."""

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from bot.api.calls import sse
from bot.api.calls.bodies import json_response
from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, invalid
from bot.api.jobs import events
from bot.api.jobs.new_jobs import NewJobs
from bot.api.jobs.webhooks import HookSecret, secret_of
from bot.api.routes.files import send_file
from bot.api.runs.runs import Runs
from bot.api.runs.views import JobList, JobView, host_list, job_view, newest_first, queue_view
from bot.core.queue import JobReader, JobSubmitter, ResultFiles
from bot.http.files import FileSender, Sendable
from bot.requests.shown_status import ShownStatus
from queueing.core.bounded_json import LARGE, one_at_a_time
from queueing.core.jobs import FINAL, Job, JobState

_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)


def seconds(request: web.Request, name: str, *, most: float) -> float:
    """Parse a number of seconds in the query; 0 if it is missing. Raises `ApiError`."""
    text = request.query.get(name, "0")
    if not _NUMBER.fullmatch(text) or float(text) > most:
        raise invalid(f"{name}: must be a number from 0 to {most:g}.", name)
    return float(text)


def whole(request: web.Request, name: str, *, most: int) -> int | None:
    """Parse a whole number of at least 1 in the query; None if it is missing. Raises `ApiError`."""
    text = request.query.get(name)
    if text is None:
        return None
    if (number := whole_number(text)) is None or not 1 <= number <= most:
        raise invalid(f"{name}: must be an integer from 1 to {most}.", name)
    return number


def whole_number(text: str) -> int | None:
    """Parse a number that consists of digits, or return None."""
    return int(text) if _WHOLE.fullmatch(text) else None


ID_MOST = 10**18 - 1


LIST_MOST = 200


WAIT_MOST_S = 300


LIST_USUAL = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRoutes:
    """Serves jobs, queues and hosts."""

    jobs: JobReader
    submitter: JobSubmitter
    status: ShownStatus
    runs: Runs
    new: NewJobs
    results: ResultFiles
    sender: FileSender

    async def submit(self, request: web.Request, caller: Caller) -> web.Response:
        """Accept a job. Responds 202 with its number and place. Raises `ApiError`."""
        job = await self.new.accept(request, caller)
        location = {"Location": f"/v1/jobs/{job.id}"}
        return json_response(await self._view(job), status=HTTPStatus.ACCEPTED, headers=location)

    async def one(self, request: web.Request, caller: Caller) -> web.Response:
        """Return a job. With `wait`, responds when it ends, or after that many seconds."""
        job = await self._own(request, caller)
        wait_s = seconds(request, "wait", most=WAIT_MOST_S)
        if wait_s and not job.state.final:
            await self._until_final(job, wait_s)
            job = await self._own(request, caller)
        return json_response(await self._view(job))

    async def events(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Stream a job's events. Hanging up does not cancel the job."""
        job = await self._own(request, caller)
        last_id = request.headers.get("Last-Event-ID", "")
        if last_id == events.END and job.state.final:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        response = web.StreamResponse(headers=sse.HEADERS)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        with self.runs.watch(job) as (run, news):
            ended = await events.send(response, run, news, last_id)
        if ended:
            await response.write(events.done(await self._view(run.job)))
        await response.write_eof()
        return response

    async def listed(self, request: web.Request, caller: Caller) -> web.Response:
        """Return the caller's jobs, newest first, optionally only those in a `state`."""
        limit = whole(request, "limit", most=LIST_MOST) or LIST_USUAL
        before = whole(request, "before", most=ID_MOST)
        jobs = await self._listed(caller.user, _states(request), limit, before)
        standings = await self.status.standings([job for job in jobs if not job.state.final])
        views = tuple(job_view(job, standing=standings.get(job.id)) for job in jobs)
        return json_response(JobList(data=views))

    async def _listed(
        self, owner: str, states: frozenset[JobState], limit: int, before: int | None
    ) -> list[Job]:
        if not states & FINAL:
            older = (
                job for job in await self.jobs.open_jobs(owner) if job.id < (before or ID_MOST)
            )
            found = [job for job in older if job.state in states and job.parent is None]
            return newest_first(found)[:limit]
        asked = tuple(states) if states != frozenset(JobState) else ()
        return await self.jobs.history(owner, limit=limit, before=before, states=asked)

    async def cancel(self, request: web.Request, caller: Caller) -> web.Response:
        """Cancel a waiting or running job and return it. Idempotent."""
        job = await self._own(request, caller)
        ended = await self.submitter.cancel(job.id)
        return json_response(await self._view(ended or job))

    async def file(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Return a file of a job's result."""
        job = await self._own(request, caller)
        named = request.match_info["number"]
        number = whole_number(named) or 0
        head = await self.results.head(job.id, number)
        if head is None:
            raise ApiError(
                status=HTTPStatus.NOT_FOUND, message=f"Job {job.id} has no file {named[:20]}."
            )
        file = Sendable(
            name=head.name,
            mime=head.mime,
            size=head.size,
            tag=f"{job.id}-{number}",
            piece=partial(self.results.piece, job.id, number),
        )
        return await send_file(self.sender, request, caller, file)

    async def queues(self, _request: web.Request, caller: Caller) -> web.Response:
        """Return the queues of the models that the caller may use."""
        self.new.submitting.require_welcome(caller)
        return json_response(queue_view(self.status.report(caller.asker)))

    async def hosts(self, _request: web.Request, caller: Caller) -> web.Response:
        """Return all hosts."""
        self.new.submitting.require_welcome(caller)
        return json_response(host_list(self.status.snapshot()))

    async def webhooks(self, _request: web.Request, caller: Caller) -> web.Response:
        """Return the allowed webhook origins, and the secret that signs calls for this key."""
        self.new.submitting.require_welcome(caller)
        secret = secret_of(self.new.hooks.key, caller.key_number)
        view = HookSecret(origins=tuple(self.new.hooks.origins), secret=secret)
        return json_response(view, headers={"Cache-Control": "no-store"})

    async def _own(self, request: web.Request, caller: Caller) -> Job:
        number = request.match_info["job"]
        known = whole_number(number)
        job = None if known is None else await self.jobs.get(known)
        if job is None or job.owner != caller.user:
            raise ApiError(
                status=HTTPStatus.NOT_FOUND, message=f"You have no job {number[:20]}.", param="job"
            )
        return job

    async def _view(self, job: Job) -> JobView:
        if job.state.final:
            done = job.state is JobState.COMPLETED
            result = await self.results.result(job.id) if done else None
            if result is not None and len(result.answer) > LARGE:
                return await one_at_a_time(lambda: job_view(job, result=result))
            return job_view(job, result=result)
        standings = await self.status.standings([job])
        with self.runs.watch(job) as (run, _):
            return job_view(job, standing=standings.get(job.id), progress=run.fraction)

    async def _until_final(self, job: Job, within_s: float) -> None:
        ends = asyncio.get_running_loop().time() + within_s
        with self.runs.watch(job) as (run, news):
            await run.until_final(news, ends)


def _states(request: web.Request) -> frozenset[JobState]:
    """Parse the requested states. Raises `ApiError`."""
    named = request.query.get("state")
    if named is None:
        return frozenset(JobState)
    if named == "open":
        return frozenset(JobState) - FINAL
    if named not in frozenset(JobState):
        known = ", ".join(["open", *JobState])
        raise invalid(f"state: must be one of {known}.", "state")
    return frozenset({JobState(named)})
