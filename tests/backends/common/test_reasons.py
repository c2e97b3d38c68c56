"""What is kept of a server's message when it refuses a request."""

import json
import time
from collections.abc import Callable

import pytest
from pydantic import JsonValue

from backends.common.http_replies import HttpRefused
from backends.common.server_backend import reason_in, reasons_kept
from backends.images import replies as images
from backends.openai.flavours import errors as openai
from backends.openai.flavours.errors import classify
from queueing.core.errors import BackendError, Problem, ProblemKind, Rejected, problem

SAID: tuple[tuple[JsonValue, str], ...] = (
    ({"error": {"message": "Value 5 is too high", "type": "x"}}, "Value 5 is too high"),
    ('{"error": {"message": "No tools with streams"}}', "No tools with streams"),
    ({"error": "no\n tools\x00"}, "no tools"),
    ({"detail": "Bad and/or wrong, 1:2"}, "Bad and/or wrong, 1:2"),
    ("Plain words", "Plain words"),
    ({"object": "error", "message": "Too long"}, "Too long"),
    ({"error": {"message": "cannot open /home/an/models/a.gguf now"}}, "cannot open … now"),
    ({"error": {"message": r"cannot open C:\Users\an\a.gguf now"}}, "cannot open … now"),
    ({"error": {"message": "at http://10.0.0.5:8080/x, 10.0.0.5:80 or box:8080"}}, "at … … or …"),
    ({"error": {"message": "key sk-abcdef123456 is wrong"}}, "key … is wrong"),
    ("<html><body>nginx</body></html>", ""),
    ({}, ""),
    (None, ""),
    ("x" * 1000, "x" * 300),
)


def test_a_reason_has_words_and_no_addresses(subtests: pytest.Subtests) -> None:
    """A stranger would learn names of files and hosts; a developer would learn nothing."""
    for body, words in SAID:
        with subtests.test(str(body)[:60]):
            assert reason_in(body) == words


@pytest.mark.parametrize("sign", ["a", "a-", "1.", "{", "[", '"', "' ", "/a", "a://", "[a:", "sk-"])
def test_long_errors_are_read_at_once(sign: str) -> None:
    """An error of 64 KB would block everybody for seconds."""
    began = time.thread_time()
    reason_in(sign * (64_000 // len(sign)))
    classify(500, sign * (64_000 // len(sign)))
    assert time.thread_time() - began < 0.3


@pytest.mark.parametrize("classify", [openai.classify, images.classify], ids=["text", "image"])
def test_every_refusal_keeps_its_reason(classify: Callable[..., BackendError]) -> None:
    """A developer would not learn what a server refused in a 200 or after an empty stream."""
    body = {"error": {"message": "No tools here", "code": 400}}
    for given in (body, json.dumps(body)):
        refusal = classify(200, given)
        for error in (refusal, Rejected("again", problem=problem(ProblemKind.NO_COMPLETIONS))):
            with pytest.raises(Rejected) as caught, reasons_kept():
                raise error from (None if error is refusal else refusal)
            assert caught.value.problem is not None
            assert caught.value.problem.said == "No tools here"


def test_only_a_servers_answer_is_a_reason() -> None:
    """Usher's own reasons would be sent to the client; they belong in the log."""
    refused = HttpRefused("status 400", status=400, body='{"error": "No."}')
    for cause, said in ((refused, "No."), (ValueError("secret"), ""), (None, "")):
        with pytest.raises(Rejected) as caught, reasons_kept():
            raise Rejected("cause", problem=problem(ProblemKind.REFUSED)) from cause
        assert caught.value.problem is not None
        assert Problem.read(caught.value.problem.code()).said == said
