"""`POST /v1/chat/completions`: a conversation goes in, an answer comes out."""

import time
from dataclasses import dataclass

from aiohttp import web

from bot.gateway.answering import Answering
from bot.gateway.bodies import json_body
from bot.gateway.callers import Caller
from bot.gateway.errors import invalid
from bot.gateway.openai.chat import ChatCompletions
from bot.gateway.openai.chunks import ChatStream, Heading
from bot.gateway.openai.data_urls import NotData, data_of, is_data_url
from bot.gateway.openai.messages import Picture, pictures_of, question_of
from bot.gateway.openai.records import read
from bot.gateway.outcomes import in_words
from bot.gateway.submitting import Submitting
from bot.requests.images import checked
from bot.requests.refusals import Declined
from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage, File, PassedOn

QUESTION_SHOWN = 2_000  # characters of it in lists; the server gets all
NO_ADDRESS = "Pictures must come as data URLs: this server does not fetch addresses."


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRoute:
    """Serves chat completions."""

    submitting: Submitting
    answering: Answering

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = read(ChatCompletions, await json_body(request))
        job = await self._submit(request, caller, asked)
        heading = Heading(id=f"chatcmpl-{job.id}", model=asked.model, created=int(time.time()))
        leave = request.headers.get("Prefer", "").casefold() == "respond-async"
        if asked.streams:
            writer = ChatStream(heading=heading, usage=asked.wants_usage)
            return await self.answering.stream(request, job, writer, leave=leave)
        return await self.answering.whole(request, job, heading.whole, leave=leave)

    async def _submit(self, request: web.Request, caller: Caller, asked: ChatCompletions) -> Job:
        files = tuple([await _picture(each) for each in pictures_of(asked.messages)])
        question = question_of(asked.messages)[:QUESTION_SHOWN]
        shown = ChatMessage(role="user", text=question, pictures=tuple(range(len(files))))
        chat = Chat(
            messages=(shown,),
            temperature=asked.temperature,
            max_tokens=asked.most_tokens,
            passed_on=PassedOn(body=asked.body()),
        )
        return await self.submitting.submit(request, caller, asked.model, chat, files)


async def _picture(picture: Picture) -> File:
    """Return a picture of a request, looked at and without what was written beside its pixels."""
    if not is_data_url(picture.url):
        raise invalid(NO_ADDRESS, picture.param)
    try:
        return await checked(data_of(picture.url))
    except NotData as error:
        raise invalid(f"{picture.param}: {error}.", picture.param) from None
    except Declined as declined:
        raise invalid(in_words(declined.refusal), picture.param) from None
