"""Sends a job's answer to its caller: streamed while it is written, or whole once it is complete.

Clients must not time out while a job waits. A stream sends comments with the place in the queue. A
call that does not stream delays its headers, so that its status can still change, and then sends
white space.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Protocol

from aiohttp import web
from pydantic import JsonValue

from bot.api.calls import sse
from bot.api.calls.bodies import body_of, json_response, take_turn
from bot.api.calls.callers import clients_patience_s, comes_again_s, headers_within_s, leaves
from bot.api.calls.errors import (
    ApiError,
    cancelled_before,
    cannot_start,
    gone,
    lost,
    problem_of,
    stopping,
    too_late,
)
from bot.api.runs.alarm import Alarm
from bot.api.runs.attendance import Attendance
from bot.api.runs.runs import LOOK_EVERY_S, Run, Runs
from bot.api.runs.views import job_view
from bot.core.queue import JobReader, JobSubmitter
from bot.http.files import DownloadSlots
from queueing.core.bounded_json import LARGE as LARGE_TEXT
from queueing.core.bounded_json import one_at_a_time, written
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Output

Render = Callable[[Output], JsonValue | bytes]
"""Builds a response body from a job's output. Bytes are already JSON."""


class Writer(Protocol):
    """Converts the progress of a run to the events of one kind of stream."""

    @property
    def begun(self) -> bool:
        """Whether part of the answer has been sent, so that it cannot start over."""

    def news(self, run: Run) -> bytes:
        """Return the events for progress since the last call; b"" if there is none."""

    def place(self, run: Run) -> bytes:
        """Return an event with the place in the queue."""

    def keeping(self) -> bytes:
        """Return an event that only keeps the client from timing out."""

    def closing(self, output: Output) -> bytes:
        """Return the end of a complete answer, including all parts not yet sent."""

    def failing(self, error: ApiError) -> bytes:
        """Return the end of a failed stream, which clients must not mistake for an answer."""


