"""Asks a model again, without the part of a request that its server has refused.

- If a chat template has no system role, the system text is sent with its question.
- If a model takes fewer images, only the newest ones are sent.

Servers list such models like any other, so only a refusal reveals them. Only an answer to the
second request confirms the reason.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import JsonValue

from backends.common.error_rules import BROKEN, words_of
from backends.common.http_replies import HttpFailed
from backends.openai.chat.completion import CompletionCall
from backends.openai.flavours.errors import SystemRefused, TooManyImages, images_at_most
from queueing.core.errors import ProblemKind, UnknownFailure, problem
from queueing.core.requests import Output

log = logging.getLogger(__name__)
Ask = Callable[[CompletionCall], Awaitable[Output]]
Body = dict[str, JsonValue]
WORDLESS = frozenset({"", "internal server error"})  # SGLang, if a template refuses a request


class SystemTexts:
    """Remembers the models without a system role, by their server's name."""

    def __init__(self) -> None:
        self._without: set[str] = set()
        self._known: set[str] = set()  # those that have answered

    async def answer(self, ask: Ask, question: CompletionCall) -> Output:
        """Return the answer to a question. Asks again if the system text is refused."""
        told = replace(question, body=without_system_role(question.body))
        if question.model_id in self._without or told.body == question.body:
            return await ask(told)
        try:
            output = await ask(question)
        except (SystemRefused, UnknownFailure) as error:
            if isinstance(error, UnknownFailure) and not self._is_of_template(error, question):
                raise
            log.info("%s: asking without a system role: %s", question.model_id, error)
        else:
            self._known.add(question.model_id)
            return output
        output = await ask(told)
        self._without.add(question.model_id)
        return output

    def remark(self, model_id: str) -> str:
        """Return a note on a model without a system role, or ""."""
        if model_id not in self._without:
            return ""
        return "has no system role, so its system text is sent with each question"

    def _is_of_template(self, error: UnknownFailure, question: CompletionCall) -> bool:
        """Return whether a failure without words may be a template's refusal."""
        cause = error.__cause__
        if question.model_id in self._known or not isinstance(cause, HttpFailed):
            return False
        return cause.status == BROKEN and words_of(cause.body).strip(' "').casefold() in WORDLESS


class ImageLimits:
    """Remembers how many images a model takes in one request, by its server's name."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    async def answer(self, ask: Ask, question: CompletionCall) -> Output:
        """Return the answer to a question. Asks again with fewer images if there are too many.

        A program's request keeps all its images, so that the program learns of the limit.
        """
        if question.passed_on:
            return await ask(question)
        name = question.model_id
        try:
            return await self._within(ask, question, self._most.get(name))
        except TooManyImages as error:
            most = min(images_at_most(error), len(image_places(question.body)) - 1)
            if most < 1 or most >= self._most.get(name, most + 1):
                raise
            log.info("%s: asking with the newest %d images: %s", name, most, error)
        output = await self._within(ask, question, most)
        self._most[name] = most
        return output

    async def _within(self, ask: Ask, question: CompletionCall, most: int | None) -> Output:
        if most is None or len(image_places(question.body)) <= most:
            return await ask(question)
        output = await ask(replace(question, body=with_newest_images(question.body, most)))
        return replace(output, missing=problem(ProblemKind.NEWEST_IMAGES, count=most).code())


def image_places(body: Body) -> list[tuple[int, int]]:
    """Return the message and the part of each image in a request."""
    messages = body.get("messages")
    return [
        (at, number)
        for at, message in enumerate(messages if isinstance(messages, list) else ())
        for number, part in enumerate(_parts(message))
        if isinstance(part, dict) and part.get("type") == "image_url"
    ]


def with_newest_images(body: Body, most: int) -> Body:
    """Return a request with its newest images only."""
    left_out = set(image_places(body)[:-most])
    messages = body.get("messages")
    turns: list[JsonValue] = []
    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        parts = [
            part for number, part in enumerate(_parts(message)) if (at, number) not in left_out
        ]
        if isinstance(message, dict) and len(parts) < len(_parts(message)):
            only = parts[0] if len(parts) == 1 else None  # servers may refuse a list of one text
            text = only.get("text") if isinstance(only, dict) else None
            turns.append({**message, "content": parts if text is None else text})
        else:
            turns.append(message)
    return {**body, "messages": turns}


def _parts(message: JsonValue) -> list[JsonValue]:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else []


def without_system_role(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a request in which each system text comes before the next question.

    A system text without a following question becomes a question.
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
