"""`POST /v1/images/generations`: takes a prompt, returns pictures."""

from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.callers import Caller
from bot.api.openai.images import ImageGeneration
from bot.api.openai.records import read
from bot.api.routes.image_answers import ImageAnswers
from bot.api.runs.submitter import Submitting
from bot.requests.creation import Drawing


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRoute:
    """Serves image generations."""

    submitting: Submitting
    answers: ImageAnswers

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = await read(ImageGeneration, request)
        drawing = Drawing(
            prompt=asked.prompt,
            model=asked.model,
            style=self.submitting.style(asked.style),
            options=asked.options,
        )
        job = await self.submitting.draw(request, caller, drawing)
        return await self.answers.send(request, job, asked)
