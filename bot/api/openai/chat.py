"""`POST /v1/chat/completions`: the request, its messages, and the body sent to a server. Pure.

Messages are forwarded unchanged, but only with the fields listed here, because some servers would
fetch a URL in any other field. Images become files of the job, and messages refer to them by
number.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, field_validator

from bot.api.calls.bodies import BODY_LIMIT
from bot.api.calls.errors import invalid
from bot.api.openai.records import NAME_LIMIT, ClientRecord, refused
from bot.api.openai.sampling import Sampling, Tooling
from bot.api.runs.submitter import FindFile
from queueing.core.requests import Chat, ChatMessage, File, PassedOn

TEXT_LIMIT = 4_000_000  # characters per message; local models read less than a tenth of that
MESSAGES_LIMIT = 4_000
PARTS_LIMIT = 512
TOOL_CALLS_LIMIT = 128
MARK_LIMIT = 200

Mark = Annotated[str, Field(max_length=MARK_LIMIT)]


class CacheControl(ClientRecord):
    """Marks how much of the conversation a server should cache."""

    type: Mark
    ttl: Mark | None = None


class ClientText(ClientRecord):
    """A text part of a message."""

    type: Literal["text", "input_text", "output_text"]
    text: str = Field(max_length=TEXT_LIMIT)
    cache_control: CacheControl | None = None


class ClientRefusal(ClientRecord):
    """A refusal by the model in an earlier turn."""

    type: Literal["refusal"]
    refusal: str = Field(max_length=TEXT_LIMIT)


class ImageUrl(ClientRecord):
    """An image's URL: a data URL, or one to fetch."""

    url: str
    detail: str | None = Field(default=None, max_length=20)


