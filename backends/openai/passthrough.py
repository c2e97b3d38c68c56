"""Completions of a prompt: what a kind of server takes, and llama.cpp's way to fill a gap. Pure.

OpenAI's form has the text after the gap as `suffix`. llama.cpp refuses that field, and has a call of
its own with answers of its own form, which are read here as completions.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from backends.openai.flavours.flavour import Flavour
from queueing.core.errors import Rejected
from queueing.core.problems import What, problem
from queueing.core.requests import PassedOn

INFILL = "/infill"
_OPENAIS = ("prompt", "suffix", "max_tokens", "stream_options")
Body = dict[str, JsonValue]


def path_of(flavour: Flavour, passed_on: PassedOn | None) -> str:
    """Return where a request is sent."""
    if passed_on is None or not passed_on.text:
        return flavour.chat_path
    if passed_on.body.get("suffix") is None:
        return flavour.text_path
    return flavour.suffix_path or flavour.text_path


def prompt_body(flavour: Flavour, body: Body) -> Body:
    """Return the body of a completion as a kind of server takes it. Raises `Rejected`."""
    prompt, suffix = body.get("prompt"), body.get("suffix")
    if not flavour.prompt_tokens and not isinstance(prompt, str):
        raise Rejected("prompt is not a text", problem=problem(What.TEXT_PROMPTS))
    if not flavour.echoes and body.get("echo"):
        raise Rejected("no echo", problem=problem(What.NO_ECHO))
    if suffix is None:
        return body
    if flavour.suffix_path is None:
        raise Rejected("no suffix", problem=problem(What.NO_SUFFIX))
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
    """Return an event of llama.cpp's own form as a chunk of a completion; others as they are."""
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
