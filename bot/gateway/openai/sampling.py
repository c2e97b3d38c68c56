"""Sampling parameters: the fields that are passed on to servers, each with its range.

`STANDARD` are OpenAI's own, which every server knows. `EXTRA` are fields of local servers: a kind
of server gets those on its own list (`backends.openai`). Any other field is dropped, because some
would load, unload or resize a model behind the planner's back, or run code the caller wrote:
`keep_alive`, `ttl`, `num_ctx`, `id_slot`, `lora`, `chat_template`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from bot.gateway.openai.records import ClientRecord

STOPS_LIMIT = 16
STOP_LIMIT = 500  # characters
TOOLS_LIMIT = 256
SCHEMA_LIMIT = 200_000  # characters of a tool's or an answer's JSON schema
BIAS_LIMIT = 1024

Penalty = Annotated[float, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(max_length=STOP_LIMIT)]


class Sampling(ClientRecord):
    """The fields of completions and chat completions alike."""

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

    @field_validator("stop")
    @classmethod
    def _few(cls, stop: Any) -> Any:
        if isinstance(stop, tuple) and len(stop) > STOPS_LIMIT:
            raise ValueError(f"must not contain more than {STOPS_LIMIT} texts")
        return stop

    def passed_on(self) -> dict[str, JsonValue]:
        """Return the fields to send to a server, under its own names."""
        return self.model_dump(mode="json", include=set(Sampling.model_fields), exclude_none=True)


class Function(ClientRecord):
    """A function a model may call."""

    name: str = Field(min_length=1, max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class Tool(ClientRecord):
    """A tool: functions are the only kind that local servers support."""

    type: Literal["function"]
    function: Function


class Named(ClientRecord):
    """The name of a function that must be called."""

    name: str = Field(min_length=1, max_length=256)


class ToolChoice(ClientRecord):
    """One function that must be called."""

    type: Literal["function"]
    function: Named


class Schema(ClientRecord):
    """The JSON schema an answer must follow."""

    name: str = Field(default="answer", max_length=256)
    description: str | None = Field(default=None, max_length=100_000)
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class Format(ClientRecord):
    """The format of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Schema | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "json_schema" and (
            self.json_schema is None or self.json_schema.schema_ is None
        ):
            raise ValueError("json_schema needs a schema")
        return self


class Tooling(ClientRecord):
    """What a chat completion requests besides text: tools, a format and log probabilities."""

    tools: tuple[Tool, ...] | None = Field(default=None, max_length=TOOLS_LIMIT)
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: Format | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)

    def tooling(self) -> dict[str, JsonValue]:
        """Return the fields to send to a server.

        Null values are dropped, even `strict` in a tool, because LM Studio and vLLM reject them. A
        tool choice without tools is dropped as well, because vLLM rejects it.
        """
        fields = self.model_dump(
            mode="json", include=set(Tooling.model_fields), exclude_none=True, by_alias=True
        )
        if not fields.get("tools"):
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                fields.pop(name, None)
        if fields.get("response_format") == {"type": "text"}:
            del fields["response_format"]  # LM Studio rejected it for a long time
        return fields
