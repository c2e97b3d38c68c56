"""What servers say when something goes wrong, and what it means."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.openai.errors import NO_PICTURES, REFUSED, TOO_LONG, classify, words_of
from queueing.core.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    OutOfMemory,
    Rejected,
    Unavailable,
)
from queueing.core.problems import Problem

RECORDED = Path(__file__).parent / "recorded"


def test_recorded_refusals_are_understood(subtests: pytest.Subtests) -> None:
    """A real server's refusal would be retried, or told wrongly."""
    cases: list[tuple[str, str, type[BackendError], Problem | None]] = [
        ("llama-server", "over_context", Rejected, TOO_LONG),
        ("llama-server", "over_context_stream", Rejected, TOO_LONG),
        ("llama-server", "image_to_text_model", Rejected, NO_PICTURES),
        ("llama-server", "messages_string", Rejected, REFUSED),
        ("llama-server-router", "over_context_stream", Rejected, TOO_LONG),
        ("llama-server-router", "image_to_text_model", Rejected, NO_PICTURES),
        ("llama-server-router", "unknown_model", BadModel, None),
        ("llama-cpp-python", "over_context", Rejected, TOO_LONG),
    ]
    for server, name, kind, problem in cases:
        with subtests.test(server=server, name=name):
            answer = json.loads((RECORDED / f"{server}.json").read_text())[name]
            error = classify(answer["status"], "".join(answer["chunks"]))
            assert type(error) is kind
            if problem:
                assert error.problem == problem


GUARDRAIL = "Model loading was stopped due to insufficient system resources. approximately 12 GB"
NOTHING_LOADED = (
    "No models loaded. Please load a model in the developer page or use the 'lms load' command."
)


ANSWERS = (
    (200, {"error": GUARDRAIL}, OutOfMemory),
    (500, {"error": {"message": "x", "type": "model_load_failed"}}, OutOfMemory),
    (
        500,
        {"error": "model requires more system memory (12 GiB) than is available"},
        OutOfMemory,
    ),
    (500, {"error": {"message": "CUDA error: out of memory"}}, OutOfMemory),
    (500, {"error": {"message": "model limit reached, try again later"}}, OutOfMemory),
    (404, {"error": {"message": NOTHING_LOADED, "code": "model_not_found"}}, NotLoaded),
    (400, {"error": {"code": 400, "message": "model is not loaded"}}, NotLoaded),
    (503, {"error": {"code": 503, "message": "Loading model"}}, Unavailable),
    (404, {"error": {"message": 'Model "x" not found.', "code": "model_not_found"}}, BadModel),
    (200, {"error": "Unexpected endpoint or method. (POST /v1/x)"}, BadModel),
    (401, {"error": {"code": "invalid_api_key", "message": "token is required"}}, Unavailable),
    (200, {"error": {"code": "invalid_api_key", "message": "token is required"}}, Unavailable),
    (200, {"error": "The model has crashed without additional information."}, Unavailable),
    (503, {"error": {"message": "server busy, please try again."}}, Unavailable),
    (429, "slow down", Unavailable),
    (500, "Internal Server Error", Unavailable),
    (500, {"error": "open libcuda.so: file not found"}, Unavailable),
    (422, {"detail": [{"msg": "field required"}]}, Rejected),
    (200, {"error": "Model does not support images. Please use a model that does."}, Rejected),
    (200, {"error": "'url' field must be a base64 encoded image."}, Rejected),
)


def test_what_servers_say_becomes_the_right_reaction(subtests: pytest.Subtests) -> None:
    """The queue would evict, retry or give up at the wrong time."""
    for status, body, kind in ANSWERS:
        with subtests.test(str(body)):
            for form in (body, json.dumps(body)):
                error = classify(status, form)  # type: ignore[arg-type] # any JSON is one
                assert type(error) is kind


def test_a_request_that_crashes_an_engine_is_charged() -> None:
    """One poisonous question could crash an engine for ever, free of charge."""
    error = classify(
        200, {"error": "The model has crashed. The model was unloaded. (Exit code: 6)"}
    )
    assert not isinstance(error, NotLoaded)


@given(st.integers(100, 599), st.recursive(st.none() | st.text() | st.integers(), st.lists))
def test_any_answer_is_understood_somehow(status: int, body: object) -> None:
    """A strange error would become a crash of the bot."""
    assert isinstance(classify(status, body), BackendError)  # type: ignore[arg-type]


def test_what_reaches_the_log_is_short_and_harmless() -> None:
    """A server could flood the log, or write control characters into it."""
    cause = str(classify(500, "\x1b[31m" + "x" * 100_000))
    assert len(cause) < 400
    assert "\x1b" not in cause


def test_an_error_object_is_read_with_its_type_and_code() -> None:
    """Errors whose message says nothing would not be distinguished."""
    assert words_of({"error": {"message": "m", "type": "t", "code": 5}}) == "m t 5"
    assert words_of('{"error": "plain"}') == "plain"
    assert words_of("[not json") == "[not json"
