"""`POST /v1/chat/completions`: the request, and the body a server gets for it. Pure."""

from typing import Annotated

from pydantic import Field, JsonValue, field_validator

from bot.api.calls.bodies import BODY_LIMIT
from bot.api.openai.messages import (
    MESSAGES_LIMIT,
    ClientMessage,
    passed_on,
    pictures_of,
    question_of,
)
from bot.api.openai.records import NAME_LIMIT, ClientRecord
from bot.api.openai.sampling import Sampling, Tooling
from bot.api.openai.unserved import refused
from bot.api.runs.submitter import FindFile
from queueing.core.requests import Chat, ChatMessage, File, PassedOn

ALOUD = "answers are texts; /v1/audio/speech reads aloud"
TOKENS_LIMIT = 10_000_000


class StreamOptions(ClientRecord):
    """What a streamed answer contains besides the answer."""

    include_usage: bool | None = None


class ChatCompletions(Sampling, Tooling):
    """The request. With `usher_progress`, the place in line is sent as separate data lines."""

    bytes_most = BODY_LIMIT

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    messages: tuple[ClientMessage, ...] = Field(min_length=1, max_length=MESSAGES_LIMIT)
    max_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    usher_progress: bool | None = None
    functions: Annotated[JsonValue, refused("send them as `tools`")] = None
    function_call: Annotated[JsonValue, refused("send `tools` and `tool_choice`", "none")] = None
    modalities: Annotated[JsonValue, refused(ALOUD, ["text"])] = None
    audio: Annotated[JsonValue, refused(ALOUD)] = None
    web_search_options: Annotated[JsonValue, refused("nothing is looked up on the web")] = None

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int | None) -> int | None:
        if value not in {None, 1}:
            raise ValueError("must be 1: a job produces one answer")
        return value

    @property
    def streams(self) -> bool:
        """Whether the answer is sent as it is written."""
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether a streamed answer ends with its token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def most_tokens(self) -> int | None:
        """The token limit of the answer; OpenAI's newer name for it takes precedence."""
        return self.max_completion_tokens or self.max_tokens

    def body(self) -> dict[str, JsonValue]:
        """Return the body for a server, without the name of the model. Raises `ApiError`."""
        body: dict[str, JsonValue] = {"messages": passed_on(self.messages)}
        body |= self.passed_on() | self.tooling()
        if self.most_tokens is not None:
            body["max_tokens"] = self.most_tokens
        return body


QUESTION_SHOWN = 2_000  # characters shown in lists; the server gets all of it


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
