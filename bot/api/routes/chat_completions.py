"""`POST /v1/chat/completions`: takes a conversation, returns an answer."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.callers import Caller
from bot.api.calls.request_files import RequestPictures
from bot.api.openai.chat import ChatCompletions, passed_on_chat
from bot.api.openai.chat_stream import ChatStream, Heading, PlaceForm
from bot.api.openai.records import read
from bot.api.openai.unserved import LEFT_OUT
from bot.api.runs.answers import Answering
from bot.api.runs.submitter import Submitting
from queueing.core.jobs import Job
from queueing.core.requests import Capability

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRoute:
    """Serves chat completions."""

    submitting: Submitting
    answering: Answering
    pictures: RequestPictures

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.pictures.of(caller)
        asked = await read(ChatCompletions, request)
        find = self.submitting.finding(
            request, caller, asked.model, [Capability.VISION], taken.named
        )
        chat, files = await passed_on_chat(asked, find)
        job = await self.submitting.submit(request, caller, asked.model, chat, files)
        log_left_out(job, asked.left_out)
        heading = Heading(
            id=f"chatcmpl-{job.id}",
            model=asked.model,
            created=int(time.time()),
            metadata=asked.left_out,
        )
        streams, usage = asked.streams, asked.wants_usage
        form = place_form(caller, asked=bool(asked.usher_progress))
        del asked, chat, files, find, taken  # large, and stored: the caller may wait for minutes
        if streams:
            writer = ChatStream(heading=heading, usage=usage, form=form)
            return await self.answering.stream(request, job, writer)
        return await self.answering.whole(request, job, heading.whole)


def log_left_out(job: Job, metadata: Mapping[str, str]) -> None:
    """Log which kinds of tools a request offered that no server here has."""
    if kinds := metadata.get(LEFT_OUT):
        log.info("job %d: left out tools that are no functions: %s", job.id, kinds)


def place_form(caller: Caller, *, asked: bool) -> PlaceForm:
    """Return how a stream reports the place in line; `asked` means as data of its own."""
    if caller.key is not None and caller.key.style == PlaceForm.OPEN_WEBUI:
        return PlaceForm.OPEN_WEBUI
    return PlaceForm.DATA if asked else PlaceForm.COMMENT
