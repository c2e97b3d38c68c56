"""Completions requested by programs: which fields a server receives, and in what form.

OpenAI's form has the text after a gap as `suffix`. llama.cpp rejects that field and has a separate
call, whose answers are converted here to completions.
"""

import asyncio
import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PIL import Image
from pydantic import JsonValue

from backends.common.file_types import SENT
from backends.media.helper.pixels import DEEP, as_jpeg, as_png
from backends.media.images import open_image
from backends.openai.chat.request import TextOptions
from backends.openai.flavours.flavour import Flavour
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import File, PassedOn

INFILL = "/infill"
_OPENAIS = ("prompt", "suffix", "max_tokens", "stream_options")
Body = dict[str, JsonValue]


def path_of(flavour: Flavour, passed_on: PassedOn | None) -> str:
    """Return the path of a request."""
    if passed_on is None or not passed_on.text:
        return flavour.chat_path
    if passed_on.body.get("suffix") is None:
        return flavour.text_path
    return flavour.suffix_path or flavour.text_path


def prompt_body(flavour: Flavour, body: Body) -> Body:
    """Return the body of a completion in the form a flavour accepts. Raises `Rejected`."""
    prompt, suffix = body.get("prompt"), body.get("suffix")
    if not flavour.prompt_tokens and not isinstance(prompt, str):
        raise Rejected("prompt is not a text", problem=problem(ProblemKind.TEXT_PROMPTS))
    if not flavour.echoes and body.get("echo"):
        raise Rejected("no echo", problem=problem(ProblemKind.NO_ECHO))
    if suffix is None:
        return body
    if flavour.suffix_path is None:
        raise Rejected("no suffix", problem=problem(ProblemKind.NO_SUFFIX))
    return _infill(body) if flavour.suffix_path.startswith(INFILL) else body


def _infill(body: Body) -> Body:
    """Return a completion with a suffix in llama.cpp's own form."""
    stop = body.get("stop")
    sent = {name: value for name, value in body.items() if name not in _OPENAIS}
    sent |= {"input_prefix": body.get("prompt"), "input_suffix": body.get("suffix"), "prompt": ""}
    if isinstance(stop, str):
        sent["stop"] = [stop]
    if (most := body.get("max_tokens")) is not None:
        sent["n_predict"] = most
    return sent


def as_completion(data: str) -> str:
    """Return an event in llama.cpp's own form as a completion chunk; others unchanged."""
    try:
        said = json.loads(data)
    except ValueError:
        return data
    if not isinstance(said, dict) or not isinstance(said.get("content"), str):
        return data
    reason = None
    if said.get("stop"):
        limited = said.get("stop_type") == "limit" or said.get("stopped_limit")  # until 2024-12
        reason = "length" if limited else "stop"
    choice = {"index": 0, "text": said["content"], "logprobs": None, "finish_reason": reason}
    return json.dumps({"choices": [choice]} | (_counted(said) if said.get("stop") else {}))


def _counted(said: Mapping[str, Any]) -> dict[str, Any]:
    read, written = said.get("tokens_evaluated") or 0, said.get("tokens_predicted") or 0
    counted = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {"usage": counted} | ({"timings": said["timings"]} if "timings" in said else {})


STANDARD = frozenset(
    {
        "messages",
        "prompt",
        "suffix",
        "echo",
        "max_tokens",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "stop",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
    }
)
TUNING = frozenset(
    {
        "top_k",
        "min_p",
        "typical_p",
        "repeat_penalty",
        "repetition_penalty",
        "repeat_last_n",
        "min_tokens",
        "cache_prompt",
        "reasoning_effort",
    }
)
DECISIVE = frozenset(
    {
        "chat_template_kwargs",
        "grammar",
        "json_schema",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "regex",
        "ebnf",
        "continue_final_message",
        "add_generation_prompt",
    }
)
BESIDE = TUNING | DECISIVE
_ALIKE = {"repeat_penalty": "repetition_penalty", "repetition_penalty": "repeat_penalty"}
"""The same penalty under llama.cpp's name and under vLLM's."""


def known_fields(asked: Mapping[str, JsonValue], beside: Iterable[str]) -> dict[str, JsonValue]:
    """Return the fields that a server supports: OpenAI's and those in `beside`.

    Raises `Rejected` for an unsupported field in `DECISIVE`, which must not be dropped silently.
    """
    known = STANDARD | frozenset(beside)
    body: dict[str, JsonValue] = {}
    for name, value in asked.items():
        if name in known:
            body[name] = value
        elif name in DECISIVE:
            cause = f"the server does not know the field {name}"
            raise Rejected(cause, problem=problem(ProblemKind.UNKNOWN_FIELD, name=name))
        elif (alike := _ALIKE.get(name, "")) in known:
            body.setdefault(alike, value)
    return body


_ORIENTATION = 0x0112  # EXIF tag
_QUALITY = 95


async def unchanged_url(files: Sequence[File], index: int, readable: frozenset[str]) -> str:
    """Return one of the job's images as a data URL in a format that the server reads.

    Raises `Rejected` if the image does not exist or is invalid.
    """
    if not 0 <= index < len(files):
        raise Rejected(f"the conversation refers to image {index} of {len(files)}")
    return await asyncio.to_thread(_url, files[index], readable)


def _url(file: File, readable: frozenset[str]) -> str:
    kind, alike = _looks(file)
    data = file.data
    if not alike or kind not in readable:
        image = open_image(file)
        kind = "JPEG" if kind == "JPEG" else "PNG"
        data = as_jpeg(image, quality=_QUALITY) if kind == "JPEG" else as_png(image)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode()}"


def _looks(file: File) -> tuple[str, bool]:
    """Return an image's format from its header, and whether servers show it as people see it."""
    try:
        with Image.open(io.BytesIO(file.data), formats=SENT) as image:
            upright = image.getexif().get(_ORIENTATION, 1) == 1
            plain = image.mode not in {"CMYK", *DEEP} and not image.has_transparency_data
            return str(image.format), upright and plain
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return "", False


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
    """Return the body of a streamed completion.

    `more` are further fields that this server supports. Raises `Rejected` for invalid images, and
    for unsupported fields that must not be dropped.
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
    if not isinstance(part, dict) or part.get("type") != "image":
        return part
    number, detail = part.get("file"), part.get("detail")
    at = number if isinstance(number, int) else -1
    url = await unchanged_url(files, at, flavour.images)
    fields = {name: value for name, value in part.items() if name not in {"file", "detail"}}
    image: JsonValue = {"url": url, **({"detail": detail} if detail else {})}
    return {**fields, "type": "image_url", "image_url": image}
