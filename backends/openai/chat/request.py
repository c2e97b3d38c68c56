"""Builds the body of a chat completion from a request and its images.

Pure except for the images, which are decoded and encoded again in a thread. Servers accept only
JPEG and PNG, and a full-size photo would fill the model's context.
"""

import asyncio
import base64
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field, JsonValue

from backends.media.helper.pixels import as_jpeg
from backends.media.images import open_image
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import Chat, ChatMessage, File, Record

SIDE = 1568  # pixels; vision models scale larger images down themselves
BYTES_PER_TOKEN = 3.0  # a cautious guess: English has about 4, Chinese about 3 (one character)
IMAGE_TOKENS = 1200
SIGNS_PER_TOKEN = 4  # most in scripts without spaces, such as Chinese
_SPACED = re.compile(r"[\x00-\u2e7f]+")  # scripts with spaces
TURN_TOKENS = 8  # what a chat template adds to each turn
ANSWER_SHARE = 0.25  # of the context, reserved if `max_tokens` is not set


class TextOptions(Record):
    """A text model's settings: the server's name for it, and defaults for its requests.

    `context_length` is in tokens. LM Studio applies it when it loads the model, and a loaded copy
    keeps its own. On every server, conversations are cut to it. `voice` is the default for reading
    aloud.
    """

    model: str = ""
    system: str = ""
    voice: str = ""
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    context_length: int | None = Field(default=None, ge=256)


async def chat_body(
    model_id: str,
    chat: Chat,
    files: Sequence[File],
    options: TextOptions,
    context_length: int | None = None,
) -> dict[str, JsonValue]:
    """Return the JSON body of a streamed completion, cut to `context_length` tokens.

    Raises `Rejected` for unusable images.
    """
    max_tokens = chat.max_tokens or options.max_tokens
    temperature = options.temperature if chat.temperature is None else chat.temperature
    messages = within_context(merged(chat.messages, options.system), context_length, max_tokens)
    wanted = {index for message in messages for index in message.images}
    urls = {index: await data_url(files, index) for index in sorted(wanted)}
    body: dict[str, JsonValue] = {
        "model": model_id,
        "messages": [_message(message, urls) for message in messages],
        "stream": True,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if temperature is not None:
        body["temperature"] = temperature
    return body


def merged(messages: Iterable[ChatMessage], system: str = "") -> tuple[ChatMessage, ...]:
    """Return the messages in the form that strict chat templates accept.

    There is at most one system message, at the beginning. User and assistant then alternate,
    beginning with the user. The templates of Gemma, Mistral and others reject anything else.
    `asking_again` handles those that also reject a system message.
    """
    systems = [system] if system else []
    turns: list[ChatMessage] = []
    for message in messages:
        if message.role == "system":
            systems.append(message.text)
        elif turns and turns[-1].role == message.role:
            turns[-1] = ChatMessage(
                role=message.role,
                text=f"{turns[-1].text}\n\n{message.told}",
                images=turns[-1].images + message.images,
            )
        elif turns or message.role == "user":
            turns.append(message.model_copy(update={"text": message.told, "name": None}))
    front = [ChatMessage(role="system", text="\n\n".join(systems))] if systems else []
    return (*front, *turns)


def within_context(
    messages: tuple[ChatMessage, ...], context_tokens: int | None, max_tokens: int | None
) -> tuple[ChatMessage, ...]:
    """Drop the oldest turns of a conversation that exceeds the model's context.

    The system message and the newest question always stay. If they alone are too long, the server
    or `require_room` rejects them and the person sees that error.
    """
    if context_tokens is None:
        return messages
    room = context_tokens - min(max_tokens or context_tokens, context_tokens * ANSWER_SHARE)
    front = messages[:1] if messages and messages[0].role == "system" else ()
    turns = messages[len(front) :]
    # In pairs: strict templates refuse a conversation that begins with an answer.
    while len(turns) > 2 and sum(map(_tokens, (*front, *turns))) > room:
        turns = turns[2:]
    return (*front, *turns)


def require_room(body: Mapping[str, JsonValue], context_tokens: int) -> None:
    """Raise `Rejected` for a request that cannot fit into a context."""
    least = sum(_least_tokens(text) for turn in _turns(body) for text in _texts(turn))
    if least > context_tokens:
        cause = f"at least {least} tokens for a context of {context_tokens}"
        raise Rejected(cause, problem=problem(ProblemKind.TOO_LONG))


def may_exceed(body: Mapping[str, JsonValue], context_tokens: int) -> bool:
    """Return whether the texts of a request are long enough to exceed a context."""
    texts = (text for turn in _turns(body) for text in _texts(turn))
    return sum(map(_usual_tokens, texts)) > context_tokens


def newest_tokens(body: Mapping[str, JsonValue]) -> int:
    """Return the smallest number of tokens that the newest text of a request can have."""
    return sum(map(_least_tokens, _texts(_turns(body)[-1])))


def _turns(body: Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    messages = body.get("messages")
    listed = messages if isinstance(messages, list) else []
    return listed or [{"content": body.get("prompt")}]


def _least_tokens(text: str) -> int:
    """Return the smallest number of tokens that a text can have.

    A token holds at most one word, or a few characters of a script without spaces.
    """
    return len(text.split()) + len(_SPACED.sub("", text)) // SIGNS_PER_TOKEN


def _texts(message: JsonValue) -> list[str]:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else [{"text": content}]
    found = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in found if isinstance(text, str)]


def _tokens(message: ChatMessage) -> float:
    of_text = max(_usual_tokens(message.text), _least_tokens(message.text))
    return of_text + IMAGE_TOKENS * len(message.images) + TURN_TOKENS


def _usual_tokens(text: str) -> float:
    return len(text.encode(errors="replace")) / BYTES_PER_TOKEN


def _message(message: ChatMessage, urls: dict[int, str]) -> JsonValue:
    if not message.images:  # plain text: servers without vision refuse a list of parts
        return {"role": message.role, "content": message.text}
    parts: list[JsonValue] = [{"type": "text", "text": message.text}]
    parts += [{"type": "image_url", "image_url": {"url": urls[index]}} for index in message.images]
    return {"role": message.role, "content": parts}


async def data_url(files: Sequence[File], index: int) -> str:
    """Return one of the job's images as a data URL. Raises `Rejected` if it does not exist."""
    if not 0 <= index < len(files):
        raise Rejected(f"the conversation refers to image {index} of {len(files)}")
    return await asyncio.to_thread(_encode, files[index])


def _encode(file: File) -> str:
    image = open_image(file)
    image.thumbnail((SIDE, SIDE))
    return f"data:image/jpeg;base64,{base64.b64encode(as_jpeg(image)).decode()}"
