"""The text backend with fakes of the servers it knows, over real sockets."""

import asyncio
import base64
import io

import pytest
from PIL import Image

from backends.registry import connect
from queueing.core.errors import (
    BadModel,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    Rejected,
    ShortOfMemory,
    Unavailable,
)
from queueing.core.requests import (
    Capability,
    Chat,
    File,
    Output,
    Progress,
    TextToImage,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.backends.openai.asking import (
    ALL,
    ANSWER,
    MUTE,
    TOLD,
    answer,
    connected,
    image,
    model,
    work,
)
from tests.fakes.llm.llm import FakeLlm as Fake
from tests.fakes.llm.llm import LoadFault, Model, serving
from tests.told import words

# ---------------------------------------------------------------- every flavour


@pytest.mark.parametrize("kind", ALL)
async def test_a_model_is_found_loaded_and_asked_on_every_flavour(kind: str) -> None:
    """One of the supported servers could not be used at all."""
    async with serving(kind) as server, connected(server) as backend:
        info = await backend.probe()
        assert info.description
        await backend.verify(model())
        await backend.load(model())
        assert await answer(backend, model(), work()) == Output(text=ANSWER)
        expected = None if kind in MUTE else frozenset({"alpha"})
        assert await backend.loaded([model(), model("beta")]) == expected
        assert backend.can_unload is (kind in TOLD)
        if backend.can_unload:
            await backend.unload(model())
            assert server.models["alpha"].copies == []


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_concurrent_loads_make_one_copy(kind: str) -> None:
    """Two simultaneous first requests would take the memory twice."""
    async with serving(kind) as server, connected(server) as backend:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(backend.load(model()))
        assert server.models["alpha"].loads == 1
        assert len(server.models["alpha"].copies) == 1


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_a_job_for_a_model_somebody_unloaded_loads_nothing_by_itself(kind: str) -> None:
    """A server would load a model without the queue's knowledge, over the memory budget."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        server.models["alpha"].copies = []
        with pytest.raises(NotLoaded):
            await backend.run(model(), work(), lambda _: None)
        assert server.models["alpha"].loads == 1


@pytest.mark.parametrize("kind", ["lmstudio", "ollama"])
async def test_what_other_programs_had_loaded_is_told_with_its_size(kind: str) -> None:
    """The next load would be sent into memory that a person's chat program occupies."""
    async with serving(kind) as server, connected(server) as backend:
        server.models["beta"].copies = ["beta"]
        await backend.load(model())
        (held,) = (await backend.held_besides([model()])).items()
        assert held[0] == "beta"
        assert 4096 <= held[1] <= 4096 * 1.2 + 512
        server.models["beta"].copies = []
        assert await backend.held_besides([model()]) == {}
        assert list(await backend.held_besides([])) == ["alpha"]


async def test_a_second_copy_is_counted_beside_the_one_of_the_catalog() -> None:
    """LM Studio loads a second copy for another program that asks, and takes twice the memory."""
    async with serving("lmstudio") as server, connected(server) as backend:
        server.models["alpha"].copies = ["alpha", "alpha:2"]
        held = await backend.held_besides([model()])
        assert held == {"alpha": round(4096 * 1.2) + 512}


async def test_ollama_counts_what_is_on_the_gpu_and_what_it_lists_no_more() -> None:
    """A deleted model occupies its memory until it expires."""
    async with serving("ollama") as server, connected(server) as backend:
        beta = server.models["beta"]
        beta.copies, beta.deleted, beta.on_gpu = ["beta"], True, 0.5
        whole_mb = (beta.size + beta.context * 1024) // 1024**2
        assert await backend.held_besides([model()]) == {"beta": pytest.approx(whole_mb / 2, abs=1)}
        beta.on_gpu = 0.0
        assert await backend.held_besides([model()]) == {"beta": pytest.approx(whole_mb, abs=1)}


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_a_load_that_finds_no_memory_says_so(kind: str) -> None:
    """Nothing would be unloaded for it, and it would fail forever."""
    async with serving(kind) as server, connected(server) as backend:
        server.load_faults.append(LoadFault.OOM)
        # The router says only that its process ended.
        error = {"llamacpp-router": ModelCrashed, "ollama": ShortOfMemory}.get(kind, OutOfMemory)
        with pytest.raises(error):
            await backend.load(model())
        assert await backend.loaded([model()]) == frozenset()
        await backend.load(model())
        assert await backend.loaded([model()]) == frozenset({"alpha"})


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "lmstudio-0.3"])
async def test_a_server_that_cannot_unload_says_so_to_the_admin(kind: str) -> None:
    """/unload would report memory as free that is not."""
    async with serving(kind) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await backend.unload(model())
        assert words(caught.value)
        assert (await backend.probe()).notes


@pytest.mark.parametrize(("kept", "advised"), [(4, True), (0, False)])
async def test_a_router_started_as_advised_is_not_advised_again(kept: int, advised: bool) -> None:
    """An operator who did what `usher check` says would look for a mistake."""
    async with serving("llamacpp-router") as server, connected(server) as backend:
        server.max_instances = kept
        assert bool((await backend.probe()).notes) is advised