COMMENT_EVERY_S = 5.0
"""The shortest time between two comments while a call waits. Clients' timeouts are longer."""
CHUNK_EVERY_S = 100.0
"""LangChain's async streams give up after 120 s without a chunk, even if comments arrive."""
SPACE_EVERY_S = 15.0
LARGE = 500_000
"""Size of files and texts, in bytes, above which a thread builds the JSON."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLimits:
    """How long calls may take, in seconds; see `api.hold_s` and `api.wait_s`."""

    hold_s: float = 240.0
    wait_s: float = 1800.0


@dataclass(eq=False, repr=False)
class AnswerSender:
    """Sends the answers of jobs to their callers."""

    runs: Runs
    outputs: JobReader
    submitter: JobSubmitter
    patience: WaitLimits
    attendance: Attendance
    _turns: DownloadSlots = field(default_factory=DownloadSlots, init=False)
    _tasks: TaskGroup | None = field(default=None, init=False)

    async def run(self) -> None:
        """Run the tasks that outlive their callers, until cancelled."""
        async with TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    async def answer(
        self, request: web.Request, job: Job, writer: Writer | None, render: Render
    ) -> web.StreamResponse:
        """Stream an answer if there is a writer, or send it whole. Raises `ApiError`."""
        if writer is not None:
            return await self.stream(request, job, writer)
        return await self.whole(request, job, render)

    # ------------------------------------------------------------ as it is written

    async def stream(self, request: web.Request, job: Job, writer: Writer) -> web.StreamResponse:
        """Stream an answer as it is written. Raises `ApiError` before the headers are sent."""
        if leaves(request):
            return accepted(job)
        require_result(job)
        response = web.StreamResponse(headers={**sse.HEADERS, **headers_of(job)})
        async with self._while_listening(job):
            await response.prepare(request)
            with self.runs.watch(job) as (run, news), closing(Alarm(news)) as alarm:
                end = await self._follow(response, run, news, writer, alarm)
                if end is None:
                    end = await self._end(request, run, writer)
            await response.write_eof(end)
        return response

    async def _follow(
        self,
        response: web.StreamResponse,
        run: Run,
        news: asyncio.Event,
        writer: Writer,
        alarm: Alarm,
    ) -> bytes | None:
        """Send events until the job ends. Returns the end of a failed stream, otherwise None."""
        clock = asyncio.get_running_loop().time
        restarts, gaps = run.restarts, run.gaps
        commented_at, chunk_at = -COMMENT_EVERY_S, clock()
        placed = False  # the place becomes known shortly after the job is accepted
        while True:
            news.clear()
            now = clock()
            if writer.begun and run.gaps != gaps:
                return writer.failing(stopping(run.job))
            if writer.begun and run.restarts != restarts:
                return writer.failing(await self._broken(run.job))
            if data := writer.news(run):
                chunk_at = commented_at = now
                await response.write(data)
                await asyncio.sleep(0)  # let other tasks run
                continue
            if run.job.state.final:
                return None
            if run.left:
                return writer.failing(stopping(run.job))
            if run.stuck is not None:
                return await self._stuck(run, writer)
            new_place = run.waits and run.standing is not None and not placed
            if new_place or now - commented_at >= COMMENT_EVERY_S:
                commented_at, placed = now, placed or new_place
                await response.write(writer.place(run))
            if not writer.begun and now - chunk_at >= CHUNK_EVERY_S:
                chunk_at = now
                await response.write(writer.keeping())
            alarm.put(commented_at + COMMENT_EVERY_S)
            await news.wait()

    async def _broken(self, job: Job) -> ApiError:
        """Cancel the job of an answer that broke off after its first part. Returns the error."""
        if self.runs.stopping:
            return stopping(job)
        await self.submitter.cancel(job.id)
        return lost()

    async def _stuck(self, run: Run, writer: Writer) -> bytes | None:
        """Cancel a job that can never start.

        Returns the end of its stream, or None if it just ended.
        """
        try:
            await self._require_startable(run)
        except ApiError as error:
            return writer.failing(error)
        return None

    async def _end(self, request: web.Request, run: Run, writer: Writer) -> bytes:
        try:
            output = await self.output_of(run)
            await self.attendance.answer(request)
        except ApiError as error:
            return writer.failing(error)
        return await apart(output, lambda: writer.closing(output))

    # ------------------------------------------------------------ whole

    async def whole(self, request: web.Request, job: Job, render: Render) -> web.StreamResponse:
        """Send an answer once it is complete. Raises `ApiError` before the headers are sent."""

        async def in_time(run: Run) -> web.Response:
            return web.Response(
                body=body_of(await in_json(render, await self.output_of(run))),
                content_type="application/json",
                charset="utf-8",
                headers=headers_of(run.job),
            )

        late = partial(self._with_spaces, request, render)
        return await self.complete(request, job, in_time, late)

    async def complete(
        self,
        request: web.Request,
        job: Job,
        in_time: Callable[[Run], Awaitable[web.Response]],
        late: Callable[[Run, asyncio.Event, float], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Wait for a job's end; answer with `in_time`, or with `late` if the headers are due first.

        `late` gets the run, its event, and the deadline on the loop's clock. Raises `ApiError`
        before the headers are sent.
        """
        if leaves(request):
            return accepted(job)
        require_result(job)
        began = asyncio.get_running_loop().time()
        ends = began + self.patience.wait_s
        hold_s = min(self.patience.hold_s, headers_within_s(request))
        async with self.while_listening(request, job):
            with self.runs.watch(job) as (run, news):
                if await self.until_final(run, news, min(ends, began + hold_s)):
                    return await in_time(run)
                if run.left or asyncio.get_running_loop().time() >= ends:
                    raise unfinished(run)
                return await late(run, news, ends)

    async def _with_spaces(
        self, request: web.Request, render: Render, run: Run, news: asyncio.Event, ends: float
    ) -> web.StreamResponse:
        """Keep the connection alive with white space, then send the body.

        Once the headers are sent, only the body can report a failure. But OpenAI's SDKs accept any
        body of a 200 as an answer. For them, the connection is broken instead, so they retry and
        get the error as a status.
        """
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", **headers_of(run.job)}
        )
        await response.prepare(request)
        space_every_s = min(SPACE_EVERY_S, clients_patience_s(request) / 2)
        clock = asyncio.get_running_loop().time
        try:
            while not (run.job.state.final or run.left) and clock() < ends:
                await response.write(b" ")
                await self.until_final(run, news, min(ends, clock() + space_every_s))
            if not run.job.state.final:
                raise unfinished(run)
            body = await in_json(render, await self.output_of(run))
            await self.attendance.answer(request)
        except ApiError as error:
            if comes_again_s(request) and request.transport is not None:
                self.attendance.cut(request)
                request.transport.abort()
                return response
            body = _in_json(error.body)
        await response.write(body)
        await response.write_eof()
        return response

    async def until_final(self, run: Run, news: asyncio.Event, ends: float) -> bool:
        """Wait for the job's end, until a time of the loop's clock. Returns whether it ended.

        Cancels a job that can never start, and raises `ApiError`.
        """
        if await run.until_final(news, ends, or_stuck=True):
            return True
        await self._require_startable(run)
        return run.job.state.final

    async def _require_startable(self, run: Run) -> None:
        reason = run.stuck
        if reason is None or run.left:
            return
        job = await self.submitter.cancel(run.job.id)
        if job is None or job.state is JobState.CANCELLED:
            raise cannot_start(reason)
        run.change(job)

    async def output_of(self, run: Run) -> Output:
        """Return the output of a job that has ended. Raises `ApiError`.

        Waits if the person's calls hold too many unread results. During the wait, a large output is
        dropped from memory. Small outputs, such as a single vector, do not wait.
        """
        job = run.job
        if job.state is not JobState.COMPLETED:
            raise problem_of(job)
        output = run.take_output()
        if output is None or _is_large(output):
            output = output if self._turns.are_free(job.owner) else None
            await take_turn(self._turns, job)
        output = output or await self.outputs.output(job)
        if output is None:
            raise gone(job)
        return output

    # ------------------------------------------------------------ hanging up

    @asynccontextmanager
    async def while_listening(self, request: web.Request, job: Job) -> AsyncIterator[None]:
        """Cancel the job of a call that does not stream if the caller hangs up in the block."""
        async with self._while_listening(job, again_s=comes_again_s(request)):
            yield

    @asynccontextmanager
    async def _while_listening(self, job: Job, *, again_s: float = 0.0) -> AsyncIterator[None]:
        """Cancel the job if the caller hangs up and does not retry within `again_s` seconds."""
        try:
            yield
        except (asyncio.CancelledError, ConnectionResetError):
            if self._tasks is not None:
                self._tasks.create_task(self._hung_up(job, again_s))
            raise

    async def _hung_up(self, job: Job, again_s: float) -> None:
        await asyncio.sleep(again_s)
        while not self.runs.is_watched(job) and not self.attendance.is_attended(job):
            try:
                if not await self.attendance.give_up(job):
                    return
                await self.submitter.cancel(job.id)
            except StoreError as error:
                log.warning("job %d lost its caller but cannot be cancelled yet: %s", job.id, error)
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                return


