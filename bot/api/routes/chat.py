"""`POST /v1/responses`: takes items, returns items. Nothing is stored under a response's id."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from bot.api.calls.callers import Caller, Route
from bot.api.calls.errors import ApiError
from bot.api.calls.request_files import RequestPictures
from bot.api.openai.chat import QUESTION_SHOWN
from bot.api.openai.records import read
from bot.api.openai.response_frame import ResponseFrame
from bot.api.openai.response_input import InputTurns
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseStream
from bot.api.routes.chat_completions import log_left_out, place_form
from bot.api.runs.answers import Answering
from bot.api.runs.submitter import FindFile, Submitting
from queueing.core.requests import Capability, Chat, ChatMessage, File, PassedOn


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseRoute:
    """Serves responses."""

    submitting: Submitting
    answering: Answering
    pictures: RequestPictures

    @property
    def routes(self) -> Mapping[str, Route]:
        """Every path of responses."""
        one = "/v1/responses/{response}"
        return {
            "POST /v1/responses": self,
            f"GET {one}": self.stored,
            f"GET {one}/input_items": self.stored,
            f"DELETE {one}": self.stored,
            f"POST {one}/cancel": self.stored,
        }

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.pictures.of(caller)
        asked = await read(Responses, request)
        find = self.submitting.finding(
            request, caller, asked.model, [Capability.VISION], taken.named
        )
        chat, files = await _chat(asked, find)
        job = await self.submitting.submit(request, caller, asked.model, chat, files)
        log_left_out(job, asked.told)
        asked = asked.model_copy(update={"input": ""})  # its answer repeats the rest
        frame = ResponseFrame(number=job.id, created=int(time.time()), asked=asked)
        del chat, files, find, taken  # large, and stored: the caller may wait for minutes
        if asked.streams:
            form = place_form(caller, asked=bool(asked.usher_progress))
            writer = ResponseStream(frame=frame, items=OutputItems(job.id), form=form)
            return await self.answering.stream(request, job, writer)
        return await self.answering.whole(request, job, frame.whole)

    async def stored(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Raise the `ApiError` for a response that is asked for by its id."""
        name = request.match_info["response"][:60]
        raise ApiError(
            status=HTTPStatus.NOT_FOUND,
            message=f"There is no response {name}: responses are not stored here.",
            param="response_id",
        )


async def _chat(asked: Responses, find: FindFile) -> tuple[Chat, tuple[File, ...]]:
    """Return the request of the queue with its pictures. Raises `ApiError`."""
    turns = InputTurns()
    turns.read(asked.instructions, asked.input)
    files = tuple([await find(each.url, each.param) for each in turns.pictures])
    shown = ChatMessage(
        role="user", text=turns.question[:QUESTION_SHOWN], pictures=tuple(range(len(files)))
    )
    chat = Chat(
        messages=(shown,),
        temperature=asked.temperature,
        max_tokens=asked.max_output_tokens,
        passed_on=PassedOn(body=asked.chat(turns.messages)),
    )
    return chat, files
