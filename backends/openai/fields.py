"""Which fields of a program's request a server gets. Pure.

All servers know OpenAI's own. Of the others each kind of server knows some, and an operator can
name more (`fields` of a backend). One that only tunes an answer is left out where it is not known;
one that decides what an answer is must not be.
"""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from queueing.core.errors import Rejected
from queueing.core.problems import What, problem

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
"""The same penalty as llama.cpp and as vLLM call it."""


def known_fields(asked: Mapping[str, JsonValue], beside: Iterable[str]) -> dict[str, JsonValue]:
    """Return the fields for a server that knows those `beside` OpenAI's.

    Raises `Rejected`, which names the field, for a decisive one that it does not know.
    """
    known = STANDARD | frozenset(beside)
    body: dict[str, JsonValue] = {}
    for name, value in asked.items():
        if name in known:
            body[name] = value
        elif name in DECISIVE:
            cause = f"the server does not know the field {name}"
            raise Rejected(cause, problem=problem(What.UNKNOWN_FIELD, name=name))
        elif (alike := _ALIKE.get(name, "")) in known:
            body.setdefault(alike, value)
    return body