def require_result(job: Job) -> None:
    """Reject a repeated call whose job ended without a result. Raises `ApiError`."""
    if job.state is JobState.CANCELLED:
        raise cancelled_before(job)
    if job.state is JobState.FAILED:
        raise problem_of(job)


def unfinished(run: Run) -> ApiError:
    """Return the error for a call that ends before its job."""
    if run.left:
        return stopping(run.job)
    standing = run.standing if run.waits else None
    return too_late(run.job, None if standing is None else standing.reason)


async def in_json(render: Render, output: Output) -> bytes:
    """Build a response body from an output."""
    return await apart(output, lambda: _in_json(render(output)))


async def apart(output: Output, make: Callable[[], bytes]) -> bytes:
    """Build a response body, in a thread if the output is large enough to delay other tasks."""
    if len(output.answer) > LARGE_TEXT:
        return await one_at_a_time(make)
    return await asyncio.to_thread(make) if _is_large(output) else make()


def _is_large(output: Output) -> bool:
    files = sum(len(file.data) for file in output.files)
    return files + len(output.text) + len(output.answer) > LARGE


def _in_json(body: JsonValue | bytes) -> bytes:
    return body if isinstance(body, bytes) else written(body).encode()


def headers_of(job: Job) -> dict[str, str]:
    """Return the headers that every answer has. SDKs show `x-request-id` in their errors.

    `x-usher-waited-s` is how long the job waited before it started.
    """
    headers = {"x-usher-job": str(job.id), "x-request-id": f"job-{job.id}"}
    if job.started_at is not None:
        headers["x-usher-waited-s"] = f"{max(0.0, job.started_at - job.queued_at):.1f}"
    return headers


def accepted(job: Job) -> web.Response:
    """Build the 202 response, with the job's path, for a caller who fetches the result later."""
    headers = {"Location": f"/v1/jobs/{job.id}", "Preference-Applied": "respond-async"}
    return json_response(
        job_view(job), status=HTTPStatus.ACCEPTED, headers={**headers_of(job), **headers}
    )
