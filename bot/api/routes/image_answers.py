"""Sends the pictures of a job in OpenAI's format: as base64, as addresses, or with previews."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from bot.api.openai.images import ImageEdit, ImageRequest, Pictures, PictureStream
from bot.api.runs.answers import Answering
from bot.api.runs.client_wishes import leaves
from bot.people.links import Links
from queueing.core.jobs import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageAnswers:
    """Sends pictures. `url` is the API's public address, if known.

    Without it, links begin with the address that the caller used.
    """

    answering: Answering
    links: Links
    url: str | None = None

    async def send(self, request: web.Request, job: Job, asked: ImageRequest) -> web.StreamResponse:
        """Send the pictures of a job as the call asked for them. Raises `ApiError`."""
        created = int(time.time())
        if asked.stream:
            writer = PictureStream(
                created=created,
                size=asked.size or "auto",
                previews=asked.partial_images or 0,
                form=asked.output_format,
                kind="image_edit" if isinstance(asked, ImageEdit) else "image_generation",
            )
            return await self.answering.stream(request, job, writer)
        if asked.response_format != "url" or leaves(request):
            drawn = Pictures(created=created, form=asked.output_format)
            return await self.answering.whole(request, job, drawn.whole)
        async with self.answering.while_listening(request, job):
            url = await self._urls(request, job)
        pictures = Pictures(created=created, url=url)
        return await self.answering.whole(request, job, pictures.whole)

    async def _urls(self, request: web.Request, job: Job) -> Callable[[int], str]:
        base = (self.url or f"{request.scheme}://{request.host}").rstrip("/")
        path = await self.links.paths(job)
        return lambda number: f"{base}/v1/{path(number)}"
