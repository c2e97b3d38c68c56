"""The text backend against fakes of the servers it knows, over real sockets."""

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from PIL import Image
from pydantic import JsonValue

from backends import connect
from backends.openai import OpenAI
from queueing.catalog import BackendSpec, ModelSpec, Timeouts
from queueing.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    OutOfMemory,
    Rejected,
    Unavailable,
)
from queueing.requests import (
    Capability,
    Chat,
    ChatMessage,
    File,
    Output,
    Progress,
    TextToImage,
    Work,
)
from tests.fakes.llm import FakeLlm as Fake
from tests.fakes.llm import Fault, LoadFault, Model, serving

ANSWER = "the cat sat on the mat"
TOLD = ("lmstudio", "ollama", "llamacpp-router", "llamaswap")  # those that load and unload
MUTE = ("llama-cpp-python", "generic")  # those that do not tell what is loaded
ALL = (*TOLD, "lmstudio-0.3", "llamacpp", "vllm", *MUTE)


def model(name: str = "alpha", **options: JsonValue) -> ModelSpec:
    return ModelSpec(
        name=name,
        backends=("b",),
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        options=options,
    )


def work(text: str = "tell me", *, files: tuple[File, ...] = (), **fields: JsonValue) -> Work:
    pictures = tuple(range(len(files)))
    message = ChatMessage(role="user", text=text, pictures=pictures)
    return Work(
        key="k", request=Chat.model_validate({"messages": (message,), **fields}), files=files
    )


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> File:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return File(name="x", mime="image/x", data=buffer.getvalue())


@asynccontextmanager
async def connected(server: Fake, **options: JsonValue) -> AsyncIterator[OpenAI]:
    kind = "lmstudio" if server.kind.startswith("lmstudio") else "openai"
    backend = connect(BackendSpec(name="b", kind=kind, url=server.url, options=options))
    assert isinstance(backend, OpenAI)
    try:
        yield backend
    finally:
        await backend.aclose()


async def answer(backend: OpenAI, spec: ModelSpec, job: Work) -> Output:
    fetch = await backend.run(spec, job, lambda _: None)
    return await fetch()


# ---------------------------------------------------------------- every flavour


@pytest.mark.parametrize("kind", ALL)
async def test_a_model_is_found_loaded_and_asked_on_every_flavour(kind: str) -> None:
    """Otherwise one of the supported servers could not be used at all."""
    async with serving(kind) as server, connected(server) as backend:
        info = await backend.probe()
        assert info.description
        await backend.verify(model())
        await backend.load(model())
        assert await answer(backend, model(), work()) == Output(text=ANSWER)
        expected = None if kind in MUTE else frozenset({"alpha"})
        assert await backend.loaded([model(), model("beta")]) == expected
        assert backend.can_unload is (kind in TOLD)


@pytest.mark.parametrize("kind", TOLD)
async def test_loading_and_unloading_change_what_is_loaded(kind: str) -> None:
    """Otherwise memory would be promised that is not free, or a job started on nothing."""
    async with serving(kind) as server, connected(server) as backend:
        assert await backend.loaded([model()]) == frozenset()
        await backend.load(model())
        await backend.load(model())
        assert server.models["alpha"].loads == 1
        await backend.unload(model())
        await backend.unload(model())
        assert await backend.loaded([model()]) == frozenset()
        assert server.models["alpha"].copies == []


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_concurrent_loads_make_one_copy(kind: str) -> None:
    """Otherwise two first requests would take the memory twice."""
    async with serving(kind) as server, connected(server) as backend:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(backend.load(model()))
        assert server.models["alpha"].loads == 1
        assert len(server.models["alpha"].copies) == 1


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_a_job_for_a_model_somebody_unloaded_loads_nothing_by_itself(kind: str) -> None:
    """Otherwise a server would load behind the queue's back, over the memory budget."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        server.models["alpha"].copies = []
        with pytest.raises(NotLoaded):
            await backend.run(model(), work(), lambda _: None)
        assert server.models["alpha"].loads == 1


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_a_load_that_finds_no_memory_says_so(kind: str) -> None:
    """Otherwise nothing would be evicted for it and it would fail for ever."""
    async with serving(kind) as server, connected(server) as backend:
        server.load_faults.append(LoadFault.OOM)
        with pytest.raises(OutOfMemory):
            await backend.load(model())
        assert await backend.loaded([model()]) == frozenset()
        await backend.load(model())
        assert await backend.loaded([model()]) == frozenset({"alpha"})


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "lmstudio-0.3"])
async def test_a_server_that_cannot_unload_says_so_to_the_admin(kind: str) -> None:
    """Otherwise /unload would report memory as free that is not."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.unload(model())
        assert caught.value.user_text
        assert (await backend.probe()).notes


