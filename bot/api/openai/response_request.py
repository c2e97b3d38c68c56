"""`POST /v1/responses`: the request, and the chat completion that is sent to a server. Pure.

Most servers have no Responses API, and those of the others differ. All support chat completions.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bot.api.calls.bodies import BODY_LIMIT
from bot.api.openai.chat import MESSAGES_LIMIT, TEXT_LIMIT, TOKENS_LIMIT
from bot.api.openai.records import NAME_LIMIT, ClientRecord, kind_alone, left_out, require_tool
from bot.api.openai.response_input import STORED, ResponseItem, items_of
from bot.api.openai.sampling import TOOLS_LIMIT, Sampling, Tooling, ToolKind

LOGPROBS = "message.output_text.logprobs"


class ResponseTool(ClientRecord):
    """A tool. Local servers only support functions; other kinds are dropped."""

    type: ToolKind = "function"
    name: str | None = Field(default=None, min_length=1, max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None

    _kind_alone = model_validator(mode="before")(kind_alone)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "function" and self.name is None:
            raise ValueError("name is required")
        return self


class AllowedTool(ClientRecord):
    """A tool that the model may call. `name` is only required for functions."""

    name: str | None = Field(default=None, min_length=1, max_length=256)


class ResponseToolChoice(ClientRecord):
    """The function that must be called, or the tools that may be called."""

    type: Literal["function", "allowed_tools"]
    name: str | None = Field(default=None, max_length=256)
    mode: Literal["auto", "required"] | None = None
    tools: tuple[AllowedTool, ...] | None = Field(default=None, max_length=TOOLS_LIMIT)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "function" and not self.name:
            raise ValueError("name is required")
        return self


class TextFormat(ClientRecord):
    """The format of the answer's text."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = Field(default=None, max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    strict: bool | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "json_schema" and self.schema_ is None:
            raise ValueError("json_schema needs a schema")
        return self

    def as_sent(self) -> dict[str, JsonValue]:
        """Return the fields that the caller set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class TextSettings(ClientRecord):
    """Settings of the answer's text. n8n sends an empty object."""

    format: TextFormat | None = None
    verbosity: str | None = Field(default=None, max_length=20)


class ReasoningSettings(ClientRecord):
    """How much the model should reason. Summaries of the reasoning are not available."""

    effort: str | None = Field(default=None, max_length=20)


class Responses(Sampling):
    """A response request.

    With `usher_progress`, an event of the stream contains the place in the queue.
    """

    bytes_most = BODY_LIMIT

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    input: Annotated[
        tuple[ResponseItem, ...],
        BeforeValidator(items_of),
        Field(min_length=1, max_length=MESSAGES_LIMIT),
    ]
    instructions: str | None = Field(default=None, max_length=TEXT_LIMIT)
    tools: tuple[ResponseTool, ...] | None = Field(default=None, max_length=TOOLS_LIMIT)
    tool_choice: Literal["none", "auto", "required"] | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=TOKENS_LIMIT)
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: tuple[str, ...] | None = Field(default=None, max_length=64)
    metadata: dict[str, str] | None = Field(default=None, max_length=16)
    user: str | None = Field(default=None, max_length=1_000)
    previous_response_id: str | None = None
    conversation: JsonValue = None
    prompt: JsonValue = None
    background: bool | None = None
    stream: bool | None = None
    usher_progress: bool | None = None

    @model_validator(mode="after")
    def _served(self) -> Self:
        if self.previous_response_id is not None:
            raise ValueError(
                "previous_response_id refers to a response, but nothing is stored here"
            )
        if self.conversation is not None:
            raise ValueError(f"conversation refers to a conversation, but {STORED}, as the input")
        if self.prompt is not None:
            raise ValueError(f"prompt refers to a template, but {STORED}, as the input")
        if self.background:
            raise ValueError("background is not supported: submit the job to /v1/jobs instead")
        return self

    @field_validator("tool_choice")
    @classmethod
    def _possible(cls, choice: Any, info: ValidationInfo) -> Any:
        if "tools" not in info.data:  # the tools are invalid, so report those instead
            return choice
        offered = {tool.name for tool in info.data["tools"] or () if tool.type == "function"}
        if not isinstance(choice, ResponseToolChoice):
            require_tool(choice, None, offered)
        elif choice.type == "function":
            require_tool(None, choice.name, offered)
        else:
            require_tool(choice.mode, None, offered & {tool.name for tool in choice.tools or ()})
        return choice

    @property
    def streams(self) -> bool:
        """Whether to stream the answer."""
        return bool(self.stream)

    @property
    def format(self) -> TextFormat:
        """The format of the answer's text."""
        return (self.text and self.text.format) or TextFormat()

    @property
    def offered(self) -> tuple[ResponseTool, ...]:
        """The tools that servers support."""
        return tuple(tool for tool in self.tools or () if tool.type == "function")

    @property
    def told(self) -> dict[str, str]:
        """The answer's `metadata`: the caller's own, and the dropped kinds of tools."""
        return (self.metadata or {}) | left_out(tool.type for tool in self.tools or ())

    def chat(self, messages: Sequence[JsonValue]) -> dict[str, JsonValue]:
        """Return the body to send to a server, without the model."""
        body: dict[str, JsonValue] = {"messages": [*messages]}
        body |= self.passed_on() | self._tooling().tooling()
        if self.max_output_tokens is not None:
            body["max_tokens"] = self.max_output_tokens
        if self.reasoning is not None and self.reasoning.effort is not None:
            body["reasoning_effort"] = self.reasoning.effort
        return body

    def _tooling(self) -> Tooling:
        likely = LOGPROBS in (self.include or ()) or None
        return Tooling.model_validate(
            {
                "tools": [
                    {"type": "function", "function": tool.model_dump(exclude={"type"})}
                    for tool in self._allowed()
                ],
                "tool_choice": self._choice(),
                "parallel_tool_calls": self.parallel_tool_calls,
                "response_format": self._format(),
                "logprobs": likely,
                "top_logprobs": self.top_logprobs if likely else None,
            }
        )

    def _allowed(self) -> list[ResponseTool]:
        """Return the tools that `tool_choice` allows."""
        choice = self.tool_choice
        tools = list(self.offered)
        if not isinstance(choice, ResponseToolChoice) or choice.type == "function":
            return tools
        names = {tool.name for tool in choice.tools or ()}
        return [tool for tool in tools if tool.name in names]

    def _choice(self) -> JsonValue:
        choice = self.tool_choice
        if not isinstance(choice, ResponseToolChoice):
            return choice
        if choice.type == "function":
            return {"type": "function", "function": {"name": choice.name}}
        return choice.mode or "auto"

    def _format(self) -> JsonValue:
        fields = self.format.as_sent()
        if self.format.schema_ is None:
            return {"type": self.format.type}
        schema: dict[str, JsonValue] = {"name": "answer", **fields}
        del schema["type"]
        return {"type": "json_schema", "json_schema": schema}
