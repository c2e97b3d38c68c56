"""Base class of all request records, and error messages for invalid requests.

For a field with a union type, pydantic reports one error per member, under paths that contain the
name of the member. These names are removed from the paths that people see. Only the error with the
deepest path is reported, because its member matches the request best.

A field that no server here supports is rejected if it affects the answer. Tools are only an offer
to the model, so unsupported kinds are dropped, and the answer's `metadata` lists them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, ValidationError

from bot.api.calls.bodies import WORDS_LIMIT, json_body
from bot.api.calls.errors import ApiError, invalid
from queueing.core.bounded_json import VALUES_MOST, BoundedRecord
from queueing.core.catalog import in_our_words

KINDS_LIMIT = 500  # characters; OpenAI's limit of a value in `metadata` is 512
NAME_SHOWN = 80  # characters
LEFT_OUT = "usher_left_out_tools"


def refused(way: str, *but: JsonValue) -> AfterValidator:
    """Return a validator that rejects a field unless it is empty or one of `but`.

    `way` is a hint for the error message.
    """

    def check(value: JsonValue) -> JsonValue:
        if value and value not in but:
            raise ValueError(f"is not supported: {way}")
        return value

    return AfterValidator(check)


def kind_alone(value: Any) -> Any:
    """Reduce a tool that is not a function to its type, and ignore its other fields."""
    kind = value.get("type") if isinstance(value, dict) else None
    return value if kind is None or kind == "function" else {"type": kind}


def left_out(kinds: Iterable[str]) -> dict[str, str]:
    """Return the `metadata` entry that lists the dropped kinds of tools; {} if there are none."""
    told = ", ".join(dict.fromkeys(kind for kind in kinds if kind != "function"))
    return {LEFT_OUT: told[:KINDS_LIMIT]} if told else {}


def require_tool(choice: object, named: str | None, offered: Collection[str | None]) -> None:
    """Check that a required tool call is possible. Raises `ValueError`.

    `offered` are the names of the functions that are sent to the server. `named` is the function
    that `choice` requires, if any.
    """
    if choice == "required" and not offered:
        raise ValueError("is “required”, but there is no function to call")
    if named is not None and named not in offered:
        raise ValueError(f"names the function “{named[:NAME_SHOWN]}”, which is not among the tools")


WORDS = r"\S"
"""Pattern for texts that are not blank."""
Path = tuple[str | int, ...]

_KINDS: Mapping[str, str] = {
    "string_type": "a string",
    "tuple_type": "an array",
    "list_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_WAYS: Mapping[str, str] = {
    "file": "send a text file to /v1/responses, as input_file",
    "input_file": "send a text file to /v1/responses",
    "input_image": "send an image as image_url, or to /v1/responses",
    "input_audio": "send a recording to /v1/audio/transcriptions, and its text here",
    "audio_url": "send a recording to /v1/audio/transcriptions, and its text here",
    "video_url": "send single frames as image_url",
    "thinking": "send earlier reasoning as reasoning_content of the message",
    "reasoning": "send earlier reasoning as reasoning_content of the message",
    "tool_use": "send calls as tool_calls of the message",
    "tool_result": "send the result as a message with the role tool",
}
"""Hints for unsupported kinds of message parts."""


def mistake(error: ValidationError, kind: Any) -> tuple[Path, str]:
    """Return the path and description of the most relevant error in a record of type `kind`.

    The description has no final period.
    """
    found = [
        (_place(kind, each["loc"]), each)
        for each in error.errors(include_url=False, include_input=False)
    ]
    (path, divided), first = found[0]
    if divided is None:
        return _described(path, [first])
    rivals = [(at, each) for (at, _), each in found if at[: len(divided)] == divided]
    deepest = max(len(at) for at, _ in rivals)
    path = next(at for at, _ in rivals if len(at) == deepest)
    return _described(path, [each for at, each in rivals if at == path])


def _described(path: Path, errors: Sequence[Any]) -> tuple[Path, str]:
    """Describe the errors at one path, of which there may be one per member of a union."""
    first = next((each for each in errors if not _is_kind(each)), errors[0])
    if first["type"] == "union_tag_invalid":
        return _other_part(path, first["ctx"])
    if first["type"] == "union_tag_not_found":
        return (*path, _discriminator(first["ctx"])), "this field is required"
    if first["type"] == "missing":
        return path, "this field is required"
    if _is_kind(first):
        kinds = dict.fromkeys(_kind_of(each) for each in errors)
        return path, f"must be {', or '.join(kinds)}"
    if first["type"] == "extra_forbidden" and path and (told := _present_name(path[-1])):
        return path, told
    return path, _sentence(first)


def _is_kind(error: Any) -> bool:
    return error["type"] in _KINDS or error["type"] == "literal_error"


def _kind_of(error: Any) -> str:
    return _KINDS.get(error["type"]) or _quoted(error["ctx"]["expected"])


def _quoted(names: str) -> str:
    """Replace pydantic's quotes by typographic ones."""
    return re.sub(r"'([^']*)'", r"“\1”", names)