@pytest.mark.parametrize("kind", ALL)
async def test_an_unknown_model_is_a_fault_of_the_configuration(kind: str) -> None:
    """Otherwise a typing error would be retried for ever, or answered by another model."""
    async with serving(kind) as server, connected(server) as backend:
        with pytest.raises(BadModel, match=r"models\.gamma\.model.*alpha"):
            await backend.verify(model("gamma"))
        with pytest.raises(BadModel):
            await backend.load(model("gamma"))


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3", "generic", "vllm"])
async def test_every_model_that_writes_is_offered_under_a_name_people_can_type(kind: str) -> None:
    """Otherwise `discover: true` would offer nothing usable."""
    models = [
        Model("acme/Writer-7B"),
        Model("acme/Seer", vision=True),
        Model("other/Seer"),
        Model("acme/embedder", chats=kind in {"generic", "vllm", "llamaswap", "llamacpp-router"}),
    ]
    if kind == "vllm":
        models = models[:1]
    async with serving(kind, models) as server, connected(server) as backend:
        offered = {spec.name: spec for spec in await backend.discover()}
        assert "writer-7b" in offered
        assert all(spec.backends == ("b",) for spec in offered.values())
        if kind in {"lmstudio", "ollama", "lmstudio-0.3"}:
            assert set(offered) == {"writer-7b", "acme-seer", "other-seer"}
            assert Capability.VISION in offered["acme-seer"].capabilities
            assert Capability.VISION not in offered["other-seer"].capabilities
        await backend.load(offered["writer-7b"])
        assert (await answer(backend, offered["writer-7b"], work())).text == ANSWER


async def test_a_flavour_can_be_named_where_it_cannot_be_found_out() -> None:
    """Otherwise a server behind a proxy that hides its own calls could not be used fully."""
    async with serving("llamacpp") as server, connected(server, flavour="generic") as backend:
        assert await backend.loaded([model()]) is None


async def test_a_server_that_becomes_another_one_is_noticed() -> None:
    """Otherwise an updated server would be spoken to as the old one until a restart."""
    async with serving("lmstudio-0.3") as old, connected(old) as backend:
        assert "0.3" in (await backend.probe()).description
        port = old.port
        await old.stop()
        new = Fake("lmstudio", port=port)
        await new.start()
        assert "0.4" in (await backend.probe()).description
        assert backend.can_unload
        await new.stop()


async def test_something_else_at_the_address_is_told_from_a_text_server() -> None:
    """Otherwise a wrong port would look like a server without models."""
    async with serving("llamaswap") as server:
        spec = BackendSpec(name="b", kind="lmstudio", url=server.url)
        backend = connect(spec)
        with pytest.raises(Unavailable, match="LM Studio"):
            await backend.probe()
        await backend.aclose()


# ---------------------------------------------------------------- answers


async def test_progress_holds_the_whole_answer_so_far() -> None:
    """Otherwise an edit would show the newest piece only."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.hold.clear()
        seen: asyncio.Queue[Progress] = asyncio.Queue()
        task = asyncio.create_task(backend.run(model(), work(), seen.put_nowait))
        first = await seen.get()
        assert first.text
        assert ANSWER.startswith(first.text)
        server.hold.set()
        assert (await (await task)()).text == ANSWER


async def test_a_fast_answer_is_not_reported_token_by_token() -> None:
    """Otherwise a server of a thousand tokens a second would flood the presenter."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.words = ["word"] * 3000
        seen: list[Progress] = []
        fetch = await backend.run(model(), work(), seen.append)
        assert len((await fetch()).text.split()) == 3000
        assert 1 <= len(seen) <= 300


