"""What becomes of a request that a text server refuses, by whose mistake it is.

Each file of `refusals/` has the `status` and `body` of an answer as a `server` sends it, the
`error` and the `problem` that it means, and its `owner`: the question, what is attached to it, the
operator's configuration, or the server.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.openai.flavours.errors import classify
from bot.texts.refusals import told
from queueing.core.errors import problem_of

CASES = sorted(Path(__file__).with_name("refusals").glob("*.json"))
HELP = {
    "question": ("Please shorten", "Please rephrase"),
    "attached": ("Please ask one that can",),
    "configuration": ("an admin needs to fix that", "the operator can find"),
    "server": ("again later", "the operator can find"),
}
"""What the person can do, by whose mistake it is."""


def read(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_refusal_is_understood(case: Path) -> None:
    """A server would be marked as down for one request, or asked again in vain."""
    odd = read(case)
    for body in (odd["body"], json.dumps(odd["body"])):
        error = classify(odd["status"], body)
        assert type(error).__name__ == odd["error"]
        assert problem_of(error).what == odd["problem"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_people_are_told_what_helps(case: Path) -> None:
    """A person would rephrase a question that no wording can save."""
    odd = read(case)
    text = told(problem_of(classify(odd["status"], odd["body"])), "en")
    assert any(help_ in text for help_ in HELP[odd["owner"]]), text
    assert "rephrase" not in text or odd["owner"] == "question"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_same_words_in_a_stream_mean_the_same(case: Path) -> None:
    """A stream begins with status 200, so an error in it has only its words."""
    odd = read(case)
    if odd["problem"] in {"refused", "failed", "busy"}:  # known by their status
        return
    assert problem_of(classify(200, odd["body"])).what == odd["problem"]