class ClientImage(ClientRecord):
    """An image part of a message.

    `image_url` may also be a plain string, as some clients send it.
    """

    type: Literal["image_url"]
    image_url: ImageUrl
    cache_control: CacheControl | None = None

    @field_validator("image_url", mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


ClientPart = Annotated[ClientText | ClientImage | ClientRefusal, Field(discriminator="type")]


def arguments_text(value: Any) -> Any:
    """Convert a call's arguments to a string. Some servers send an object or nothing."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


class FunctionCall(ClientRecord):
    """A function call by the model. `arguments` is a JSON string, as the model wrote it."""

    name: str = Field(max_length=256)
    arguments: Annotated[str, BeforeValidator(arguments_text)] = Field(
        default="", max_length=TEXT_LIMIT
    )


class ToolCall(ClientRecord):
    """A tool call in an assistant's message.

    `id` may be missing, because some servers send none.
    """

    id: str | None = Field(default=None, max_length=256)
    type: Literal["function"] = "function"
    function: FunctionCall


class ClientMessage(ClientRecord):
    """One message.

    The role `developer` is sent to servers as `system`, which local templates expect. Models that
    reason between tool calls need their earlier reasoning. `prefix` and `partial` mark an answer to
    be continued.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[ClientPart, ...] | None = Field(default=None)
    name: str | None = Field(default=None, max_length=256)
    tool_calls: tuple[ToolCall, ...] | None = Field(default=None, max_length=TOOL_CALLS_LIMIT)
    tool_call_id: str | None = Field(default=None, max_length=256)
    reasoning_content: str | None = Field(default=None, max_length=TEXT_LIMIT)
    reasoning: str | None = Field(default=None, max_length=TEXT_LIMIT)
    refusal: str | None = Field(default=None, max_length=TEXT_LIMIT)
    prefix: bool | None = None
    partial: bool | None = None
    cache_control: CacheControl | None = None

    @field_validator("content")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            raise ValueError(f"must not be longer than {TEXT_LIMIT} characters")
        if isinstance(value, tuple) and len(value) > PARTS_LIMIT:
            raise ValueError(f"must not contain more than {PARTS_LIMIT} parts")
        return value

    @property
    def text(self) -> str:
        """The text of the message, without its images."""
        if isinstance(self.content, tuple):
            return "\n".join(part.text for part in self.content if isinstance(part, ClientText))
        return self.content or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image in a message, and the path of its field in the request."""

    url: str
    param: str


def images_of(messages: Sequence[ClientMessage]) -> tuple[Image, ...]:
    """Return all images of the messages, in the order in which `passed_on` numbers them."""
    return tuple(
        Image(url=part.image_url.url, param=f"messages.{at}.content.{place}.image_url")
        for at, place, part in _image_parts(messages)
    )


def passed_on(messages: Sequence[ClientMessage]) -> list[JsonValue]:
    """Return the messages to send to a server, with images replaced by file numbers.

    Raises `ApiError` if a message has neither content nor a tool call, reasoning or refusal.
    """
    numbers = {(at, place): n for n, (at, place, _) in enumerate(_image_parts(messages))}
    passed = [_one(message, at, numbers) for at, message in enumerate(messages)]
    _name_calls(passed)
    return [*passed]


def question_of(messages: Sequence[ClientMessage]) -> str:
    """Return the latest text by the user, to show in lists of jobs."""
    texts = [message.text for message in messages if message.role == "user" and message.text]
    return texts[-1] if texts else next((m.text for m in reversed(messages) if m.text), "")


def _image_parts(messages: Sequence[ClientMessage]) -> Iterator[tuple[int, int, ClientImage]]:
    for at, message in enumerate(messages):
        if isinstance(message.content, tuple):
            for place, part in enumerate(message.content):
                if isinstance(part, ClientImage):
                    yield at, place, part


def _name_calls(messages: Sequence[dict[str, Any]]) -> None:
    """Give ids to calls that have none, and to their results in the same order."""
    made, waiting = 0, list[str]()
    for message in messages:
        for call in message.get("tool_calls", ()):
            if not call.get("id"):
                made += 1
                call["id"] = f"call_{made}"
                waiting.append(call["id"])
        if message["role"] == "tool" and not message.get("tool_call_id") and waiting:
            message["tool_call_id"] = waiting.pop(0)


def _one(message: ClientMessage, at: int, numbers: dict[tuple[int, int], int]) -> dict[str, Any]:
    other = message.tool_calls or message.reasoning_content or message.refusal
    if message.content is None and not other:
        raise invalid(f"messages.{at}.content: a message must not be empty.", "messages")
    fields = message.model_dump(mode="json", exclude={"content"}, exclude_none=True)
    if not message.tool_calls:
        fields.pop("tool_calls", None)  # servers reject an empty list
    if message.role == "developer":
        fields["role"] = "system"
    return fields | {"content": _content(message.content, at, numbers)}


def _content(
    content: str | tuple[ClientPart, ...] | None, at: int, numbers: dict[tuple[int, int], int]
) -> JsonValue:
    if not isinstance(content, tuple):
        return content
    return [_part(part, numbers.get((at, place), 0)) for place, part in enumerate(content)]


def _part(part: ClientPart, number: int) -> JsonValue:
    fields = part.model_dump(mode="json", exclude={"type", "image_url"}, exclude_none=True)
    if isinstance(part, ClientText):
        return {"type": "text", **fields}
    if isinstance(part, ClientRefusal):
        return {"type": "text", "text": part.refusal}
    return image_part(number, part.image_url.detail) | fields


def image_part(number: int, detail: str | None) -> dict[str, JsonValue]:
    """Return the message part for the job's image of that number."""
    return {"type": "image", "file": number, **({"detail": detail} if detail else {})}


ALOUD = "answers are text only; /v1/audio/speech reads text aloud"
TOKENS_LIMIT = 10_000_000


class StreamOptions(ClientRecord):
    """What a stream contains in addition to the answer."""

    include_usage: bool | None = None


class Streamed(Sampling):
    """Fields that decide whether and how an answer is streamed."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    usher_progress: bool | None = None

    @property
    def streams(self) -> bool:
        """Whether to stream the answer."""
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatCompletions(Streamed, Tooling):
    """A chat completion request.

    With `usher_progress`, the stream reports the place in the queue in separate data lines.
    """

    bytes_most = BODY_LIMIT

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    messages: tuple[ClientMessage, ...] = Field(min_length=1, max_length=MESSAGES_LIMIT)
    max_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    n: int | None = None
    functions: Annotated[JsonValue, refused("send them as `tools`")] = None
    function_call: Annotated[JsonValue, refused("send `tools` and `tool_choice`", "none")] = None
    modalities: Annotated[JsonValue, refused(ALOUD, ["text"])] = None
    audio: Annotated[JsonValue, refused(ALOUD)] = None
    web_search_options: Annotated[JsonValue, refused("Usher does not search the web")] = None

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int | None) -> int | None:
        if value not in {None, 1}:
            raise ValueError("must be 1: a job produces one answer")
        return value

    @property
    def most_tokens(self) -> int | None:
        """The answer's token limit.

        OpenAI's newer field, `max_completion_tokens`, takes precedence.
        """
        return self.max_completion_tokens or self.max_tokens

    def body(self) -> dict[str, JsonValue]:
        """Return the body to send to a server, without the model. Raises `ApiError`."""
        body: dict[str, JsonValue] = {"messages": passed_on(self.messages)}
        body |= self.passed_on() | self.tooling()
        if self.most_tokens is not None:
            body["max_tokens"] = self.most_tokens
        return body


QUESTION_SHOWN = 2_000  # characters shown in lists; the server gets the full text


async def passed_on_chat(asked: ChatCompletions, find: FindFile) -> tuple[Chat, tuple[File, ...]]:
    """Build the request to queue and load its images. Raises `ApiError`."""
    images = images_of(asked.messages)
    files = tuple([await find(each.url, each.param) for each in images])
    question = question_of(asked.messages)[:QUESTION_SHOWN]
    shown = ChatMessage(role="user", text=question, images=tuple(range(len(files))))
    chat = Chat(
        messages=(shown,),
        temperature=asked.temperature,
        max_tokens=asked.most_tokens,
        passed_on=PassedOn(body=asked.body()),
    )
    return chat, files
