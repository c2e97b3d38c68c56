"""What OpenAI's paths answer, for the OpenAPI document.

Answers are written without these records, from what servers sent; `tests/bot/api/whole_api.py`
compares them. A client must expect more fields, such as llama.cpp's `timings`.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue


class AnswerPart(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


# ---------------------------------------------------------------- shared by all


class CalledFunction(AnswerPart):
    """The function to call, with its arguments as JSON."""

    name: str
    arguments: str


class CalledTool(AnswerPart):
    """A call of a function that the model asks for."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class LikelyToken(AnswerPart):
    """A token and the logarithm of its probability."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class TokenLogprob(LikelyToken):
    """A token of the answer, with those that were as likely."""

    top_logprobs: tuple[LikelyToken, ...] = ()


class Logprobs(AnswerPart):
    """The probabilities of the answer's tokens."""

    content: tuple[TokenLogprob, ...] | None = None
    refusal: tuple[TokenLogprob, ...] | None = None


class TokenUsage(AnswerPart):
    """The tokens that were read and written; 0 where the server did not count them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


# ---------------------------------------------------------------- chat completions


class ChatAnswer(AnswerPart):
    """What the model says. Its reasoning has two names, as clients read one or the other."""

    role: Literal["assistant"]
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[CalledTool, ...] | None = None


class ChatChoice(AnswerPart):
    """The only answer: a job produces one."""

    index: int
    message: ChatAnswer
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class ChatCompletion(AnswerPart):
    """A whole answer. `metadata` name what of the request was left out."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    usage: TokenUsage
    metadata: dict[str, str] | None = None
    system_fingerprint: str | None = None


class FunctionCallPiece(AnswerPart):
    """The next part of a call's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallPiece(AnswerPart):
    """The next part of a call, which `index` names."""

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
    """The next part of the only answer; `finish_reason` is null until the last."""

    index: int
    delta: ChatDelta
    logprobs: Logprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class ChatCompletionChunk(AnswerPart):
    """An event of a streamed answer. `choices` is empty while a job waits, and beside `usage`."""

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
    """The probabilities of a completion's tokens, as lists side by side."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float | None, ...]
    top_logprobs: tuple[dict[str, float] | None, ...] | None = None
    text_offset: tuple[int, ...] | None = None


class TextChoice(AnswerPart):
    """The only completion, or in a stream its next part."""

    text: str
    index: int
    logprobs: TextLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class TextCompletion(AnswerPart):
    """A whole completion; an event of a stream has the same form, and `usage` at its end."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: tuple[TextChoice, ...]
    usage: TokenUsage | None = None
    system_fingerprint: str | None = None


# ---------------------------------------------------------------- embeddings


class Embedding(AnswerPart):
    """A vector; text is base64 of its numbers, where that was asked for."""

    object: Literal["embedding"]
    index: int
    embedding: tuple[float, ...] | str


class EmbeddingUsage(AnswerPart):
    """The tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(AnswerPart):
    """The vectors, in the order of the inputs."""

    object: Literal["list"]
    data: tuple[Embedding, ...]
    model: str
    usage: EmbeddingUsage


# ---------------------------------------------------------------- images and sounds


class ImageAnswer(AnswerPart):
    """An image as base64, or its address."""

    b64_json: str | None = None
    url: str | None = None


class ImagesAnswer(AnswerPart):
    """The images of a job."""

    created: int
    data: tuple[ImageAnswer, ...]


class SpokenSegment(AnswerPart):
    """What was said from `start` to `end`, in seconds."""

    id: int
    start: float
    end: float
    text: str


class TranscriptAnswer(AnswerPart):
    """What was said; all but the text is there with `verbose_json` only."""

    text: str
    task: str | None = None
    language: str | None = None
    duration: float | None = None
    segments: tuple[SpokenSegment, ...] | None = None


# ---------------------------------------------------------------- responses


class ResponseText(AnswerPart):
    """A part of an item: a text, reasoning, or a refusal."""

    type: Literal["output_text", "reasoning_text", "refusal"]
    text: str | None = None
    refusal: str | None = None


class ResponseOutputItem(AnswerPart):
    """A message, reasoning, or a function to call; the fields depend on the `type`."""

    id: str
    type: Literal["message", "reasoning", "function_call"]
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] | None = None
    content: tuple[ResponseText, ...] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ResponseUsage(AnswerPart):
    """The tokens that were read and written."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ResponseAnswer(AnswerPart):
    """A whole response. `metadata` name what of the request was left out."""

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
