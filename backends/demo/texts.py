"""Writes the demo's answers: a template filled from the question, without any model. Pure."""

import json
from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from queueing.core.requests import Chat, PassedOn

OPENING = (
    "**This is Usher's stand-in: no language model was used.** It only shows how an answer "
    "arrives, word by word, in your own message."
)
CLOSING = (
    "With a real server behind it (LM Studio, Ollama, llama.cpp, vLLM …) the answer of a real "
    "model would stand here. Write on, or in a group reply to this message, to go on with the "
    "conversation."
)
LETTERS_OF_A_WORD_WORTH_NAMING = 4


def answer(chat: Chat, pictures: Sequence[tuple[int, int]] = ()) -> str:
    """Return Markdown that says it is a stand-in and quotes the question.

    `pictures` are the sizes of the attached pictures, in pixels.
    """
    question = chat.messages[-1].text.strip()
    facts = "\n".join(f"- {fact}" for fact in _facts(chat, question, pictures))
    return "\n\n".join((OPENING, _echo(question), facts, CLOSING))


def continuation(passed_on: PassedOn) -> str:
    """Return what follows a prompt, or what belongs between it and its suffix."""
    prompt, suffix = passed_on.body.get("prompt"), passed_on.body.get("suffix")
    words = len(prompt) if isinstance(prompt, list) else len(str(prompt).split())
    after = f", and {_count(len(str(suffix).split()), 'word')} after the gap" if suffix else ""
    return (
        f"This is Usher's stand-in: no language model was used. Your prompt has "
        f"{_count(words, 'word')}{after}."
    )


def chunk(word: str, number: int, of: int) -> str:
    """Return one word of an answer as a chunk in OpenAI's form; the last says that it is the end."""
    delta = {"content": word if number == 1 else f" {word}"}
    end = "stop" if number == of else None
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})


def whole_answer(chat: Chat, words: Sequence[str]) -> str:
    """Return what a server says of a whole answer; words are counted for tokens."""
    asked = sum(len(message.text.split()) for message in chat.messages)
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": len(words),
        "total_tokens": asked + len(words),
    }
    message = {"content": " ".join(words), "refusal": None}
    return json.dumps({"message": message, "finish_reason": "stop", "usage": usage})


def _echo(question: str) -> str:
    if not question:
        return "You asked nothing in words."
    return f"You asked: “{shorten(question, 300, placeholder=' …')}”"


def _facts(chat: Chat, question: str, pictures: Sequence[tuple[int, int]]) -> list[str]:
    words = question.split()
    facts = [
        f"Your question has {_count(len(words), 'word')}, {_count(len(question), 'character')}."
    ]
    common = Counter(
        word.casefold().strip(".,;:!?\"'()")
        for word in words
        if len(word) > LETTERS_OF_A_WORD_WORTH_NAMING
    ).most_common(3)
    if common:
        facts.append("It is about: " + ", ".join(word for word, _ in common if word) + ".")
    earlier = sum(message.role == "user" for message in chat.messages) - 1
    if earlier > 0:
        facts.append(f"I have seen {_count(earlier, 'earlier question')} of this conversation.")
    facts += [
        f"You attached a picture of {width} by {height} pixels." for width, height in pictures
    ]
    return facts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