def _other_part(path: Path, context: Mapping[str, Any]) -> tuple[Path, str]:
    tag = str(context["tag"])[:40]
    way = _WAYS.get(tag) or _present_name(tag)
    told = f"must be one of {_quoted(context['expected_tags'])}, not “{tag}”"
    return (*path, _discriminator(context)), f"{told}: {way}" if way else told


def _present_name(name: object) -> str:
    """Return a hint with the new name of a renamed field or kind; "" if it is not renamed."""
    ours = in_our_words(str(name))
    return f"it is called “{ours}”" if ours != name else ""


def _discriminator(context: Mapping[str, Any]) -> str:
    """Return the name of a union's discriminator field; for jobs, pydantic reports a function."""
    name = str(context["discriminator"]).strip("'")
    return name if name.isidentifier() else "kind"


def _sentence(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    text = text.replace("Tuple should", "Array should").replace(" after validation", "")
    if text.endswith(f"pattern '{WORDS}'"):
        return "must not be blank"
    return text[:1].lower() + text[1:]


# ---------------------------------------------------------------- paths


def _place(kind: Any, path: Path) -> tuple[Path, Path | None]:
    """Return the path without names of union members, and the path to the first union, if any."""
    kept = _kept(kind, path)
    if kept is None:
        return path, None
    at = next((n for n, step in enumerate(kept) if step is None), None)
    told = tuple(step for step in kept if step is not None)
    return told, None if at is None else told[:at]


def _kept(kind: Any, path: Path) -> tuple[str | int | None, ...] | None:
    """Replace each name of a union member in the path by None.

    Returns None if `kind` has no such path.
    """
    if not path:
        return ()
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _kept(inner[0], path)
    if origin in {Union, UnionType}:
        members = [each for each in inner if each is not NoneType]
        if len(members) == 1:
            return _kept(members[0], path)
        found = (_kept(each, path[1:]) for each in members)
        rest = next((each for each in found if each is not None), None)
        return None if rest is None else (None, *rest)
    inside = _within(kind, path[0])
    rest = None if inside is NoneType else _kept(inside, path[1:])
    return None if rest is None else (path[0], *rest)


def _within(kind: Any, step: str | int) -> Any:
    """Return the type of the value at a step of the path, or `NoneType` if there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields
        named = (field for name, field in fields.items() if step in {name, field.alias})
        field = next(named, None)
        return NoneType if field is None else field.annotation
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        return inner[1]
    if origin in {tuple, list, set, frozenset} and isinstance(step, int):
        return inner[0]
    return Any if kind is Any else NoneType


NAME_LIMIT = 200  # characters of a model's name


class ClientRecord(BoundedRecord):
    """Base class of request bodies. Unknown fields are ignored, and null counts as omitted.

    Clients send null for optional fields: n8n sends `strict: null`, LangChain `tools: null`. A body
    has at most `bytes_most` bytes and `values_most` values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    bytes_most: ClassVar[int] = WORDS_LIMIT
    values_most: ClassVar[int] = VALUES_MOST


T = TypeVar("T", bound=ClientRecord)


async def read(kind: type[T], request: web.Request) -> T:
    """Parse a request's JSON body. Raises `ApiError` (400), which names the invalid field.

    The parser rejects deep nesting (hundreds of levels) and numbers out of range.
    """
    try:
        return await json_body(
            request, kind.model_validate_json, limit=kind.bytes_most, values=kind.values_most
        )
    except ValidationError as error:
        raise wrong(error, kind) from None


def wrong(error: ValidationError, kind: Any) -> ApiError:
    """Build the API error for an invalid record of type `kind`, from its most relevant error."""
    steps, sentence = mistake(error, kind)
    path = dotted(steps)
    if path:
        return invalid(f"{path}: {sentence}.", param=path)
    if error.errors(include_url=False, include_input=False)[0]["type"] == "value_error":
        return invalid(f"{sentence[:1].upper()}{sentence[1:]}.")
    return invalid(f"The body of the request must be a JSON object: {sentence}.")


def dotted(path: Sequence[str | int]) -> str:
    """Join a path with dots: "messages.0.content"."""
    return ".".join(str(step) for step in path)
