"""`POST /v1/images/generations`: takes a prompt, returns pictures."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from bot.gateway.answering import Answering
from bot.gateway.bodies import json_body
from bot.gateway.callers import Caller
from bot.gateway.openai.images import ImageGeneration, Pictures, PictureStream
from bot.gateway.openai.records import read
from bot.gateway.submitting import Submitting
from bot.requests.drawing import Drawing
from queueing.core.jobs import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRoute:
    """Serves image generations. `url` is the API's public address, if known."""

    submitting: Submitting
    answering: Answering
    url: str | None = None

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = read(ImageGeneration, await json_body(request))
        drawing = Drawing(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
        )
        job = await self.submitting.draw(request, caller, drawing)
        created = int(time.time())
        if asked.stream:
            writer = PictureStream(
                created=created, size=asked.size or "auto", previews=asked.partial_images or 0
            )
            return await self.answering.stream(request, job, writer)
        url = self._urls(request, job) if asked.response_format == "url" else None
        pictures = Pictures(created=created, url=url)
        return await self.answering.whole(request, job, pictures.whole)

    def _urls(self, request: web.Request, job: Job) -> Callable[[int], str]:
        base = self.url or f"{request.scheme}://{request.host}"
        return lambda number: f"{base}/v1/jobs/{job.id}/files/{number}"
