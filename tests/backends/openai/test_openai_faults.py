"""What happens to a question when a text server misbehaves, over real sockets."""

import asyncio
import json

import pytest
from pydantic import JsonValue

from backends.common.http import Http
from backends.openai.backend import OpenAI
from backends.openai.chat.answer_events import EVENT_LIMIT
from backends.registry import connect
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    KeyRefused,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    ProblemKind,
    Rejected,
    Unavailable,
    UnreadableAnswer,
    problem_of,
)
from queueing.core.specs import BackendSpec, ModelSpec, Timeouts
from tests.backends.openai.asking import ANSWER, answer, connected, image, model, work
from tests.fakes.llm.llm import KINDS, Fault, Model, serving
from tests.fakes.llm.llm_script import CONTEXT
from tests.told import words

HALF = "x" * 4 * (CONTEXT - (CONTEXT - 4) // 2)
FAULTS: dict[Fault, type[BackendError]] = {
    Fault.BUSY: Busy,
    Fault.LIMIT: Busy,
    Fault.CUT: Unavailable,
    Fault.ERROR_200: ModelCrashed,
    Fault.ERROR_EVENT: ModelCrashed,
    Fault.GARBAGE: UnreadableAnswer,
    Fault.HTML: UnreadableAnswer,
    Fault.OOM: OutOfMemory,
    Fault.CRASH: ModelCrashed,
    Fault.UNLOADED: NotLoaded,
    Fault.EMPTY: Rejected,
    Fault.THOUGHTS: Rejected,
    Fault.SILENT: UnreadableAnswer,
    Fault.BROKEN: UnreadableAnswer,
    Fault.INTERRUPTED: UnreadableAnswer,
    Fault.ERROR_INSIDE: Rejected,
    Fault.WRONG_MODEL: BadModel,
}


async def test_each_fault_of_a_server_becomes_the_right_error(subtests: pytest.Subtests) -> None:
    """A job would be retried in vain, failed too early, or delivered in half."""
    async with serving() as server, connected(server) as backend:
        for fault, error in FAULTS.items():
            with subtests.test(fault=fault):
                await backend.load(model())
                server.faults.append(fault)
                with pytest.raises(BackendError) as caught:
                    await asyncio.wait_for(backend.run(model(), work(), lambda _: None), 60)
                assert isinstance(caught.value, error)
                if not caught.value.retryable:
                    assert words(caught.value)
                if fault is not Fault.UNLOADED and fault is not Fault.CRASH:
                    assert (await answer(backend, model(), work())).text == ANSWER  # and it goes on


async def test_an_answer_that_was_not_streamed_is_still_an_answer() -> None:
    """A server that ignores `stream` could not be used."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.NOT_STREAMED)
        assert (await answer(backend, model(), work())).text == ANSWER


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp", "llama-cpp-python", "generic"])
async def test_a_question_longer_than_the_context_is_told_to_the_person(kind: str) -> None:
    """It would be retried in vain and end with an unclear error."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.run(model(), work("x" * 250_000), lambda _: None)
        assert "shorten" in words(caught.value)
        assert caught.value.problem is not None
        assert "context" in caught.value.problem.said


@pytest.mark.parametrize("passed_on", [False, True])
@pytest.mark.parametrize("name", ["alpha", "alpha:latest"])
@pytest.mark.parametrize(
    ("text", "asked", "kept"),
    [
        ("word " * 5_000, 0, 4),
        ("\u6587" * 20_000, 0, 4),
        ("x" * 20_000, 1, 4),
        ("x" * 20_000, 1, 5),
        ("syllable " * 3_000, 1, 100),
        ("x" * 20_000, 1, CONTEXT),
        ("x " * 9, 1, 4),
        (HALF, 1, 4),  # as many tokens as a cut question would have
    ],
)
async def test_a_question_that_a_server_would_cut_is_refused(
    text: str, asked: int, kept: int, name: str, passed_on: bool
) -> None:
    """A person would get an answer about the end of a document, and nobody would know.

    A server reads the beginning that it keeps and half of the rest, or as much as it can hold.
    """
    body: JsonValue = {"body": {"messages": [{"role": "user", "content": text}]}}
    job = work(text, passed_on=body if passed_on else None)
    served = Model("alpha:latest", kept=kept)
    async with serving("ollama", [served]) as server, connected(server) as backend:
        spec = model(name)
        await backend.load(spec)
        if len(text) <= len(HALF):
            assert (await answer(backend, spec, job)).text == ANSWER
        else:
            with pytest.raises(Rejected) as caught:
                await answer(backend, spec, job)
            assert caught.value.problem is not None
            assert caught.value.problem.what is ProblemKind.TOO_LONG
        assert len(server.posted("/v1/chat/completions")) == asked


@pytest.mark.parametrize("kind", ["lmstudio", "lmstudio-0.3"])
async def test_a_question_that_lm_studio_would_cut_or_leave_unanswered_is_too_long(
    kind: str,
) -> None:
    """A person would get an answer without its middle, or none without a reason."""
    usage = {"prompt_tokens": CONTEXT, "completion_tokens": 0, "total_tokens": CONTEXT}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        before = len(server.posted("/v1/chat/completions"))
        server.sent = [f"data: {json.dumps(end)}\n\n".encode()]
        for text in ("word " * 5_000, "x" * 17_000):
            with pytest.raises(Rejected) as caught:
                await answer(backend, model(), work(text))
            assert problem_of(caught.value).what is ProblemKind.TOO_LONG
        assert len(server.posted("/v1/chat/completions")) == before + 1


async def test_a_configured_context_is_that_of_a_server_that_tells_none() -> None:
    """Documents could not be used with servers that cut silently and report no context."""
    async with serving("generic") as server, connected(server) as backend:
        with pytest.raises(Rejected) as caught:
            await answer(backend, model(context_length=1000), work("word " * 2000))
        assert caught.value.problem is not None
        assert caught.value.problem.what is ProblemKind.TOO_LONG
        assert not server.posted("/v1/chat/completions")


LISTS = frozenset({"/v1/models", "/props", "/version", "/api/tags", "/api/ps", "/api/v1/models"})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lmstudio-0.3"])
async def test_a_wrong_key_is_found_behind_a_public_list(kind: str) -> None:
    """The server would be regarded as another kind, and every question would fail."""
    for public in ({"/v1/models"}, LISTS):
        async with serving(kind, token="right") as server:
            server.public = frozenset(public)
            server.models["alpha"].copies = ["alpha"]
            async with connected(server, token="wrong") as backend:
                with pytest.raises(KeyRefused):
                    await tried(backend)
                with pytest.raises(KeyRefused):
                    await answer(backend, model(), work())
                server.token = "wrong"
                assert (await backend.probe()).flavour == kind
                assert (await answer(backend, model(), work())).text == ANSWER


async def tried(backend: OpenAI) -> None:
    await backend.probe()
    await backend.admit()


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp"])
async def test_an_image_for_a_model_that_sees_nothing_is_told_to_the_person(kind: str) -> None:
    """Llama.cpp's status 500 would look like a server that is down."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.run(model(), work(files=(image(),)), lambda _: None)
        assert "image" in words(caught.value)


async def test_a_silent_connection_is_given_up_after_the_models_timeout() -> None:
    """A peer that vanished would hold a job forever."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.HANG)
        spec = ModelSpec(
            name="alpha",
            backends=("b",),
            capabilities=frozenset(),
            timeouts=Timeouts(first_s=0.05, idle_s=0.05),
        )
        with pytest.raises(Unavailable):
            await backend.run(spec, work(), lambda _: None)


async def test_a_server_that_drips_without_answering_can_be_cancelled() -> None:
    """A server that sends comments forever could not be abandoned."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.DRIP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.run(model(), work(), lambda _: None), 0.2)
        await server.until_idle()


async def test_a_server_that_is_away_is_unavailable_for_everything() -> None:
    """An outage would look like a fault of the job or of the configuration."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        await server.stop()
        for call in (
            backend.probe(),
            backend.load(model()),
            backend.unload(model()),
            backend.loaded([model()]),
            backend.verify(model()),
            backend.run(model(), work(), lambda _: None),
        ):
            with pytest.raises(Unavailable):
                await call


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_a_server_that_is_still_starting_blames_nobody(kind: str) -> None:
    """A llama.cpp that is still loading would look like a fault of the configuration."""
    async with serving(kind) as server, connected(server) as backend:
        server.starting = True
        for _ in range(2):
            for call in (
                backend.probe(),
                backend.load(model()),
                backend.loaded([model()]),
                backend.verify(model()),
                backend.run(model(), work(), lambda _: None),
            ):
                with pytest.raises(BackendError) as caught:
                    await call
                assert caught.value.retryable
            server.starting = False
            assert (await answer(backend, model(), work())).text == ANSWER
            server.starting = True


async def test_a_restarted_server_has_forgotten_its_models() -> None:
    """The queue would go on as if they were still in memory."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        await server.restart()
        assert await backend.loaded([model()]) == frozenset()
        with pytest.raises(NotLoaded):
            await backend.run(model(), work(), lambda _: None)


# ---------------------------------------------------------------- tokens


async def test_the_token_is_sent_and_its_refusal_explained_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A wrong token would be hard to find, or end up in the log."""
    async with serving("lmstudio", token="sk-lm-right:secret") as server:
        async with connected(server, token="sk-lm-right:secret") as backend:
            await backend.load(model())
            assert (await answer(backend, model(), work())).text == ANSWER
        async with connected(server, token="sk-lm-wrong:canary") as backend:
            with caplog.at_level("DEBUG"), pytest.raises(Unavailable, match="token") as caught:
                await backend.probe()
            assert "canary" not in str(caught.value)
    assert "canary" not in caplog.text


def test_a_setting_that_does_not_exist_is_named() -> None:
    """A misspelt setting would silently do nothing."""
    url = "http://127.0.0.1:9"
    with pytest.raises(BadModel, match=r"backends\.b\.flavor"):
        connect(BackendSpec(name="b", kind="openai", url=url, options={"flavor": "x"}))
    with pytest.raises(BadModel, match=r"backends\.b\.flavour.*ollama"):
        connect(BackendSpec(name="b", kind="openai", url=url, options={"flavour": "x"}))
    with pytest.raises(BadModel) as caught:
        connect(BackendSpec(name="b", kind="openai", url=url, options={"token": "böse"}))
    assert "böse" not in str(caught.value)


async def test_the_reason_of_an_empty_stream_is_read_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that answers everything with a flood of comments filled the memory."""
    limits: list[int] = []

    async def flooded(*_: object, limit: int, **__: object) -> None:
        limits.append(limit)
        raise UnreadableAnswer("too much")

    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.SILENT)
        monkeypatch.setattr(Http, "post_json", flooded)
        with pytest.raises(UnreadableAnswer):
            await backend.run(model(), work(), lambda _: None)
    assert limits == [EVENT_LIMIT] * 2
