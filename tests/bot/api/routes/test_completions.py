"""Completions of prompts over HTTP, with the whole bot behind them."""

from pathlib import Path
from typing import Any

import pytest

from tests.bot.api.scripted import scripted, soon, text_piece, usage
from tests.bot.api.whole_api import Api
from tests.specs.openai_spec import check_answer, check_request

ONCE = {"model": "llama", "prompt": "Once upon a time"}
SAID = (text_piece(" there"), text_piece(" was"), text_piece("", "stop"), usage())


async def whole(api: Api, body: Any) -> Any:
    """Return a whole completion, as OpenAI's document describes it."""
    check_request("POST", "/completions", body)
    answer = await api.post("/completions", body)
    check_answer("POST", "/completions", answer)
    return answer


async def streamed(api: Api, body: Any) -> tuple[list[Any], str]:
    """Return the chunks of a stream, and their joined text."""
    events, _ = await api.stream("/completions", body)
    assert events.pop() == "[DONE]"
    assert len({(event["id"], event["object"], event["model"]) for event in events}) == 1
    return events, "".join(choice["text"] for event in events for choice in event["choices"])


async def test_a_prompt_is_completed(api: Api) -> None:
    """Editors and older programs send prompts this way."""
    answer = await whole(api, ONCE)
    events, text = await streamed(api, {**ONCE, "stream_options": {"include_usage": True}})
    plain, _ = await streamed(api, ONCE)
    assert "no language model was used" in answer["choices"][0]["text"]
    assert answer["usage"]["completion_tokens"] > 5
    assert text == answer["choices"][0]["text"]
    assert len(events) > 5
    assert events[-1]["usage"]["completion_tokens"] > 5
    assert all(event["choices"] for event in plain)


async def test_a_prompt_reaches_the_server_as_it_is(tmp_path: Path) -> None:
    """A template around it would spoil what an editor has prepared."""
    asked = {**ONCE, "max_tokens": 7, "stop": "\n", "temperature": 0.5, "seed": 5, "best_of": 1}
    async with scripted(tmp_path, SAID, SAID) as (api, server):
        answer = await whole(api, asked)
        events, text = await streamed(api, asked)
    for path, body in server.posted:
        assert path == "/v1/completions"
        assert body.items() >= {**ONCE, "model": "alpha", "max_tokens": 7, "seed": 5}.items()
        assert not {"suffix", "echo", "best_of", "logprobs", "messages"} & body.keys()
    assert answer["choices"][0] == {
        "text": " there was", "index": 0, "logprobs": None, "finish_reason": "stop"
    }  # fmt: skip
    assert answer["usage"]["total_tokens"] == 7
    assert text == " there was"
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, "stop"]


async def test_a_list_of_one_prompt_is_that_prompt(tmp_path: Path) -> None:
    """LangChain sends lists, and evaluation programs send tokens."""
    async with scripted(tmp_path, SAID, SAID, SAID) as (api, server):
        for prompt in (["Once"], [1, 2, 3], [[1, 2, 3]]):
            await whole(api, {**ONCE, "prompt": prompt})
    assert [body["prompt"] for _, body in server.posted] == ["Once", [1, 2, 3], [1, 2, 3]]


async def test_the_prompt_is_repeated_where_it_is_asked_for(tmp_path: Path) -> None:
    """Most servers refuse to do so, or ignore it."""
    async with scripted(tmp_path, SAID, SAID, flavour="llamacpp") as (api, server):
        answer = await whole(api, {**ONCE, "echo": True})
        _, text = await streamed(api, {**ONCE, "echo": True})
    assert answer["choices"][0]["text"] == text == "Once upon a time there was"
    assert "echo" not in server.posted[0][1]


async def test_log_probabilities_have_one_form(tmp_path: Path) -> None:
    """llama.cpp sends those of chat completions, which readers of completions do not know."""
    likely = {"token": " there", "logprob": -0.5, "top_logprobs": [{"token": "A", "logprob": -1}]}
    new = text_piece(" there", "stop", logprobs={"content": [likely]})
    lists = {"tokens": [" there"], "token_logprobs": [-0.5], "top_logprobs": [{"A": -1}]}
    old = text_piece(" there", "stop", logprobs={**lists, "text_offset": [0]})
    async with scripted(tmp_path, (new,), (old,), (new,)) as (api, server):
        for _ in range(2):
            answer = await whole(api, {**ONCE, "logprobs": 1})
            assert answer["choices"][0]["logprobs"] == {**lists, "text_offset": [0]}
        events, _ = await streamed(api, {**ONCE, "logprobs": 1})
    assert events[0]["choices"][0]["logprobs"] == {**lists, "text_offset": [0]}
    assert server.posted[0][1]["logprobs"] == 1


