"""The routes of the native API. Another person's job is 404, like one that does not exist."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from pydantic import ValidationError

from bot.gateway import sse
from bot.gateway.bodies import json_body
from bot.gateway.callers import Caller
from bot.gateway.chat_completions import passed_on_chat
from bot.gateway.errors import ApiError, invalid
from bot.gateway.jobs import events
from bot.gateway.jobs.records import JOB_REQUESTS, JobList, JobView, PictureJob, View
from bot.gateway.jobs.views import job_view, machine_list, newest_first, queue_view
from bot.gateway.openai.chat import ChatCompletions
from bot.gateway.openai.records import wrong
from bot.gateway.pictures import picture_of
from bot.gateway.runs import Runs
from bot.gateway.submitting import Submitting
from bot.queue.jobs import JobReader
from bot.queue.status import QueueStatus
from bot.queue.submitting import JobSubmitter
from bot.requests.drawing import Drawing
from queueing.core.jobs import Job, JobState
from queueing.core.requests import File

WAIT_MOST_S = 300.0
LIST_MOST = 200
FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRoutes:
    """Serves jobs, queues and machines."""

    jobs: JobReader
    submitter: JobSubmitter
    status: QueueStatus
    submitting: Submitting
    runs: Runs

    async def submit(self, request: web.Request, caller: Caller) -> web.Response:
        """Accept a job: 202 with its number and place. Raises `ApiError`."""
        asked = read(await json_body(request))
        if isinstance(asked, PictureJob):
            pictures = enumerate(asked.pictures)
            files = tuple([await picture_of(each, f"pictures.{n}") for n, each in pictures])
            job = await self.submitting.draw(request, caller, _drawing(asked, files))
        else:
            chat, files = await passed_on_chat(asked)
            job = await self.submitting.submit(request, caller, asked.model, chat, files)
        location = {"Location": f"/v1/jobs/{job.id}"}
        return _json(await self._view(job), status=HTTPStatus.ACCEPTED, headers=location)

    async def one(self, request: web.Request, caller: Caller) -> web.Response:
        """Return a job; with `wait`, once it has ended or after that many seconds."""
        job = await self._own(request, caller)
        wait_s = _number(request, "wait", most=WAIT_MOST_S)
        if wait_s and not job.state.final:
            await self._until_final(job, wait_s)
            job = await self._own(request, caller)
        return _json(await self._view(job))

    async def events(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Send the events of a job as they happen. Hanging up does not cancel it."""
        job = await self._own(request, caller)
        response = web.StreamResponse(headers=sse.HEADERS)
        await response.prepare(request)
        with self.runs.watch(job) as (run, news):
            await events.send(response, run, news)
        await response.write(events.done(await self._view(run.job)))
        await response.write_eof()
        return response

    async def listed(self, request: web.Request, caller: Caller) -> web.Response:
        """Return the caller's jobs, newest first; with `state=open`, those that have not ended."""
        limit = int(_number(request, "limit", most=LIST_MOST) or 20)
        if request.query.get("state") == "open":
            jobs = newest_first(await self.jobs.open_jobs(caller.user))[:limit]
        else:
            before = int(_number(request, "before", most=2**62)) or None
            jobs = await self.jobs.history(caller.user, limit=limit, before=before)
        standings = await self.status.standings([job for job in jobs if not job.state.final])
        views = tuple(job_view(job, standing=standings.get(job.id)) for job in jobs)
        return _json(JobList(data=views))

    async def cancel(self, request: web.Request, caller: Caller) -> web.Response:
        """End a job, waiting or running, and return it. Idempotent."""
        job = await self._own(request, caller)
        ended = await self.submitter.cancel(job.id)
        return _json(await self._view(ended or job))

    async def file(self, request: web.Request, caller: Caller) -> web.Response:
        """Return a file of a result."""
        job = await self._own(request, caller)
        output = await self.jobs.output(job)
        number = request.match_info["number"]
        files = output.files if output is not None else ()
        if not number.isdecimal() or not 1 <= int(number) <= len(files):
            raise ApiError(
                status=HTTPStatus.NOT_FOUND, message=f"Job {job.id} has no file {number[:20]}."
            )
        file = files[int(number) - 1]
        name = file.name.replace('"', "").encode("ascii", "ignore").decode()
        headers = {**FILE_HEADERS, "Content-Disposition": f'inline; filename="{name}"'}
        return web.Response(body=file.data, content_type=file.mime, headers=headers)

    async def lines(self, _request: web.Request, _caller: Caller) -> web.Response:
        """Return all queues."""
        return _json(queue_view(self.status.snapshot()))

    async def hosts(self, _request: web.Request, _caller: Caller) -> web.Response:
        """Return all machines."""
        return _json(machine_list(self.status.snapshot()))

    async def _own(self, request: web.Request, caller: Caller) -> Job:
        number = request.match_info["job"]
        known = number.isdecimal() and len(number) < 19
        job = await self.jobs.get(int(number)) if known else None
        if job is None or job.owner != caller.user:
            raise ApiError(
                status=HTTPStatus.NOT_FOUND, message=f"You have no job {number[:20]}.", param="job"
            )
        return job

    async def _view(self, job: Job) -> JobView:
        if job.state.final:
            done = job.state is JobState.COMPLETED
            output = await self.jobs.output(job) if done else None
            return job_view(job, output=output)
        standings = await self.status.standings([job])
        with self.runs.watch(job) as (run, _):
            return job_view(job, standing=standings.get(job.id), progress=run.fraction)

    async def _until_final(self, job: Job, within_s: float) -> None:
        ends = asyncio.get_running_loop().time() + within_s
        with self.runs.watch(job) as (run, news):
            await run.until_final(news, ends)


def read(body: bytes) -> ChatCompletions | PictureJob:
    """Return a request for a job. Raises `ApiError`."""
    try:
        return JOB_REQUESTS.validate_json(body)
    except ValidationError as error:
        raise wrong(error) from None


def _drawing(asked: PictureJob, files: tuple[File, ...]) -> Drawing:
    return Drawing(
        prompt=asked.prompt,
        model=asked.model,
        style=asked.style,
        options=asked.options,
        files=files,
        raw=asked.raw,
    )


def _number(request: web.Request, name: str, *, most: float) -> float:
    """Return a number from the query, 0 if it is missing. Raises `ApiError`."""
    text = request.query.get(name, "0")
    try:
        number = float(text)
    except ValueError:
        raise invalid(f"{name}: must be a number.", name) from None
    if not 0 <= number <= most:
        raise invalid(f"{name}: must be from 0 to {most:g}.", name)
    return number


def _json(
    view: View, *, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        text=view.model_dump_json(), content_type="application/json", status=status, headers=headers
    )
