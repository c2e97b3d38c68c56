"""Text routes: chat completions, completions and responses.

`POST /v1/fim/completions` is Mistral's form of `POST /v1/completions`, used by Continue. The
request is the same, and the response is a chat completion. Responses are not stored, so none can be
fetched by id.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from bot.api.calls.callers import Caller, Route
from bot.api.calls.errors import ApiError
from bot.api.calls.request_files import RequestImages
from bot.api.openai.chat import QUESTION_SHOWN, ChatCompletions, passed_on_chat
from bot.api.openai.chat_stream import ChatStream, Heading, PlaceForm
from bot.api.openai.completions import CompletionHeading, Completions, CompletionStream
from bot.api.openai.records import LEFT_OUT, read
from bot.api.openai.response_input import InputMessages
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs.answers import AnswerSender
from bot.api.runs.submitter import FindFile, Submitter
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, ChatMessage, File, PassedOn

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRoute:
    """Serves chat completions."""

    submitting: Submitter
    answering: AnswerSender
    images: RequestImages

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.images.of(caller)
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
        form = place_form(caller, asked.usher_progress)
        stream = ChatStream(heading=heading, usage=asked.wants_usage, form=form)
        writer = stream if asked.streams else None
        # These are large and already stored, while the caller may wait for minutes.
        del asked, chat, files, find, taken
        return await self.answering.answer(request, job, writer, heading.whole)


def log_left_out(job: Job, metadata: Mapping[str, str]) -> None:
    """Log which kinds of tools in a request were dropped because no server supports them."""
    if kinds := metadata.get(LEFT_OUT):
        log.info("job %d: left out tools that are not functions: %s", job.id, kinds)


def place_form(caller: Caller, asked: bool | None) -> PlaceForm:
    """Return how a stream reports the place in the queue. `asked` means in separate data lines."""
    if caller.key is not None and caller.key.style == PlaceForm.OPEN_WEBUI:
        return PlaceForm.OPEN_WEBUI
    return PlaceForm.DATA if asked else PlaceForm.COMMENT


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionRoute:
    """Serves completions."""

    submitting: Submitter
    answering: AnswerSender

    @property
    def routes(self) -> Mapping[str, Route]:
        """The routes by method and path."""
        return {"POST /v1/completions": self, "POST /v1/fim/completions": self.between}

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        asked = await read(Completions, request)
        job = await self._submit(request, caller, asked)
        heading = CompletionHeading(
            id=f"cmpl-{job.id}", model=asked.model, created=int(time.time()), echoed=asked.echoed
        )
        form = place_form(caller, asked.usher_progress)
        stream = CompletionStream(heading=heading, usage=asked.wants_usage, form=form)
        writer = stream if asked.streams else None
        # This is large and already stored, while the caller may wait for minutes.
        del asked
        return await self.answering.answer(request, job, writer, heading.whole)

    async def between(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Fill a gap, and answer with a chat completion. Raises `ApiError`."""
        asked = await read(Completions, request)
        job = await self._submit(request, caller, asked)
        heading = Heading(id=f"fim-{job.id}", model=asked.model, created=int(time.time()))
        form = place_form(caller, asked.usher_progress)
        stream = ChatStream(heading=heading, usage=asked.wants_usage, form=form)
        writer = stream if asked.streams else None
        # This is large and already stored, while the caller may wait for minutes.
        del asked
        return await self.answering.answer(request, job, writer, heading.whole)

    async def _submit(self, request: web.Request, caller: Caller, asked: Completions) -> Job:
        return await self.submitting.submit(
            request, caller, asked.model, _chat_for_completion(asked)
        )


def _chat_for_completion(asked: Completions) -> Chat:
    """Build the request to queue."""
    return Chat(
        messages=(ChatMessage(role="user", text=asked.question[:QUESTION_SHOWN]),),
        temperature=asked.temperature,
        max_tokens=asked.max_tokens or None,
        passed_on=PassedOn(body=asked.body(), text=True),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseRoute:
    """Serves responses."""

    submitting: Submitter
    answering: AnswerSender
    images: RequestImages

    @property
    def routes(self) -> Mapping[str, Route]:
        """The routes by method and path."""
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
        taken = self.images.of(caller)
        asked = await read(Responses, request)
        find = self.submitting.finding(
            request, caller, asked.model, [Capability.VISION], taken.named
        )
        chat, files = await _chat_for_response(asked, find)
        job = await self.submitting.submit(request, caller, asked.model, chat, files)
        log_left_out(job, asked.told)
        asked = asked.model_copy(update={"input": ""})  # the response repeats the other fields
        frame = ResponseFrame(number=job.id, created=int(time.time()), asked=asked)
        # These are large and already stored, while the caller may wait for minutes.
        del chat, files, find, taken
        form = place_form(caller, asked.usher_progress)
        writer = ResponseStream(frame=frame, items=OutputItems(job.id), form=form)
        return await self.answering.answer(
            request, job, writer if asked.streams else None, frame.whole
        )

    async def stored(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Raise `ApiError`: a response cannot be requested by id, because none is stored."""
        name = request.match_info["response"][:60]
        raise ApiError(
            status=HTTPStatus.NOT_FOUND,
            message=f"There is no response {name}: responses are not stored here.",
            param="response_id",
        )


async def _chat_for_response(asked: Responses, find: FindFile) -> tuple[Chat, tuple[File, ...]]:
    """Build the request to queue and load its images. Raises `ApiError`."""
    turns = InputMessages()
    turns.read(asked.instructions, asked.input)
    files = tuple([await find(each.url, each.param) for each in turns.images])
    shown = ChatMessage(
        role="user", text=turns.question[:QUESTION_SHOWN], images=tuple(range(len(files)))
    )
    chat = Chat(
        messages=(shown,),
        temperature=asked.temperature,
        max_tokens=asked.max_output_tokens,
        passed_on=PassedOn(body=asked.chat(turns.messages)),
    )
    return chat, files
