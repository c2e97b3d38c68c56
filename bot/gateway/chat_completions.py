"""`POST /v1/chat/completions`: takes a conversation, returns an answer."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from bot.gateway.answering import Answering
from bot.gateway.callers import Caller
from bot.gateway.openai.chat import ChatCompletions
from bot.gateway.openai.chunks import ChatStream, Heading, PlaceForm
from bot.gateway.openai.messages import pictures_of, question_of
from bot.gateway.openai.records import read
from bot.gateway.openai.unserved import LEFT_OUT
from bot.gateway.pictures import RequestPictures
from bot.gateway.submitting import FindFile, Submitting
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, ChatMessage, File, PassedOn

log = logging.getLogger(__name__)

QUESTION_SHOWN = 2_000  # characters shown in lists; the server gets all of it


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


async def passed_on_chat(asked: ChatCompletions, find: FindFile) -> tuple[Chat, tuple[File, ...]]:
    """Return the request of the queue with its pictures. Raises `ApiError`."""
    pictures = pictures_of(asked.messages)
    files = tuple([await find(each.url, each.param) for each in pictures])
    question = question_of(asked.messages)[:QUESTION_SHOWN]
    shown = ChatMessage(role="user", text=question, pictures=tuple(range(len(files))))
    chat = Chat(
        messages=(shown,),
        temperature=asked.temperature,
        max_tokens=asked.most_tokens,
        passed_on=PassedOn(body=asked.body()),
    )
    return chat, files
