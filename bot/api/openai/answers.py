"""Response types of OpenAI's paths, for the OpenAPI document.

Responses are not built from these records but from the servers' JSON. `tests/bot/api/whole_api.py`
checks that they match. Clients must expect more fields, such as llama.cpp's `timings`.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue


class AnswerPart(BaseModel):
    """Base class of response types."""

    model_config = ConfigDict(frozen=True)


# ---------------------------------------------------------------- shared by all


class CalledFunction(AnswerPart):
    """A function to call, with its arguments as a JSON string."""

    name: str
    arguments: str


class CalledTool(AnswerPart):
    """A function call that the model requests."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class LikelyToken(AnswerPart):
    """A token and its log probability."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class TokenLogprob(LikelyToken):
    """A token of the answer, with the most likely tokens at its position."""

    top_logprobs: tuple[LikelyToken, ...] = ()


class Logprobs(AnswerPart):
    """Log probabilities of the answer's tokens."""

    content: tuple[TokenLogprob, ...] | None = None
    refusal: tuple[TokenLogprob, ...] | None = None


class TokenUsage(AnswerPart):
    """Tokens read and written. Counts are 0 if the server does not report them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


# ---------------------------------------------------------------- chat completions


class ChatAnswer(AnswerPart):
    """The model's message.

    Its reasoning is sent in two fields, because clients read one or the other.
    """

    role: Literal["assistant"]
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[CalledTool, ...] | None = None


class ChatChoice(AnswerPart):
    """The answer. There is only one, because a job produces one."""

    index: int
    message: ChatAnswer
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class ChatCompletion(AnswerPart):
    """A complete answer. `metadata` lists the kinds of tools in the request that were dropped."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    usage: TokenUsage
    metadata: dict[str, str] | None = None
    system_fingerprint: str | None = None


class FunctionCallPiece(AnswerPart):
    """The next part of a function call's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallPiece(AnswerPart):
    """The next part of the tool call numbered `index`."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallPiece | None = None


class ChatDelta(AnswerPart):
    """The next part of an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCallPiece, ...] | None = None


class ChatChunkChoice(AnswerPart):
    """The next part of the only choice. `finish_reason` is null until the last part."""

    index: int
    delta: ChatDelta
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class ChatCompletionChunk(AnswerPart):
    """An event of a streamed answer.

    `choices` is empty while the job waits, and in the `usage` chunk.
    """

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: tuple[ChatChunkChoice, ...]
    usage: TokenUsage | None = None
    metadata: dict[str, str] | None = None
    usher: dict[str, JsonValue] | None = None


# ---------------------------------------------------------------- completions


class TextLogprobs(AnswerPart):
    """Log probabilities of a completion's tokens, as parallel lists."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float | None, ...]
    top_logprobs: tuple[dict[str, float] | None, ...] | None = None
    text_offset: tuple[int, ...] | None = None


class TextChoice(AnswerPart):
    """The only completion; in a stream, its next part."""

    text: str
    index: int
    logprobs: TextLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class TextCompletion(AnswerPart):
    """A completion. Events of a stream have the same form; `usage` comes at the end."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: tuple[TextChoice, ...]
    usage: TokenUsage | None = None
    system_fingerprint: str | None = None


# ---------------------------------------------------------------- embeddings


class Embedding(AnswerPart):
    """A vector: a list of numbers, or their base64 encoding if requested."""

    object: Literal["embedding"]
    index: int
    embedding: tuple[float, ...] | str


class EmbeddingUsage(AnswerPart):
    """Tokens read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(AnswerPart):
    """Vectors, in the order of the inputs."""

    object: Literal["list"]
    data: tuple[Embedding, ...]
    model: str
    usage: EmbeddingUsage


# ---------------------------------------------------------------- images and sounds


class ImageAnswer(AnswerPart):
    """An image, as base64 or as a URL."""

    b64_json: str | None = None
    url: str | None = None


class ImagesAnswer(AnswerPart):
    """The images that a job produced."""

    created: int
    data: tuple[ImageAnswer, ...]


class SpokenSegment(AnswerPart):
    """A segment of speech from `start` to `end`, in seconds."""

    id: int
    start: float
    end: float
    text: str


class TranscriptAnswer(AnswerPart):
    """A transcript. Fields other than `text` are only present with `verbose_json`."""

    text: str
    task: str | None = None
    language: str | None = None
    duration: float | None = None
    segments: tuple[SpokenSegment, ...] | None = None


# ---------------------------------------------------------------- responses


class ResponseText(AnswerPart):
    """A part of an item: text, reasoning, or a refusal."""

    type: Literal["output_text", "reasoning_text", "refusal"]
    text: str | None = None
    refusal: str | None = None


class ResponseOutputItem(AnswerPart):
    """A message, reasoning, or a function call. Which fields are present depends on `type`."""

    id: str
    type: Literal["message", "reasoning", "function_call"]
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] | None = None
    content: tuple[ResponseText, ...] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ResponseUsage(AnswerPart):
    """Tokens read and written."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ResponseAnswer(AnswerPart):
    """A complete response. `metadata` is the caller's own, with the dropped kinds of tools."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    model: str
    output: tuple[ResponseOutputItem, ...]
    usage: ResponseUsage | None = None
    error: dict[str, JsonValue] | None = None
    incomplete_details: dict[str, JsonValue] | None = None
    metadata: dict[str, str] | None = None
