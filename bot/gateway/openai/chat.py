"""`POST /v1/chat/completions`: what a client asks, and the body a server gets for it. Pure."""

from typing import Self

from pydantic import Field, JsonValue, model_validator

from bot.gateway.openai.messages import MESSAGES_LIMIT, ClientMessage, passed_on
from bot.gateway.openai.records import NAME_LIMIT, ClientRecord
from bot.gateway.openai.sampling import Sampling, Tooling

TOKENS_LIMIT = 10_000_000


class StreamOptions(ClientRecord):
    """What a streamed answer says beside the answer."""

    include_usage: bool | None = None


class ChatCompletions(Sampling, Tooling):
    """The request. `usher_progress` asks for the place in line as data lines of their own."""

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    messages: tuple[ClientMessage, ...] = Field(min_length=1, max_length=MESSAGES_LIMIT)
    max_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    usher_progress: bool | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if self.n not in {None, 1}:
            raise ValueError("n must be 1: one job makes one answer")
        return self

    @property
    def streams(self) -> bool:
        """Whether the answer goes out as it is written."""
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether a streamed answer ends with the counts of its tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def most_tokens(self) -> int | None:
        """The limit of the answer; OpenAI's newer name of it goes first."""
        return self.max_completion_tokens or self.max_tokens

    def body(self) -> dict[str, JsonValue]:
        """Return what a server is sent beside its own name of the model. Raises `ApiError`."""
        body: dict[str, JsonValue] = {"messages": passed_on(self.messages)}
        body |= self.passed_on() | self.tooling()
        if self.most_tokens is not None:
            body["max_tokens"] = self.most_tokens
        return body