async def test_cancelling_closes_the_connection_and_stops_the_server() -> None:
    """Otherwise a cancelled answer would hold its slot until it is written."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.hold.clear()
        task = asyncio.create_task(backend.run(model(), work(), lambda _: None))
        await server.until_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_idle()
        assert server.aborted == 1


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp-router", "ollama"])
async def test_cancelling_a_load_ends_with_the_call(kind: str) -> None:
    """Otherwise a load that hangs could not be given up."""
    async with serving(kind) as server, connected(server) as backend:
        server.load_faults.append(LoadFault.HANG)
        task = asyncio.create_task(backend.load(model()))
        await server.until_loading("alpha")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await backend.loaded([model()]) == frozenset()
        await backend.load(model())
        assert await backend.loaded([model()]) == frozenset({"alpha"})


async def test_settings_of_the_model_and_of_the_request_reach_the_server() -> None:
    """Otherwise an option would do nothing."""
    async with serving() as server, connected(server) as backend:
        spec = model(
            "writer",
            model="alpha",
            system="be brief",
            max_tokens=4,
            temperature=0.5,
            context_length=2048,
        )
        await backend.load(spec)
        assert server.posted("/api/v1/models/load") == [{"model": "alpha", "context_length": 2048}]
        assert (await answer(backend, spec, work())).text == "the cat sat on"
        await answer(backend, spec, work(max_tokens=2, temperature=1.5))
        first, second = server.posted("/v1/chat/completions")
        assert first["model"] == "alpha"
        assert first["messages"][0] == {"role": "system", "content": "be brief"}
        assert (first["max_tokens"], first["temperature"]) == (4, 0.5)
        assert (second["max_tokens"], second["temperature"]) == (2, 1.5)


@pytest.mark.parametrize("kind", ["lmstudio", "ollama", "llamacpp", "llamacpp-router", "vllm"])
async def test_a_long_conversation_is_cut_to_the_context_the_server_tells(kind: str) -> None:
    """Otherwise a conversation could not go on once it fills the model's context."""
    turns = [
        {"role": role, "text": f"{number} " * 700}
        for number in range(10)
        for role in ("user", "assistant")
    ]
    messages = (*turns, {"role": "user", "text": "and now?"})
    chat = Chat.model_validate({"messages": messages, "max_tokens": 2})
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        output = await answer(backend, model(), Work(key="k", request=chat))
        assert output.text == "the cat"
        sent = server.posted("/v1/chat/completions")[0]["messages"]
        assert 1 < len(sent) < len(messages)
        assert sent[-1]["content"] == "and now?"


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG", "GIF"])
async def test_pictures_arrive_as_small_jpeg_data(kind: str) -> None:
    """Otherwise LM Studio refuses them (it takes no WebP), or a photo fills the context."""
    async with serving("lmstudio", [Model("alpha", vision=True)]) as server:
        async with connected(server) as backend:
            await backend.load(model())
            await answer(backend, model(), work(files=(picture(kind, (3000, 200)),)))
        parts = server.posted("/v1/chat/completions")[0]["messages"][-1]["content"]
        assert parts[0] == {"type": "text", "text": "tell me"}
        head, _, data = parts[1]["image_url"]["url"].partition(",")
        assert head == "data:image/jpeg;base64"
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            assert image.format == "JPEG"
            assert max(image.size) <= 1568


