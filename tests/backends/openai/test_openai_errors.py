"""Servers' error messages, and what they mean."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from backends.common.error_rules import REFUSED, loading, words_of
from backends.common.http_replies import HttpFailed, HttpRefused
from backends.images import replies as images
from backends.openai.flavours import errors as openai
from backends.openai.flavours.errors import NO_IMAGES, TOO_LONG, classify
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    KeyRefused,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    Problem,
    Rejected,
    ShortOfMemory,
    Unavailable,
    UnknownFailure,
)
from tests.samples import examples

RECORDED = Path(__file__).parents[1] / "recorded"


def test_recorded_refusals_are_understood(subtests: pytest.Subtests) -> None:
    """A real server's refusal would be retried, or reported wrongly."""
    cases: list[tuple[str, str, type[BackendError], Problem | None]] = [
        ("llama-server", "over_context", Rejected, TOO_LONG),
        ("llama-server", "over_context_stream", Rejected, TOO_LONG),
        ("llama-server", "image_to_text_model", Rejected, NO_IMAGES),
        ("llama-server", "messages_string", Rejected, REFUSED),
        ("llama-server-router", "over_context_stream", Rejected, TOO_LONG),
        ("llama-server-router", "image_to_text_model", Rejected, NO_IMAGES),
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


ANSWERS: tuple[tuple[int, JsonValue, type[BackendError]], ...] = (
    (200, {"error": GUARDRAIL}, ShortOfMemory),  # of a request: see the test of loads
    (500, {"error": {"message": "x", "type": "model_load_failed"}}, UnknownFailure),
    (
        500,
        {"error": "model requires more system memory (12 GiB) than is available"},
        ShortOfMemory,
    ),
    (500, {"error": {"message": "CUDA error: out of memory"}}, OutOfMemory),
    (200, {"error": {"message": "CUDA error: out of memory", "code": 500}}, OutOfMemory),
    (200, {"error": "CUDA error: out of memory"}, OutOfMemory),
    (500, {"error": {"message": "model limit reached, try again later"}}, OutOfMemory),
    (404, {"error": {"message": NOTHING_LOADED, "code": "model_not_found"}}, NotLoaded),
    (400, {"error": {"code": 400, "message": "model is not loaded"}}, NotLoaded),
    (503, {"error": {"code": 503, "message": "Loading model"}}, Busy),
    (404, {"error": {"message": 'Model "x" not found.', "code": "model_not_found"}}, BadModel),
    (404, {"error": {"message": 'model "llama9" not found, try pulling it first'}}, BadModel),
    (404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, BadModel),
    (200, {"error": "Unexpected endpoint or method. (POST /v1/x)"}, BadModel),
    (401, {"error": {"code": "invalid_api_key", "message": "token is required"}}, KeyRefused),
    (200, {"error": {"code": "invalid_api_key", "message": "no token"}}, KeyRefused),
    (200, {"error": "The model has crashed without additional information."}, ModelCrashed),
    (500, {"error": "llama runner process has terminated: exit status 2"}, ModelCrashed),
    (503, {"error": {"message": "server busy, please try again."}}, Busy),
    (429, "slow down", Busy),
    (200, {"error": {"message": "slow down", "type": "rate_limit_error"}}, Busy),
    (500, "Internal Server Error", UnknownFailure),
    (500, {"error": "open libcuda.so: file not found"}, UnknownFailure),
    (422, {"detail": [{"msg": "field required"}]}, Rejected),
    (413, "<html>Request Entity Too Large</html>", Rejected),
    (200, {"error": "Model does not support images. Please use a model that does."}, Rejected),
    (200, {"error": "'url' field must be a base64 encoded image."}, Rejected),
)


def test_what_servers_say_becomes_the_right_reaction(subtests: pytest.Subtests) -> None:
    """The queue would unload, retry or give up at the wrong time."""
    for status, body, kind in ANSWERS:
        with subtests.test(str(body)):
            for form in (body, json.dumps(body)):
                error = classify(status, form)
                assert type(error) is kind


CALLERS = (
    "out of memory",
    "CUDA error: out of memory",
    "f does not exist",
    "model not found",
    "model is not loaded",
    "the model has crashed",
    "no models loaded",
    "context length",
    "server busy",
    "unauthorized",
)
# As llama.cpp, Ollama, vLLM, stable-diffusion.cpp, SwarmUI and LocalAI were seen to say it.
NO_MEMORY = (
    "CUDA error: out of memory",
    "CUDA out of memory.",
    "failed to allocate compute pp buffers",
    "model limit reached, try again later",
    "model requires more system memory (12.1 GiB) than is available (3.4 GiB)",
    "llama runner process has terminated: cudaMalloc failed: out of memory",
    "llama runner process has terminated: error loading model: unable to allocate CUDA0 buffer",
    "an error was encountered while running the model: CUDA error: out of memory",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 12.50 MiB on device 0: cudaMalloc failed: out of memory",
    "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
    "ComfyUI execution error: Allocation on device",
    "rpc error: code = Unknown desc = DefaultCPUAllocator: not enough memory",
    "OutOfMemoryError",
)
FIGURES = {
    "CUDA out of memory.": " Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.56 GiB",
    "CUDA error: out of memory": "\n  current device: 0, in function alloc at ggml-cuda.cu:412",
    "MPS backend out of memory": " (MPS allocated: 17.80 GB, other allocations: 1.20 GB)",
}
# As llama.cpp, vLLM, Ollama, LM Studio and FastAPI quote a caller.
QUOTES: tuple[Callable[[str], JsonValue], ...] = (
    lambda said: {
        "error": {
            "code": 400,
            "message": f'Unrecognized schema: {{"type": "{said}"}}',
            "type": "invalid_request_error",
        }
    },
    lambda said: {"object": "error", "message": f"Grammar error: {said}", "code": 400},
    lambda said: {"error": f'json: cannot unmarshal "{said}" into Go struct field'},
    lambda said: {"error": f"Invalid tool: {said}"},
    lambda said: {"detail": [{"loc": ["body"], "msg": "bad", "input": said}]},
    lambda said: f"bad request: {said}",
    lambda said: {"error": {"message": f"model f does not exist; {said}", "code": 500}},
    lambda said: {"error": f"{said} said a caller"},
    lambda said: {"error": f"Failed to load image or audio file: {said}"},  # llama.cpp
    lambda said: {"error": f"an error was encountered while running the model: {said}, he said"},
    lambda said: said,
)
GUILTLESS = {Rejected, UnknownFailure}  # they unload nobody else's model


@pytest.mark.parametrize("classify", [openai.classify, images.classify], ids=["text", "image"])
def test_what_a_caller_says_names_no_fault_of_a_server(
    classify: Callable[..., BackendError], subtests: pytest.Subtests
) -> None:
    """One request with the right words would unload every model of a host, or disable a model."""
    whole = {
        NotLoaded,
        BadModel,
        Busy,
    }  # a whole sentence is the server's: no caller's words lead there
    for said in (*CALLERS, *NO_MEMORY):
        for quote in QUOTES:
            body = quote(said)
            with subtests.test(str(body)):
                for status in (400, 422):
                    kind = type(classify(status, body))
                    assert kind is Rejected or (body == said and kind in whole)
                assert type(classify(429, body)) is Busy
                for status in (200, 500, 503):
                    crashed = {ModelCrashed} if "llama runner" in said else set()
                    assert body == said or type(classify(status, body)) in GUILTLESS | crashed
    for said in CALLERS:
        quoted = {"error": {"message": f"Failed to parse input: {json.dumps({'a': said})}"}}
        assert type(classify(500, quoted)) is UnknownFailure
        assert type(classify(401, quoted)) is KeyRefused


@pytest.mark.parametrize("classify", [openai.classify, images.classify], ids=["text", "image"])
def test_memory_is_short_where_a_server_says_so_in_its_own_sentence(
    classify: Callable[..., BackendError], subtests: pytest.Subtests
) -> None:
    """A full GPU would not be emptied."""
    for said in (*NO_MEMORY, *(f"{said}{FIGURES[said]}" for said in FIGURES)):
        main = "system memory" in said or "CPU" in said  # for which no model leaves a GPU
        kind = ShortOfMemory if main else OutOfMemory
        with subtests.test(said):
            assert type(classify(500, {"error": {"message": said, "code": 500}})) is kind
            assert type(classify(200, {"error": said})) is kind
            assert type(classify(503, {"detail": said})) is kind


NO_RAM = "model requires more system memory (9.1 GiB) than is available (3.2 GiB)"
NOT_OF_MEMORY = (
    "invalid flag --ngl out of memory",
    "template error: user said: CUDA out of memory; cannot allocate",
    "unknown argument: failed to allocate",
    f"the file's description says: {NO_RAM}",
    f"he said: {GUARDRAIL}",
)


def test_a_failed_load_tells_of_memory_in_its_own_sentence(subtests: pytest.Subtests) -> None:
    """A full GPU would not be emptied, or a GPU would be emptied because of a broken file."""
    refused = HttpRefused("", status=400, body="")
    away = HttpFailed("", status=503, body="")
    cases: tuple[tuple[BackendError, Exception, type[BackendError]], ...] = (
        *((openai.classify(status, GUARDRAIL), refused, OutOfMemory) for status in (400, 500)),
        (openai.classify(400, "CUDA error: out of memory"), refused, OutOfMemory),
        *((openai.classify(500, said), refused, UnknownFailure) for said in NOT_OF_MEMORY),
        *((openai.classify(400, said), refused, Rejected) for said in NOT_OF_MEMORY),
        *((openai.classify(status, NO_RAM), refused, ShortOfMemory) for status in (400, 500)),
        (ModelCrashed("its process ended with exit code 1"), refused, ModelCrashed),
        (UnknownFailure("Loading model"), away, Unavailable),
        (UnknownFailure("status 500"), HttpFailed("", status=500, body=""), UnknownFailure),
    )
    for error, cause, kind in cases:
        with (
            subtests.test(str(error)),
            pytest.raises(BackendError) as caught,
            loading(),
        ):
            raise error from cause
        assert type(caught.value) is kind


def test_a_request_that_crashes_an_engine_is_charged() -> None:
    """A poisonous question could crash an engine repeatedly, free of charge."""
    error = classify(
        200, {"error": "The model has crashed. The model was unloaded. (Exit code: 6)"}
    )
    assert not isinstance(error, NotLoaded)


@examples(100, quick=25)
@given(st.integers(100, 599), st.recursive(st.none() | st.text() | st.integers(), st.lists))
def test_any_answer_is_understood_somehow(status: int, body: object) -> None:
    """An unexpected error would crash the bot."""
    assert isinstance(classify(status, body), BackendError)  # type: ignore[arg-type]


def test_what_reaches_the_log_is_short_and_harmless() -> None:
    """A server could flood the log, or write control characters into it."""
    cause = str(classify(500, "\x1b[31m" + "x" * 100_000))
    assert len(cause) < 400
    assert "\x1b" not in cause


def test_an_error_object_is_read_with_its_type_and_code() -> None:
    """Errors whose message says nothing could not be distinguished."""
    assert words_of({"error": {"message": "m", "type": "t", "code": 5}}) == "m t 5"
    assert words_of('{"error": "plain"}') == "plain"
    assert words_of("[not json") == "[not json"
