"""The response object around the output: what was asked for, how it ended, and what it took. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.api.openai.chat_stream import NO_USAGE, answer_of
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_parts import Object, objects_in
from bot.api.openai.response_request import Responses, ResponseToolChoice
from queueing.core.requests import Output

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseFrame:
    """A response without its output: what was asked for; `number` is the job's."""

    number: int
    created: int
    asked: Responses

    def response(self, status: str, output: list[Object], **more: Any) -> Object:
        """Return the response in that state."""
        asked = self.asked
        response: Object = {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": asked.model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "background": False,
            "store": False,
            "previous_response_id": None,
            "truncation": "disabled",
        }
        return response | _settings(asked) | more

    def finished(self, output: list[Object], answer: Mapping[str, Any]) -> Object:
        """Return the response once its answer is complete, or as long as it may be."""
        usage = _usage(answer.get("usage") or NO_USAGE)
        if (reason := _INCOMPLETE.get(answer.get("finish_reason") or "")) is not None:
            details = {"reason": reason}
            return self.response("incomplete", output, incomplete_details=details, usage=usage)
        return self.response("completed", output, completed_at=int(time.time()), usage=usage)

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer, items = answer_of(output), OutputItems(self.number)
        add_answer(items, answer)
        return self.finished(items.items, answer)


def add_answer(items: OutputItems, answer: Mapping[str, Any]) -> list[Object]:
    """Add a whole answer and return the events for it."""
    events = items.take(answer["message"], objects_in(answer.get("logprobs")))
    return events + items.close(complete=is_complete(answer))


def is_complete(answer: Mapping[str, Any]) -> bool:
    """Return whether a server has said all it wanted to."""
    return answer.get("finish_reason") not in _INCOMPLETE


def _settings(asked: Responses) -> Object:
    """Return the fields that repeat what was asked for; None stands for the model's default."""
    settings: Object = {
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_logprobs": asked.top_logprobs or 0,
        "metadata": asked.told,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "tool_choice": _choice(asked),
        "tools": [tool.model_dump(mode="json") for tool in asked.offered],
        "reasoning": {"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
        "text": {"format": asked.format.as_sent()},
    }
    return settings if asked.user is None else {**settings, "user": asked.user}


def _choice(asked: Responses) -> Any:
    choice = asked.tool_choice
    if not isinstance(choice, ResponseToolChoice):
        return choice or "auto"
    if choice.type == "function":
        return {"type": "function", "name": choice.name}
    tools = [{"type": "function", "name": tool.name} for tool in choice.tools or ()]
    return {"type": "allowed_tools", "mode": choice.mode or "auto", "tools": tools}


def _usage(told: Mapping[str, Any]) -> Object:
    """Return a server's token counts under the names of a response."""
    asked, answered = _count(told, "prompt_tokens"), _count(told, "completion_tokens")
    cached = _count(told.get("prompt_tokens_details"), "cached_tokens")
    thought = _count(told.get("completion_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": _count(told, "total_tokens") or asked + answered,
    }


def _count(told: Any, name: str) -> int:
    """Return a number of tokens; 0 if a server does not tell it."""
    count = told.get(name) if isinstance(told, Mapping) else None
    return count if isinstance(count, int) else 0
