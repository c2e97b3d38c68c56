"""`POST /v1/completions`: takes a prompt, returns what follows, or what belongs into a gap.

Mistral's form of it is `POST /v1/fim/completions`, which Continue uses: the same request, answered
like a chat completion.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.callers import Caller, Route
from bot.api.openai.chat import QUESTION_SHOWN
from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.openai.completion_chunks import CompletionHeading, CompletionStream
from bot.api.openai.completions import Completions
from bot.api.openai.records import read
from bot.api.routes.chat_completions import place_form
from bot.api.runs.answers import Answering
from bot.api.runs.submitter import Submitting
from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage, PassedOn


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionRoute:
    """Serves completions."""

    submitting: Submitting
    answering: Answering

    @property
    def routes(self) -> Mapping[str, Route]:
        """The paths of completions."""
        return {"POST /v1/completions": self, "POST /v1/fim/completions": self.between}

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = await read(Completions, request)
        job = await self._submit(request, caller, asked)
        heading = CompletionHeading(
            id=f"cmpl-{job.id}", model=asked.model, created=int(time.time()), echoed=asked.echoed
        )
        streams, usage = asked.streams, asked.wants_usage
        form = place_form(caller, asked=bool(asked.usher_progress))
        del asked  # large, and stored: the caller may wait for minutes
        if streams:
            writer = CompletionStream(heading=heading, usage=usage, form=form)
            return await self.answering.stream(request, job, writer)
        return await self.answering.whole(request, job, heading.whole)

    async def between(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Fill a gap and answer like a chat completion. Raises `ApiError`."""
        asked = await read(Completions, request)
        job = await self._submit(request, caller, asked)
        heading = Heading(id=f"fim-{job.id}", model=asked.model, created=int(time.time()))
        streams, usage = asked.streams, asked.wants_usage
        form = place_form(caller, asked=bool(asked.usher_progress))
        del asked  # large, and stored: the caller may wait for minutes
        if streams:
            writer = ChatStream(heading=heading, usage=usage, form=form)
            return await self.answering.stream(request, job, writer)
        return await self.answering.whole(request, job, heading.whole)

    async def _submit(self, request: web.Request, caller: Caller, asked: Completions) -> Job:
        return await self.submitting.submit(request, caller, asked.model, _chat(asked))


def _chat(asked: Completions) -> Chat:
    """Return the request of the queue."""
    return Chat(
        messages=(ChatMessage(role="user", text=asked.question[:QUESTION_SHOWN]),),
        temperature=asked.temperature,
        max_tokens=asked.max_tokens or None,
        passed_on=PassedOn(body=asked.body(), text=True),
    )