@pytest.mark.parametrize(
    "data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n broken", picture().data[:60]]
)
async def test_a_file_that_is_no_picture_is_refused_with_a_sentence(data: bytes) -> None:
    """Otherwise it would crash the attempt, or be retried for nothing."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.run(
                model(),
                work(files=(File(name="x.png", mime="image/png", data=data),)),
                lambda _: None,
            )
        assert "picture" in caught.value.user_text
        assert not server.posted("/v1/chat/completions")


async def test_a_drawing_is_not_asked_of_a_text_server() -> None:
    """Otherwise a prompt for a picture would come back as prose."""
    async with serving() as server, connected(server) as backend:
        job = Work(key="k", request=TextToImage(prompt="x"))
        with pytest.raises(Rejected):
            await backend.run(model(), job, lambda _: None)
        draws = ModelSpec(
            name="d", backends=("b",), capabilities=frozenset({Capability.TEXT_TO_IMAGE})
        )
        with pytest.raises(BadModel, match=r"models\.d\.capabilities"):
            backend.check(draws)


async def test_an_answer_in_flight_is_unknown_after_a_restart_of_usher() -> None:
    """Otherwise recovery would wait for an answer no server keeps."""
    async with serving() as server, connected(server) as backend:
        assert await backend.resume(model(), work(), lambda _: None) is None


# ---------------------------------------------------------------- faults

FAULTS: dict[Fault, type[BackendError]] = {
    Fault.BUSY: Unavailable,
    Fault.LIMIT: Unavailable,
    Fault.CUT: Unavailable,
    Fault.ERROR_200: Unavailable,
    Fault.ERROR_EVENT: Unavailable,
    Fault.GARBAGE: Unavailable,
    Fault.HTML: Unavailable,
    Fault.OOM: OutOfMemory,
    Fault.CRASH: Unavailable,
    Fault.UNLOADED: NotLoaded,
    Fault.EMPTY: Rejected,
    Fault.THOUGHTS: Rejected,
    Fault.SILENT: Unavailable,
    Fault.BROKEN: Unavailable,
    Fault.INTERRUPTED: Unavailable,
    Fault.ERROR_INSIDE: Rejected,
    Fault.WRONG_MODEL: BadModel,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_of_a_server_becomes_the_right_error(fault: Fault) -> None:
    """Otherwise a job would be retried for nothing, failed too early, or delivered half."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(fault)
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(backend.run(model(), work(), lambda _: None), 10)
        assert isinstance(caught.value, FAULTS[fault])
        if not caught.value.retryable:
            assert caught.value.user_text
        if fault is not Fault.UNLOADED and fault is not Fault.CRASH:
            assert (await answer(backend, model(), work())).text == ANSWER  # and it goes on


async def test_an_answer_that_was_not_streamed_is_still_an_answer() -> None:
    """Otherwise a server that ignores `stream` could not be used."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.NOT_STREAMED)
        assert (await answer(backend, model(), work())).text == ANSWER


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp", "llama-cpp-python", "generic"])
async def test_a_question_longer_than_the_context_is_told_to_the_person(kind: str) -> None:
    """Otherwise it would be retried for nothing and end in a riddle."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.run(model(), work("word " * 50_000), lambda _: None)
        assert "shorten" in caught.value.user_text


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp"])
async def test_a_picture_for_a_model_that_sees_nothing_is_told_to_the_person(kind: str) -> None:
    """Otherwise llama.cpp's status 500 would look like a dead server."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.run(model(), work(files=(picture(),)), lambda _: None)
        assert "picture" in caught.value.user_text


async def test_a_silent_connection_is_given_up_after_the_models_timeout() -> None:
    """Otherwise a peer that vanished would hold a job for ever."""
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
    """Otherwise a server that sends comments for ever could not be given up."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.faults.append(Fault.DRIP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.run(model(), work(), lambda _: None), 0.2)
        await server.until_idle()


async def test_a_server_that_is_away_is_unavailable_for_everything() -> None:
    """Otherwise an outage would look like a fault of the job or of the configuration."""
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
async def test_a_server_that_is_still_starting_is_unavailable_for_everything(kind: str) -> None:
    """Otherwise a llama.cpp that reads its model would look like a fault of the configuration."""
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
                with pytest.raises(Unavailable):
                    await call
            server.starting = False
            assert (await answer(backend, model(), work())).text == ANSWER
            server.starting = True


async def test_a_restarted_server_has_forgotten_its_models() -> None:
    """Otherwise the queue would go on as if they were in memory."""
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
    """Otherwise a wrong token would be a riddle, or end up in the log."""
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
    """Otherwise a misspelt setting would silently do nothing."""
    url = "http://127.0.0.1:9"
    with pytest.raises(BadModel, match=r"backends\.b\.flavor"):
        connect(BackendSpec(name="b", kind="openai", url=url, options={"flavor": "x"}))
    with pytest.raises(BadModel, match=r"backends\.b\.flavour.*ollama"):
        connect(BackendSpec(name="b", kind="openai", url=url, options={"flavour": "x"}))
    with pytest.raises(BadModel) as caught:
        connect(BackendSpec(name="b", kind="openai", url=url, options={"token": "böse"}))
    assert "böse" not in str(caught.value)
