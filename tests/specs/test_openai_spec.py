"""What the reader of OpenAI's document accepts, and what it does not."""

from typing import Any

import pytest

from tests.specs.openai_spec import NotOpenAI, check_answer, check_event, check_request

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "llama",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
}
DELTA = {
    "type": "response.output_text.delta",
    "item_id": "msg_1",
    "output_index": 0,
    "content_index": 0,
    "delta": "Hi",
    "sequence_number": 3,
    "logprobs": [],
}


def test_what_openai_sends_is_accepted() -> None:
    """A reader that refuses everything would be of no use."""
    check_answer("POST", "/chat/completions", CHAT)
    check_event("POST", "/responses", DELTA)
    check_request("POST", "/completions", {"model": "llama", "prompt": "a", "suffix": None})
    turn = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    check_request("POST", "/responses", {"model": "llama", "input": [turn]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"finish_reason": "done"},
        {"index": "0"},
        {"message": {"role": "assistant", "content": 5, "refusal": None}},
    ],
)
def test_a_wrong_answer_is_found(wrong: dict[str, Any]) -> None:
    """A reader that accepts everything would make every test of an answer pass."""
    choice = CHAT["choices"][0] | wrong  # type: ignore[index]
    with pytest.raises(NotOpenAI):
        check_answer("POST", "/chat/completions", {**CHAT, "choices": [choice]})


@pytest.mark.parametrize(
    "wrong", [{"type": "response.text"}, {"delta": None}, {"sequence_number": "3"}]
)
def test_a_wrong_event_is_found(wrong: dict[str, Any]) -> None:
    """The type of an event decides what must be in it."""
    with pytest.raises(NotOpenAI):
        check_event("POST", "/responses", DELTA | wrong)
    without = {name: value for name, value in DELTA.items() if name != "logprobs"}
    with pytest.raises(NotOpenAI, match="logprobs"):
        check_event("POST", "/responses", without)