async def test_a_gap_is_filled_by_llamacpp(tmp_path: Path) -> None:
    """llama.cpp refuses the field `suffix`, and has a call and a format of its own."""
    said = (
        {"index": 0, "content": "a +", "tokens": [1], "stop": False, "tokens_predicted": 1},
        {"index": 0, "content": " b", "tokens": [2], "stop": False},
        {
            "content": "", "stop": True, "stop_type": "limit",
            "tokens_evaluated": 9, "tokens_predicted": 2, "model": "other",
        },
    )  # fmt: skip
    asked = {**ONCE, "prompt": "return ", "suffix": "\n", "max_tokens": 2, "stop": "}"}
    async with scripted(tmp_path, said, said, said, said, flavour="llamacpp") as (api, server):
        answer = await whole(api, asked)
        _, text = await streamed(api, asked)
        chat = await api.post("/fim/completions", asked)
        events, _ = await api.stream("/fim/completions", asked)
    path, body = server.posted[0]
    assert path == "/infill"
    assert (body["input_prefix"], body["input_suffix"], body["prompt"]) == ("return ", "\n", "")
    assert (body["n_predict"], body["stop"]) == (2, ["}"])
    assert (answer["choices"][0]["text"], text) == ("a + b", "a + b")
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 11
    assert chat["choices"][0]["message"]["content"] == "a + b"
    pieces = [event["choices"][0]["delta"].get("content") for event in events[:-1]]
    assert pieces == ["", "a +", " b", None]


async def test_a_gap_is_filled_by_others_in_openais_form(tmp_path: Path) -> None:
    """Ollama and others accept the field as it is."""
    async with scripted(tmp_path, SAID) as (api, server):
        await whole(api, {**ONCE, "suffix": "."})
    assert server.posted[0][0] == "/v1/completions"
    assert server.posted[0][1]["suffix"] == "."


@pytest.mark.parametrize(
    ("flavour", "more", "word"),
    [
        ("vllm", {"suffix": "."}, "llama.cpp"),
        ("llamacpp", {"echo": True, "logprobs": 1}, "echo"),
        ("llama-cpp-python", {"prompt": [1, 2]}, "tokens"),
    ],
)
async def test_what_a_server_cannot_do_is_said(
    flavour: str, more: dict[str, Any], word: str, tmp_path: Path
) -> None:
    """An editor would get an answer to another question, or none."""
    async with scripted(tmp_path, flavour=flavour) as (api, server):
        answer = await api.post("/completions", {**ONCE, **more}, status=400)
    assert word in answer["error"]["message"]
    assert server.posted == []


async def test_a_server_without_completions_says_so(tmp_path: Path) -> None:
    """A missing path would look like a missing model."""
    async with scripted(tmp_path, 404) as (api, _server):
        answer = await api.post("/completions", ONCE, status=400)
    assert "chat completion" in answer["error"]["message"]
    assert answer["error"]["code"] == "no_completions"


async def test_a_model_that_cannot_fill_gaps_says_so(tmp_path: Path) -> None:
    """llama.cpp answers 501, which looks like a broken server and would be retried."""
    async with scripted(tmp_path, 501, flavour="llamacpp") as (api, server):
        answer = await api.post("/completions", {**ONCE, "suffix": "."}, status=400)
    assert answer["error"]["code"] == "no_suffix"
    assert len(server.posted) == 1


BAD: tuple[tuple[Any, int, str | None], ...] = (
    ({"model": "llama"}, 400, "prompt"),
    ({**ONCE, "prompt": None}, 400, None),
    ({**ONCE, "prompt": []}, 400, "prompt"),
    ({**ONCE, "prompt": ["a", "b"]}, 400, "prompt"),
    ({**ONCE, "prompt": [[1], [2]]}, 400, "prompt"),
    ({**ONCE, "prompt": [1, "a"]}, 400, None),
    ({**ONCE, "prompt": [1], "suffix": "a"}, 400, None),
    ({**ONCE, "n": 2}, 400, None),
    ({**ONCE, "best_of": 3}, 400, None),
    ({**ONCE, "logprobs": 99}, 400, "logprobs"),
    ({**ONCE, "max_tokens": -1}, 400, "max_tokens"),
    ({**ONCE, "model": "lama"}, 404, "model"),
)


async def test_a_bad_request_is_refused_with_a_sentence(
    api: Api, subtests: pytest.Subtests
) -> None:
    """A program would repeat it, or mistake the error for an answer."""
    for body, status, param in BAD:
        with subtests.test(str(body)):
            answer = await api.post("/completions", body, status=status)
            assert not await api.open_jobs()
            assert answer["error"]["message"][-1] in ".?"
            assert answer["error"]["param"] == param or param is None


async def test_null_is_the_same_as_omitted(tmp_path: Path) -> None:
    """Clients send null for any optional field."""
    fields = (
        "suffix", "max_tokens", "echo", "logprobs", "n", "best_of", "stream", "stream_options",
        "stop", "temperature", "top_p", "seed", "logit_bias", "presence_penalty", "user",
        "frequency_penalty", "usher_progress",
    )  # fmt: skip
    async with scripted(tmp_path, SAID) as (api, server):
        answer = await api.post("/completions", ONCE | dict.fromkeys(fields))
    check_answer("POST", "/completions", answer)
    assert not set(fields[:6]) & server.posted[0][1].keys()


async def test_hanging_up_ends_the_work_on_the_server(tmp_path: Path) -> None:
    """The GPU would work for no one."""
    async with scripted(tmp_path, (*SAID[:1], "hold")) as (api, server):
        body = {**ONCE, "stream": True}
        async with api.session.post(f"{api.url}/completions", json=body):
            await soon(server.held)
        await soon(server.left)
        await api.until(lambda jobs: not jobs)


async def test_a_server_lost_in_the_middle_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    """A stream that just ends is regarded as a whole answer."""
    async with scripted(tmp_path, (*SAID[:2], None), SAID, SAID) as (api, _server):
        events, _ = await api.stream("/completions", ONCE)
    assert events[-1]["error"]["code"] == "server_lost"
