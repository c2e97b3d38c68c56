"""Completions that programs asked for: the body a server gets.

Messages, tools and schemas are passed on as they came; nothing is merged, cut or left out but what
this kind of server does not know. Pure but for the pictures (`backends.openai.seen`).
"""

from collections.abc import Sequence

from pydantic import JsonValue

from backends.openai.chat_request import TextOptions
from backends.openai.fields import known_fields
from backends.openai.flavours.flavour import Flavour
from backends.openai.passthrough import prompt_body
from backends.openai.seen import unchanged_url
from queueing.core.requests import File, PassedOn

ANY_OBJECT: JsonValue = {
    "type": "json_schema",
    "json_schema": {"name": "object", "schema": {"type": "object"}},
}


async def passed_body(
    model_id: str,
    passed_on: PassedOn,
    files: Sequence[File],
    options: TextOptions,
    flavour: Flavour,
    *,
    more: frozenset[str] = frozenset(),
) -> dict[str, JsonValue]:
    """Return the body of a streamed completion; `more` are fields that this server knows as well.

    Raises `Rejected` for unusable pictures, and for fields that must not be left out.
    """
    body = known_fields(passed_on.body, flavour.extra | more)
    if isinstance(messages := body.get("messages"), list):
        body["messages"] = [await _message(message, files, flavour) for message in messages]
    if body.get("response_format") == {"type": "json_object"} and not flavour.json_object:
        body["response_format"] = ANY_OBJECT
    if options.max_tokens is not None:
        body.setdefault("max_tokens", options.max_tokens)
    if options.temperature is not None:
        body.setdefault("temperature", options.temperature)
    body |= {"model": model_id, "stream": True, "stream_options": {"include_usage": True}}
    return prompt_body(flavour, body) if passed_on.text else body


async def _message(message: JsonValue, files: Sequence[File], flavour: Flavour) -> JsonValue:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(parts, list):
        return message
    content: JsonValue = [await _part(part, files, flavour) for part in parts]
    texts = [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
    if len(texts) == len(parts) and not flavour.text_parts:
        content = "\n".join(texts)
    return {**message, "content": content}


async def _part(part: JsonValue, files: Sequence[File], flavour: Flavour) -> JsonValue:
    if not isinstance(part, dict) or part.get("type") != "picture":
        return part
    number, detail = part.get("file"), part.get("detail")
    at = number if isinstance(number, int) else -1
    url = await unchanged_url(files, at, flavour.pictures)
    fields = {name: value for name, value in part.items() if name not in {"file", "detail"}}
    image: JsonValue = {"url": url, **({"detail": detail} if detail else {})}
    return {**fields, "type": "image_url", "image_url": image}
