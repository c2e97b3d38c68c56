"""Completions of prompts: where each kind of server expects them, and in which form."""

from typing import Any

import pytest

from backends.openai.chat.passthrough import as_completion, path_of, prompt_body
from backends.openai.flavours.flavour import Flavour
from backends.openai.flavours.lmstudio import LMStudio3, LMStudio4
from backends.openai.flavours.server import FLAVOURS
from queueing.core.errors import ProblemKind, Rejected
from queueing.core.requests import PassedOn

ALL: dict[str, type[Flavour]] = {**FLAVOURS, LMStudio4.name: LMStudio4, LMStudio3.name: LMStudio3}
WITHOUT_SUFFIX = {"vllm", "koboldcpp", "lmstudio", "lmstudio-0.3"}
BY_INFILL = {"llamacpp", "llamacpp-router", "llamaswap"}
WITHOUT_TOKENS = {"llama-cpp-python", "koboldcpp", "ollama", "lmstudio", "lmstudio-0.3"}
WITHOUT_ECHO = {"koboldcpp", "llamacpp", "llamacpp-router", "ollama", "lmstudio", "lmstudio-0.3"}


def problem_of(name: str, body: dict[str, Any]) -> ProblemKind | None:
    """Return why a kind of server is not asked, or None if it is."""
    try:
        prompt_body(ALL[name](), body)
    except Rejected as error:
        return error.problem.what if error.problem is not None else None
    return None


def test_each_server_gets_what_it_takes(subtests: pytest.Subtests) -> None:
    """A field that a server ignores changes the answer; a refused one looks like a fault."""
    for name, flavour in ALL.items():
        with subtests.test(name=name):
            gap = {"prompt": "a", "suffix": "b"}
            assert (problem_of(name, gap) is ProblemKind.NO_SUFFIX) == (name in WITHOUT_SUFFIX)
            tokens = problem_of(name, {"prompt": [1, 2]})
            assert (tokens is ProblemKind.TEXT_PROMPTS) == (name in WITHOUT_TOKENS)
            assert (problem_of(name, {"prompt": "a", "echo": True}) is ProblemKind.NO_ECHO) == (
                name in WITHOUT_ECHO
            )
            assert prompt_body(flavour(), {"prompt": "a"}) == {"prompt": "a"}


def test_each_server_is_asked_where_it_answers(subtests: pytest.Subtests) -> None:
    """llama.cpp's router would load a model without the planner's knowledge."""
    for name, kind in ALL.items():
        with subtests.test(name=name):
            flavour = kind()
            paths = [
                path_of(flavour, None),
                path_of(flavour, PassedOn(body={"prompt": "a"}, text=True)),
                path_of(flavour, PassedOn(body={"prompt": "a", "suffix": "b"}, text=True)),
            ]
            plain = [path.partition("?")[0] for path in paths]
            assert plain[:2] == ["/v1/chat/completions", "/v1/completions"]
            assert (plain[2] == "/infill") == (name in BY_INFILL)
            assert all(
                path.endswith("?autoload=false") == (name == "llamacpp-router") for path in paths
            )


def test_what_is_no_piece_of_a_gap_is_left_as_it_is() -> None:
    """An error would be read as an empty piece."""
    for data in ('{"error": {"message": "no"}}', "[1]", "garbage", '{"content": null}'):
        assert as_completion(data) == data
