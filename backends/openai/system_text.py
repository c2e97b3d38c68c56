"""Asks models whose chat template has no system role.

A model is sent its system text as usual, until its server refuses it. From then on the text stands
before the question it belongs to. Nothing else tells such a model: servers list it like any other.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import JsonValue

from backends.openai.completion import CompletionCall
from backends.openai.flavours.errors import SystemRefused
from queueing.core.requests import Output

log = logging.getLogger(__name__)
Ask = Callable[[CompletionCall], Awaitable[Output]]


class SystemTexts:
    """Remembers the models without a system role, by their server's name."""

    def __init__(self) -> None:
        self._without: set[str] = set()

    async def answer(self, ask: Ask, question: CompletionCall) -> Output:
        """Return the answer to a question, which is asked again if its system text is refused.

        Only an answer proves that the role was the reason.
        """
        told = replace(question, body=without_system_role(question.body))
        if question.model_id in self._without or told.body == question.body:
            return await ask(told)
        try:
            return await ask(question)
        except SystemRefused as error:
            log.info(
                "%s: asking without a system role, which its server refuses: %s",
                question.model_id,
                error,
            )
        output = await ask(told)
        self._without.add(question.model_id)
        return output


def without_system_role(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a request in which each system text stands before the next question.

    A text that no question follows becomes one.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    texts: list[str] = []
    turns: list[JsonValue] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(message, dict) and role == "system":
            texts.append(_text(message.get("content")))
        elif isinstance(message, dict) and role == "user" and texts:
            content = _before("\n\n".join(texts), message.get("content"))
            turns.append({**message, "content": content})
            texts = []
        else:
            turns.append(message)
    if texts:
        turns.append({"role": "user", "content": "\n\n".join(texts)})
    return {**body, "messages": turns}


def _text(content: JsonValue) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "\n\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def _before(text: str, content: JsonValue) -> JsonValue:
    """Return the content of a question with a text in front."""
    if isinstance(content, list):
        return [{"type": "text", "text": text}, *content]
    return f"{text}\n\n{content}" if content else text
