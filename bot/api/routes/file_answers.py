"""Sends the result of a job as a file: a sound, or a transcript as text.

White space would be part of the file, so a call that waits long gets its headers and then nothing
until the file is there. A failure after that breaks the connection off, for a file that ends early
would pass as whole.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.bodies_sent import body_of
from bot.api.calls.errors import ApiError
from bot.api.runs.answers import Answering, accepted, headers_of, require_result, unfinished
from bot.api.runs.client_wishes import headers_within_s, leaves
from bot.api.runs.runs import Run
from queueing.core.jobs import Job
from queueing.core.requests import File, Output

MakeFile = Callable[[Output], Awaitable[File]]
"""Makes the file from the output of a job. Raises `ApiError`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileAnswers:
    """Sends files."""

    answering: Answering

    async def send(
        self, request: web.Request, job: Job, mime: str, make: MakeFile
    ) -> web.StreamResponse:
        """Send a file of that media type once it is complete.

        Raises `ApiError` while the status is unsent.
        """
        if leaves(request):
            return accepted(job)
        require_result(job)
        began = asyncio.get_running_loop().time()
        ends = began + self.answering.patience.wait_s
        hold_s = min(self.answering.patience.hold_s, headers_within_s(request))
        async with self.answering.while_listening(request, job):
            with self.answering.runs.watch(job) as (run, news):
                if await self.answering.until_final(run, news, min(ends, began + hold_s)):
                    file = await make(await self.answering.output_of(run))
                    return web.Response(
                        body=body_of(file.data),
                        headers={"Content-Type": file.mime, **headers_of(run.job)},
                    )
                if run.left or asyncio.get_running_loop().time() >= ends:
                    raise unfinished(run)
                return await self._late(request, (run, news), mime, make, ends)

    async def _late(
        self,
        request: web.Request,
        watched: tuple[Run, asyncio.Event],
        mime: str,
        make: MakeFile,
        ends: float,
    ) -> web.StreamResponse:
        """Send the headers, and the file when it is there."""
        run, news = watched
        response = web.StreamResponse(headers={"Content-Type": mime, **headers_of(run.job)})
        await response.prepare(request)
        try:
            if not await self.answering.until_final(run, news, ends):
                raise unfinished(run)
            file = await make(await self.answering.output_of(run))
            await self.answering.attendance.answer(request)
        except ApiError:
            self.answering.attendance.cut(request)
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write(file.data)
        await response.write_eof()
        return response