@pytest.mark.parametrize("kind", ALL)
async def test_an_unknown_model_is_a_fault_of_the_configuration(kind: str) -> None:
    """A typing error would be retried forever, or answered by another model."""
    async with serving(kind) as server, connected(server) as backend:
        with pytest.raises(BadModel, match=r"models\.gamma\.model.*alpha"):
            await backend.verify(model("gamma"))
        with pytest.raises(BadModel):
            await backend.load(model("gamma"))


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3", "generic", "vllm"])
async def test_every_model_that_writes_is_offered_under_a_name_people_can_type(kind: str) -> None:
    """`discover: true` would offer nothing usable."""
    models = [
        Model("acme/Writer-7B"),
        Model("acme/Seer", vision=True),
        Model("other/Seer"),
        Model("acme/embedder", chats=kind not in {"lmstudio", "lmstudio-0.3", "ollama"}),
    ]
    if kind == "vllm":
        models = models[:1]
    async with serving(kind, models) as server, connected(server) as backend:
        offered = {spec.name: spec for spec in await backend.discover()}
        assert "writer-7b" in offered
        assert all(spec.backends == ("b",) for spec in offered.values())
        if kind in {"lmstudio", "ollama", "lmstudio-0.3"}:
            assert set(offered) == {"writer-7b", "acme-seer", "other-seer", "embedder"}
            assert offered["embedder"].capabilities == {Capability.EMBEDDING}
            assert Capability.VISION in offered["acme-seer"].capabilities
            assert Capability.VISION not in offered["other-seer"].capabilities
        await backend.load(offered["writer-7b"])
        assert (await answer(backend, offered["writer-7b"], work())).text == ANSWER


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3", "generic", "vllm"])
async def test_a_configured_model_is_not_offered_again_under_its_servers_name(kind: str) -> None:
    """It would have two entries, count in memory twice, and be unloaded while it answers."""
    async with serving(kind) as server, connected(server) as backend:
        offered = {spec.name for spec in await backend.discover([model("helper", model="alpha")])}
        assert offered == ({"beta"} if len(server.models) > 1 else set())


async def test_a_flavour_can_be_named_where_it_cannot_be_found_out() -> None:
    """A server whose proxy hides its own calls could not be used fully."""
    async with serving("llamacpp") as server, connected(server, flavour="generic") as backend:
        assert await backend.loaded([model()]) is None


async def test_a_server_that_becomes_another_one_is_noticed() -> None:
    """After an update, the server would be treated as the old one until a restart."""
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
    """A wrong port would look like a server without models."""
    async with serving("llamaswap") as server:
        spec = BackendSpec(name="b", kind="lmstudio", url=server.url)
        backend = connect(spec)
        with pytest.raises(Unavailable, match="LM Studio"):
            await backend.probe()
        await backend.aclose()


# ---------------------------------------------------------------- answers


async def test_progress_holds_the_whole_answer_so_far() -> None:
    """Each edit would show only the newest piece."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.hold.clear()
        server.words = ("Cats", "sat", "on", "mats")
        seen: asyncio.Queue[Progress] = asyncio.Queue()
        task = asyncio.create_task(backend.run(model(), work(), seen.put_nowait))
        first = await seen.get()
        assert first.text
        assert "Cats sat on mats".startswith(first.text)
        server.hold.set()
        assert (await (await task)()).text == "Cats sat on mats"


async def test_a_fast_answer_is_not_reported_token_by_token() -> None:
    """A server that sends a thousand tokens a second would flood the presenter."""
    async with serving() as server, connected(server) as backend:
        await backend.load(model())
        server.words = ["word"] * 3000
        seen: list[Progress] = []
        fetch = await backend.run(model(), work(), seen.append)
        assert len((await fetch()).text.split()) == 3000
        assert 1 <= len(seen) <= 300


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp-router", "ollama"])
async def test_cancelling_a_load_ends_with_the_call(kind: str) -> None:
    """A load that hangs could not be cancelled."""
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
    """An option would do nothing."""
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
    """A conversation could not continue once it fills the model's context."""
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


async def test_images_arrive_as_small_jpeg_data(subtests: pytest.Subtests) -> None:
    """LM Studio would refuse them (it does not accept WebP), or a photo would fill the context."""
    for kind in ["PNG", "WEBP", "JPEG", "GIF"]:
        with subtests.test(kind=kind):
            async with serving("lmstudio", [Model("alpha", vision=True)]) as server:
                async with connected(server) as backend:
                    await backend.load(model())
                    await answer(backend, model(), work(files=(image(kind, (3000, 200)),)))
                parts = server.posted("/v1/chat/completions")[0]["messages"][-1]["content"]
                assert parts[0] == {"type": "text", "text": "tell me"}
                head, _, data = parts[1]["image_url"]["url"].partition(",")
                assert head == "data:image/jpeg;base64"
                with Image.open(io.BytesIO(base64.b64decode(data))) as sent:
                    assert sent.format == "JPEG"
                    assert max(sent.size) <= 1568


async def test_a_file_that_is_no_image_is_refused_with_a_sentence(
    subtests: pytest.Subtests,
) -> None:
    """It would crash the attempt, or be retried in vain."""
    for data in [b"", b"no image", b"\x89PNG\r\n\x1a\n broken", image().data[:60]]:
        with subtests.test(data=data):
            async with serving() as server, connected(server) as backend:
                await backend.load(model())
                with pytest.raises(Rejected) as caught:
                    await backend.run(
                        model(),
                        work(files=(File(name="x.png", mime="image/png", data=data),)),
                        lambda _: None,
                    )
                assert "image" in words(caught.value)
                assert not server.posted("/v1/chat/completions")


async def test_a_drawing_is_not_asked_of_a_text_server() -> None:
    """A prompt for an image would be answered with prose."""
    async with serving() as server, connected(server) as backend:
        job = Work(key="k", request=TextToImage(prompt="x"))
        with pytest.raises(Rejected):
            await backend.run(model(), job, lambda _: None)
        draws = ModelSpec(
            name="d", backends=("b",), capabilities=frozenset({Capability.TEXT_TO_IMAGE})
        )
        with pytest.raises(BadModel, match=r"models\.d\.capabilities"):
            backend.check(draws)
