"""Sampling parameters and tools: fields that are forwarded to servers, with their ranges.

The first fields are OpenAI's, which every server supports. The others belong to local servers;
`backends.openai.chat.passthrough` sends them to servers that support them. All other fields are dropped.
Some of those could load, unload or resize a model without the planner's knowledge, or run code from
the caller: `keep_alive`, `ttl`, `num_ctx`, `id_slot`, `lora`, `chat_template`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator

from bot.api.openai.records import ClientRecord, kind_alone, left_out, require_tool

STOPS_LIMIT = 16
STOP_LIMIT = 500  # characters
TOOLS_LIMIT = 256
SCHEMA_LIMIT = 200_000  # characters of a JSON schema of a tool or an answer
BIAS_LIMIT = 1024

ToolKind = Annotated[str, Field(pattern=r"^[\w.:-]{1,64}$")]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(max_length=STOP_LIMIT)]


class Sampling(ClientRecord):
    """Fields common to completions and chat completions."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: Stop | tuple[Stop, ...] | None = None
    logit_bias: dict[str, float] | None = Field(default=None, max_length=BIAS_LIMIT)

    top_k: int | None = Field(default=None, ge=-1, le=1_000_000)
    min_p: float | None = Field(default=None, ge=0, le=1)
    typical_p: float | None = Field(default=None, ge=0, le=1)
    repeat_penalty: float | None = Field(default=None, ge=0, le=10)
    repetition_penalty: float | None = Field(default=None, ge=0, le=10)
    repeat_last_n: int | None = Field(default=None, ge=-1, le=1_000_000)
    min_tokens: int | None = Field(default=None, ge=0)
    cache_prompt: bool | None = None
    reasoning_effort: str | None = Field(default=None, max_length=20)
    chat_template_kwargs: dict[str, JsonValue] | None = Field(default=None, max_length=32)
    grammar: str | None = Field(default=None, max_length=SCHEMA_LIMIT)
    json_schema: dict[str, JsonValue] | None = None
    structured_outputs: dict[str, JsonValue] | None = None
    guided_json: str | dict[str, JsonValue] | None = None
    guided_regex: str | None = Field(default=None, max_length=SCHEMA_LIMIT)
    guided_choice: tuple[str, ...] | None = Field(default=None, max_length=BIAS_LIMIT)
    guided_grammar: str | None = Field(default=None, max_length=SCHEMA_LIMIT)
    regex: str | None = Field(default=None, max_length=SCHEMA_LIMIT)
    ebnf: str | None = Field(default=None, max_length=SCHEMA_LIMIT)
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None

    @field_validator("continue_final_message", "add_generation_prompt")
    @classmethod
    def _unless_usual(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        """Drop values that are the default of every server, because clients send them anyway."""
        usual = info.field_name == "add_generation_prompt"
        return None if value is usual else value

    @field_validator("stop")
    @classmethod
    def _few(cls, stop: Any) -> Any:
        if isinstance(stop, tuple) and len(stop) > STOPS_LIMIT:
            raise ValueError(f"must not contain more than {STOPS_LIMIT} strings")
        return stop

    def passed_on(self) -> dict[str, JsonValue]:
        """Return the fields to send to a server, under the server's names."""
        return self.model_dump(mode="json", include=set(Sampling.model_fields), exclude_none=True)


class Function(ClientRecord):
    """A function that the model may call."""

    name: str = Field(min_length=1, max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class Tool(ClientRecord):
    """A tool. Local servers only support functions; other kinds are dropped."""

    type: ToolKind
    function: Function | None = None

    _kind_alone = model_validator(mode="before")(kind_alone)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "function" and self.function is None:
            raise ValueError("function is required")
        return self


class Named(ClientRecord):
    """The name of a function that must be called."""

    name: str = Field(min_length=1, max_length=256)


class ToolChoice(ClientRecord):
    """One function that must be called."""

    type: Literal["function"]
    function: Named


class Schema(ClientRecord):
    """The JSON schema that an answer must follow."""

    name: str = Field(default="answer", max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class Format(ClientRecord):
    """The format of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Schema | None = None
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "json_schema" and (
            self.json_schema is None or self.json_schema.schema_ is None
        ):
            raise ValueError("json_schema needs a schema")
        if self.type == "text" and self.schema_ is not None:
            raise ValueError("schema requires the type json_object or json_schema")
        return self

    def as_sent(self) -> dict[str, JsonValue]:
        """Return the fields to send to a server.

        A schema is written in the form all servers support.
        """
        if self.type == "json_object" and self.schema_ is not None:
            schema: JsonValue = {"name": "answer", "schema": self.schema_}
            return {"type": "json_schema", "json_schema": schema}
        return self.model_dump(mode="json", exclude={"schema_"}, exclude_none=True, by_alias=True)


class Tooling(ClientRecord):
    """Fields of chat completions other than text: tools, a format and log probabilities."""

    tools: tuple[Tool, ...] | None = Field(default=None, max_length=TOOLS_LIMIT)
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: Format | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)

    @field_validator("tool_choice")
    @classmethod
    def _possible(cls, choice: Any, info: ValidationInfo) -> Any:
        if "tools" in info.data:  # otherwise the tools are invalid and reported
            named = choice.function.name if isinstance(choice, ToolChoice) else None
            tools = info.data["tools"] or ()
            require_tool(choice, named, {tool.function.name for tool in tools if tool.function})
        return choice

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that servers support."""
        return tuple(tool for tool in self.tools or () if tool.function is not None)

    @property
    def left_out(self) -> dict[str, str]:
        """The `metadata` entry that lists the dropped kinds of tools."""
        return left_out(tool.type for tool in self.tools or ())

    def tooling(self) -> dict[str, JsonValue]:
        """Return the fields to send to a server.

        Null values are dropped, even `strict` in a tool, because LM Studio and vLLM reject them. A
        tool choice without tools is dropped too, because vLLM rejects it.
        """
        beside = set(Tooling.model_fields) - {"tools", "response_format"}
        fields = self.model_dump(mode="json", include=beside, exclude_none=True)
        if self.offered:
            fields["tools"] = [
                tool.model_dump(mode="json", exclude_none=True) for tool in self.offered
            ]
        else:
            for name in ("tool_choice", "parallel_tool_calls"):
                fields.pop(name, None)
        if self.response_format is not None and self.response_format.type != "text":
            fields["response_format"] = self.response_format.as_sent()  # LM Studio rejects "text"
        return fields
