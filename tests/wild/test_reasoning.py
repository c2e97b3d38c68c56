"""What is shown of answers that contain reasoning or marks of a template.

Each file of `reasoning/` has the `content` as a server sends it and what of it is `shown`. A block
that is `known_late` has only a closing mark and begins like an answer: people can read it while it
is written, until this is known of the model.
"""

import json
from pathlib import Path

import pytest

from backends.openai.chat import completion
from backends.openai.chat.answer_reader import AnswerReader
from backends.openai.chat.reasoning import without_thoughts
from queueing.core.requests import Progress
from tests.backends.openai.asking import connected, model, work
from tests.fakes.llm.llm import serving
from tests.fakes.llm.llm_script import Model
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("reasoning")
SECRET = "The user asks"


@in_turn("case", CASES)
def test_people_read_the_answer_and_nothing_else(case: Path) -> None:
    """A group would read what a model thinks of the person who asked."""
    odd = read_case(case)
    assert without_thoughts(odd["content"]) == odd["shown"]


@in_turn("case", CASES)
def test_reasoning_is_never_shown_while_it_is_written(case: Path) -> None:
    """Reasoning would be in the chat for seconds."""
    odd = read_case(case)
    content, shown = odd["content"], odd["shown"]
    opened = odd.get("known_late", False)
    for length in range(len(content) + 1):
        so_far = without_thoughts(content[:length], over=False, opened=opened)
        assert SECRET not in so_far
        assert shown.startswith(so_far.rstrip()) or not shown, (length, so_far)


@in_turn("case", CASES)
def test_a_stream_ends_as_the_whole_answer_does(case: Path) -> None:
    """What is stored is quoted to the model and read aloud."""
    odd = read_case(case)
    reader = AnswerReader()
    for letter in odd["content"]:
        reader.feed("data: " + json.dumps({"choices": [{"delta": {"content": letter}}]}))
        reader.feed("")
    reader.feed('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}')
    reader.feed("")
    reader.close()
    assert reader.text == odd["shown"]


async def test_a_model_whose_template_opens_the_reasoning_is_known_after_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its reasoning would be in the chat for seconds at every question."""
    async with serving("generic", [Model("alpha")]) as server, connected(server) as backend:
        server.pace_s = 0.01
        monkeypatch.setattr(completion, "REPORT_EVERY_S", 0.0)
        for words, shown in (
            (("Four", "is", "secret.</think>", "Five."), {"Four", "Four is", "Five."}),
            (("Four", "is", "secret.</think>", "Five."), {"Five."}),
            (("Six", "is", "public."), {"Six is public."}),  # without reasoning this time
            (("Six", "is", "public."), {"Six", "Six is", "Six is public."}),
        ):
            server.words = words
            told: list[Progress] = []
            fetch = await backend.run(model(), work(), told.append)
            texts = {each.text for each in told if each.text} | {(await fetch()).text}
            assert texts <= shown
            assert len(texts) >= min(2, len(shown))


def test_an_ordinary_answer_is_shown_while_it_is_written() -> None:
    """A person would wait for an answer that is already there."""
    for text in (
        "Okay, here is the plan:",
        "First, cut the onions",
        "Let me explain:",
        "Well, the plan",
    ):
        assert without_thoughts(text, over=False) == text


def test_an_answer_that_is_only_reasoning_is_not_told_as_empty() -> None:
    """A person would be asked to rephrase although no wording can help."""
    reader = AnswerReader()
    for event in ('{"choices":[{"delta":{"content":"<think>Hello!"},"finish_reason":"stop"}]}',):
        reader.feed(f"data: {event}")
        reader.feed("")
    reader.close()
    assert reader.only_thinks
