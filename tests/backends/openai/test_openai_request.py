"""Building requests: what strict templates accept, and what fits into a context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.common.model_names import catalog_names
from backends.openai.chat.request import TextOptions, chat_body, merged, within_context
from queueing.core.errors import Rejected
from queueing.core.requests import Chat, ChatMessage

TURNS = st.lists(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["system", "user", "assistant"]),
        text=st.text(max_size=60),
    ),
    max_size=12,
)


def say(role: str, text: str = "x") -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "text": text})


@given(TURNS, st.text(max_size=10))
def test_turns_always_alternate_and_begin_with_the_user(
    turns: list[ChatMessage], system: str
) -> None:
    """The templates of Gemma and Mistral would refuse the conversation."""
    roles = [turn.role for turn in merged(turns, system)]
    if roles and roles[0] == "system":
        roles = roles[1:]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)


def test_nothing_a_person_said_is_lost_by_merging() -> None:
    """Two questions in a row would become one."""
    turns = merged([say("user", "a"), say("user", "b"), say("assistant", "c")], "be brief")
    assert [(turn.role, turn.text) for turn in turns] == [
        ("system", "be brief"),
        ("user", "a\n\nb"),
        ("assistant", "c"),
    ]


@given(TURNS, st.integers(256, 4000), st.none() | st.integers(1, 4000))
def test_the_newest_question_and_the_system_prompt_always_stay(
    turns: list[ChatMessage], context: int, max_tokens: int | None
) -> None:
    """A long conversation would lose its current question or its rules."""
    before = merged(turns, "rules")
    after = within_context(before, context, max_tokens)
    assert after[0] == before[0]
    assert after[-1] == before[-1]
    assert after[1:] == before[len(before) - len(after) + 1 :]
    assert within_context(before, None, None) == before


def test_the_oldest_turns_of_a_long_conversation_are_left_out() -> None:
    """An old conversation could not continue once it fills the context."""
    turns = [
        say(role, f"{number} " * 300) for number in range(10) for role in ("user", "assistant")
    ]
    kept = within_context(merged([*turns, say("user", "now?")]), 2048, 256)
    assert 1 < len(kept) < 10
    assert kept[-1].text == "now?"
    assert kept[0].role == "user"


async def test_a_request_that_names_an_image_it_has_not_is_refused() -> None:
    """It would crash the attempt."""
    chat = Chat(messages=(ChatMessage(role="user", text="x", images=(1,)),))
    with pytest.raises(Rejected):
        await chat_body("m", chat, (), TextOptions())


def test_names_are_short_unique_and_without_spaces(subtests: pytest.Subtests) -> None:
    """A discovered model could not be named in a command."""
    cases: list[tuple[list[str], list[str]]] = [
        (["qwen/Qwen3-8B"], ["qwen3-8b"]),
        (["a/x", "b/x"], ["a-x", "b-x"]),
        (["llama3:latest", "llama3:70b"], ["llama3", "llama3:70b"]),
        (["/models/My Model.gguf"], ["my-model"]),
        (["C:\\models\\fast=1.gguf"], ["fast-1"]),
        ([], []),
    ]
    for ids, names in cases:
        with subtests.test(ids=ids):
            assert catalog_names(ids) == names


@given(st.lists(st.text(alphabet="aAb/-= \\:", max_size=6), max_size=12))
def test_no_two_models_get_the_same_name(ids: list[str]) -> None:
    """One of them could not be selected."""
    names = catalog_names(ids)
    assert len(set(names)) == len(names) == len(ids)
    assert not any(" " in name or "=" in name for name in names)
