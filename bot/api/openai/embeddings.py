"""`POST /v1/embeddings`: the request, and vectors in OpenAI's format. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, WithJsonSchema
from pydantic_core import to_json

from backends.common.vectors import Part, numbers, texts_of, vectors_of
from bot.api.calls.errors import ApiError, invalid
from bot.api.calls.forms import is_data_url
from bot.api.openai.records import NAME_LIMIT, ClientRecord, refused
from queueing.core.requests import Output

INPUTS_LIMIT = 2048
IMAGES_LIMIT = 32
TEXT_LIMIT = 400_000  # characters per text; local models read a tenth of that
TEXTS_LIMIT = 4_000_000  # characters of all texts together
TOKENS_LIMIT = 300_000  # tokens of all arrays together
TOKEN_MOST = 2**31 - 1
DIMENSIONS_MOST = 65_536
_WRONG = "must be a string, an array of tokens, or an object with an image"
_IMAGE = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=\s]+", re.ASCII | re.IGNORECASE)
_TEXT = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
_TOKENS = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": TOKEN_MOST},
    "minItems": 1,
}
_IMAGE_GIVEN = {
    "type": "object",
    "properties": {"image": {"type": "string"}, "text": _TEXT},
    "required": ["image"],
}
_ONE = [_TEXT, _TOKENS, _IMAGE_GIVEN]
INPUT_SCHEMA: Any = {
    "anyOf": [
        *_ONE,
        {"type": "array", "items": {"anyOf": _ONE}, "minItems": 1, "maxItems": INPUTS_LIMIT},
    ]
}


_PREFIXED = refused("add the model's prefix to each text")


class EmbeddingCall(ClientRecord):
    """Texts, tokens or images to embed. The default `encoding_format` is `float`.

    OpenAI's SDKs send `base64` unless the caller chooses a format.
    """

    bytes_most = 32 * 1024 * 1024
    values_most = 2 * TOKENS_LIMIT

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    input: Annotated[Any, WithJsonSchema(INPUT_SCHEMA)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1, le=DIMENSIONS_MOST)
    task: Annotated[JsonValue, _PREFIXED] = None
    input_type: Annotated[JsonValue, _PREFIXED] = None
    prompt_name: Annotated[JsonValue, _PREFIXED] = None
    prompt: Annotated[JsonValue, _PREFIXED] = None
    instruction: Annotated[JsonValue, _PREFIXED] = None
    late_chunking: Annotated[JsonValue, refused("inputs are embedded separately")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenImage:
    """An image to embed (a data URL, base64 or a URL), with the text that belongs to it."""

    url: str
    param: str
    text: str = ""


Given = str | tuple[int, ...] | GivenImage


def given_in(value: JsonValue) -> tuple[Given, ...]:
    """Return the inputs of a request. Raises `ApiError` (400), which names the invalid field."""
    if not isinstance(value, list):
        inputs: tuple[Given, ...] = (_one(value, "input"),)
    elif not value:
        raise invalid("input: must not be empty.", "input")
    elif _is_number(value[0]):
        inputs = (_one(value, "input"),)
    elif len(value) > INPUTS_LIMIT:
        raise invalid(f"input: must not contain more than {INPUTS_LIMIT} inputs.", "input")
    else:
        inputs = tuple(_one(each, f"input.{at}") for at, each in enumerate(value))
    _require_bounded(inputs)
    return inputs


def _one(value: JsonValue, param: str) -> Given:
    match value:
        case "" | []:
            raise invalid(f"{param}: must not be empty.", param)
        case str():
            if is_data_url(value) and _IMAGE.fullmatch(value):
                return GivenImage(url=value, param=param)
            return _text(value, param)
        case list():
            return _tokens(value, param)
        case dict():
            return _object(value, param)
    raise invalid(f"{param}: {_WRONG}.", param)


def _text(value: JsonValue, param: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(f"{param}: must be a non-empty string.", param)
    if len(value) > TEXT_LIMIT:
        raise invalid(f"{param}: must not be longer than {TEXT_LIMIT} characters.", param)
    return value


def _tokens(value: list[JsonValue], param: str) -> tuple[int, ...]:
    tokens = tuple(each for each in value if _is_number(each) and isinstance(each, int))
    if len(tokens) != len(value) or not all(0 <= token <= TOKEN_MOST for token in tokens):
        raise invalid(f"{param}: tokens must be non-negative integers.", param)
    return tokens


def _object(value: dict[str, JsonValue], param: str) -> Given:
    """Parse `{"image": …}`, `{"text": …}`, a message part, or `{"content": [parts]}`."""
    parts = value.get("content", [value])
    if not isinstance(parts, list) or not parts:
        raise _not_parts(param)
    texts, images = list[str](), list[str]()
    for part in parts:
        if not isinstance(part, dict):
            raise _not_parts(param)
        if (text := part.get("text")) is not None:
            texts.append(_text(text, f"{param}.text"))
        if (url := _url(part)) is not None:
            images.append(url)
    if len(images) > 1:
        raise invalid(f"{param}: an input must not contain more than one image.", param)
    if images:
        return GivenImage(url=images[0], param=param, text="\n".join(texts))
    if not texts:
        raise _not_parts(param)
    return "\n".join(texts)


def _url(part: dict[str, JsonValue]) -> str | None:
    address = part.get("image_url", part.get("image"))
    if isinstance(address, dict):
        address = address.get("url")
    return address if isinstance(address, str) and address else None


def _not_parts(param: str) -> ApiError:
    return invalid(f"{param}: {_WRONG}.", param)


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_bounded(inputs: Sequence[Given]) -> None:
    texts = tokens = images = 0
    for each in inputs:
        match each:
            case str():
                texts += len(each)
            case GivenImage():
                images, texts = images + 1, texts + len(each.text)
            case _:
                tokens += len(each)
    for count, limit, what in (
        (texts, TEXTS_LIMIT, "characters"),
        (tokens, TOKENS_LIMIT, "tokens"),
        (images, IMAGES_LIMIT, "images"),
    ):
        if count > limit:
            raise invalid(f"input: must not contain more than {limit} {what} in all.", "input")


# ---------------------------------------------------------------- the answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Vectors:
    """Writes a job's vectors into the response, in the requested format."""

    model: str
    count: int
    packed: bool

    def whole(self, output: Output) -> bytes:
        """Return the response as JSON.

        The vectors are joined as text, not parsed, because they take megabytes.
        """
        told: dict[str, JsonValue] = json.loads(output.answer or "{}")
        tokens = told.get("prompt_tokens", 0)
        rest: dict[str, Any] = {
            "model": self.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        if "note" in told:
            rest["usher"] = {"note": told["note"]}
        parts: list[Part] = []
        between = b'{"object":"list","data":['
        for index, value in enumerate(self._values(output)):
            parts.append(b'%b{"object":"embedding","index":%d,"embedding":' % (between, index))
            parts += value
            between = b"},"
        parts.append(b"}],%b" % to_json(rest)[1:])
        return b"".join(parts)

    def _values(self, output: Output) -> Iterator[Sequence[Part]]:
        """Yield each vector's JSON in parts."""
        (file,) = output.files
        if self.packed:
            for text in texts_of(file, self.count):
                yield b'"', text, b'"'
        else:
            for vector in vectors_of(file, self.count):
                yield (to_json(numbers(vector)),)
