"""Vectors from each kind of text server: what is sent, what comes back, what is not believed."""

import base64
import struct
from dataclasses import replace
from typing import Any

import pytest

from backends.common.vectors import numbers, vectors_of
from backends.demo.backend import Demo
from backends.openai.backend import OpenAI
from backends.openai.embeddings import _checked
from queueing.core.errors import (
    BadModel,
    NotLoaded,
    ProblemKind,
    Rejected,
    UnreadableAnswer,
)
from queueing.core.requests import (
    Capability,
    Embed,
    EmbedInput,
    File,
    ImageInput,
    Output,
    Progress,
    Work,
)
from queueing.core.specs import EMBEDDING_S, BackendSpec, ModelSpec
from tests.backends.openai.asking import ALL, TOLD, connected, image, model
from tests.fakes.llm.llm import FakeLlm, Fault, Model, serving
from tests.fakes.llm.llm_embeddings import DIMENSIONS, MARKER, PACKS, vector_of
from tests.samples import in_turn

TAKES_TOKENS = ("llamacpp-router", "llamacpp", "llamaswap", "vllm", "generic")
EMBEDS = Capability.EMBEDDING
IMAGES = Capability.IMAGE_EMBEDDING


def embedder(*able: Capability, name: str = "alpha") -> ModelSpec:
    return ModelSpec(name=name, backends=("b",), capabilities=frozenset(able or (EMBEDS,)))


def models() -> list[Model]:
    return [Model("alpha", chats=False, embeds=True), Model("beta")]


async def embedded(
    backend: OpenAI,
    *inputs: EmbedInput,
    dimensions: int | None = None,
    files: tuple[File, ...] = (),
    reports: list[Progress] | None = None,
    spec: ModelSpec | None = None,
) -> Output:
    request = Embed(inputs=inputs, dimensions=dimensions)
    heard = [] if reports is None else reports
    work = Work(key="k", request=request, files=files)
    return await (await backend.run(spec or embedder(), work, heard.append))()


def vectors(output: Output, count: int) -> list[list[float]]:
    (file,) = output.files
    return [numbers(packed) for packed in vectors_of(file, count)]


def path_of(server: FakeLlm) -> str:
    return "/api/embed" if server.kind == "ollama" else "/v1/embeddings"


@pytest.mark.parametrize("kind", ALL)
async def test_a_batch_comes_back_in_its_order(kind: str) -> None:
    """A program would store each vector with the wrong text."""
    texts = [f"text {n}" for n in range(70)]
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        reports: list[Progress] = []
        output = await embedded(backend, *texts, reports=reports)
        assert vectors(output, 70) == [vector_of(text) for text in texts]
        fractions = [report.fraction for report in reports if report.fraction is not None]
        assert fractions == sorted(set(fractions))
        assert fractions[-1] == 1
        sent = server.posted(path_of(server))[1:]
        assert kind in PACKS or all(len(each["input"]) <= 32 for each in sent)
        packed = {each.get("encoding_format", "base64") for each in sent}
        assert packed == {"base64"}  # ten times as quick to read as numbers in words


@pytest.mark.parametrize("kind", PACKS)
async def test_base64_is_kept_as_it_came(kind: str) -> None:
    """Decoding, storing and encoding a million numbers takes longer than many servers compute."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        (file,) = (await embedded(backend, "a", "b")).files
        sent = [base64.b64encode(struct.pack("<8f", *vector_of(text))) for text in "ab"]
        assert file.data == b"".join(sent)


@in_turn("at", range(24))
def test_a_number_that_is_not_finite_is_found_wherever_it_is(at: int) -> None:
    """The base64 is not decoded; only some of its letters reveal such a number."""
    for bits, finite in ((0x7F800000, 0), (0xFFC00001, 0), (0x7F7FFFFF, 1), (0xBF800000, 1)):
        values = [0x3E99999A] * 24
        values[at] = bits
        for length in (24, 23, 22):
            row = base64.b64encode(struct.pack(f"<{length}I", *values[:length])).decode()
            if finite or at >= length:
                assert _checked(row) == row.encode()
            else:
                with pytest.raises(UnreadableAnswer, match="not finite"):
                    _checked(row)


def test_only_the_base64_of_whole_floats_is_passed_on() -> None:
    whole = base64.b64encode(struct.pack("<4f", 0.25, 0.5, -0.5, 3.0)).decode()
    assert _checked(whole) == whole.encode()
    wrong = ["", "=", "====", whole[:-2], whole[:-4], f"{whole}AAAA", f"{whole[:-1]}A", "AAA="]
    places = range(0, len(whole), 5)
    wrong += [f"{whole[:at]}{sign}{whole[at + 1 :]}" for at in places for sign in "-_= \n!é\0"]
    for row in wrong:
        with pytest.raises(UnreadableAnswer):
            _checked(row)


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.FEWER, Fault.ERROR_200])
async def test_a_piece_that_is_too_large_is_asked_for_in_small_ones(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers accept 32 inputs at once and refuse more, each with its own message.

    The number of inputs that a model answers in time is used for its next batch.
    """
    monkeypatch.setattr("backends.openai.embeddings.SOON_S", 1000.0)
    texts = [f"text {n}" for n in range(100)]
    async with serving("vllm", models()) as server, connected(server) as backend:
        for faults, asked in (
            ([Fault.NONE, fault], [32, 68, 32, 32, 4]),
            ([], [32, 68]),
            ([], [100]),
            ([fault], [100, 32, 32, 32, 4]),
            ([], [32, 68]),
        ):
            server.faults.extend(faults)
            before = len(server.posted("/v1/embeddings"))
            output = await embedded(backend, *texts)
            assert vectors(output, 100) == [vector_of(text) for text in texts]
            sent = server.posted("/v1/embeddings")[before:]
            assert [len(each["input"]) for each in sent] == asked
            await embedded(backend, "one")  # says nothing about many


async def test_a_slow_server_is_asked_for_little_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled batch would run on, and its progress could not be seen."""
    monkeypatch.setattr("backends.openai.embeddings.SOON_S", 0.0)
    async with serving("vllm", models()) as server, connected(server) as backend:
        await embedded(backend, *map(str, range(70)))
        sizes = [len(each["input"]) for each in server.posted("/v1/embeddings")]
        assert sizes == [32, 32, 6]


@pytest.mark.parametrize("kind", ALL)
async def test_the_tokens_are_those_the_server_counted(kind: str) -> None:
    """A program's bill would be based on a guess."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        output = await embedded(backend, "one two three", "four")
        told = 0 if kind.startswith("lmstudio") else 6
        assert output.answer == f'{{"prompt_tokens": {told}}}'


@pytest.mark.parametrize("kind", ALL)
async def test_tokens_go_where_they_are_understood(kind: str) -> None:
    """A server that only reads texts answers with an error of its own, or with nonsense."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        if kind in TAKES_TOKENS:
            output = await embedded(backend, (1, 2, 3), (4,))
            assert vectors(output, 2) == [vector_of([1, 2, 3]), vector_of([4])]
            return
        before = len(server.posted(path_of(server)))
        with pytest.raises(Rejected) as refused:
            await embedded(backend, (1, 2, 3))
        assert refused.value.problem is not None
        assert refused.value.problem.what is ProblemKind.NO_TOKENS
        assert len(server.posted(path_of(server))) == before


@pytest.mark.parametrize("kind", ALL)
async def test_dimensions_are_as_asked_or_refused(kind: str) -> None:
    """Vectors of another length would be stored beside those of the right one."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        assert len(vectors(await embedded(backend, "a"), 1)[0]) == DIMENSIONS
        if kind in {"ollama", "generic"}:
            assert len(vectors(await embedded(backend, "a", dimensions=4), 1)[0]) == 4
        for asked in (4, 9) if kind not in {"ollama", "generic"} else (9,):
            with pytest.raises(Rejected) as refused:
                await embedded(backend, "a", dimensions=asked)
            assert refused.value.problem is not None
            assert refused.value.problem.what is ProblemKind.NO_DIMENSIONS


async def test_a_text_that_is_too_long_is_refused_and_not_cut(subtests: pytest.Subtests) -> None:
    """Ollama would embed only the beginning, without saying so."""
    for kind in ["ollama", "llamacpp", "vllm", "generic"]:
        with subtests.test(kind=kind):
            async with serving(kind, models()) as server, connected(server) as backend:
                await backend.load(embedder())
                with pytest.raises(Rejected) as refused:
                    await embedded(backend, "short", "word " * 9000)
                assert refused.value.problem is not None
                assert refused.value.problem.what is ProblemKind.TOO_LONG


@pytest.mark.parametrize("kept", [False, True])
async def test_ollamas_own_time_out_counts_unless_an_admin_keeps_the_model(kept: bool) -> None:
    """A model loaded without expiry was never dropped, whatever OLLAMA_KEEP_ALIVE said."""
    spec = replace(embedder(), preload=kept)
    async with serving("ollama", models()) as server, connected(server) as backend:
        await backend.load(spec)
        await embedded(backend, "a", spec=spec)
        sent = [body.get("keep_alive") for body in server.posted("/api/embed")]
        assert sent == ([-1, -1] if kept else [None, None])


FAULTS = (
    Fault.FEWER,
    Fault.UNEVEN,
    Fault.NOT_FINITE,
    Fault.NO_NUMBERS,
    Fault.EMPTY,
    Fault.NO_BASE64,
    Fault.BROKEN_OFF,
    Fault.HTML,
)


@pytest.mark.parametrize("kind", ["ollama", "generic", "llamacpp"])
async def test_what_is_no_answer_is_not_believed(kind: str, subtests: pytest.Subtests) -> None:
    """No one notices a wrong vector: it only makes every search a little worse."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        for fault in FAULTS:
            server.faults.append(fault)
            with subtests.test(fault=fault), pytest.raises(UnreadableAnswer):
                await embedded(backend, "a", "b")
            assert vectors(await embedded(backend, "a"), 1) == [vector_of("a")]


async def test_the_order_is_that_of_the_indexes() -> None:
    """Servers that answer in parallel need not keep the order."""
    async with serving("generic", models()) as server, connected(server) as backend:
        server.faults.extend([Fault.SHUFFLED, Fault.NO_INDEX, Fault.TWICE])
        for _ in range(2):
            assert vectors(await embedded(backend, "a", "b"), 2) == [vector_of("a"), vector_of("b")]
        with pytest.raises(UnreadableAnswer):
            await embedded(backend, "a", "b")


async def test_vectors_of_another_model_are_not_taken() -> None:
    """llama.cpp and LM Studio let any loaded model answer."""
    async with serving("llamacpp", models()) as server, connected(server) as backend:
        server.faults.append(Fault.WRONG_MODEL)
        with pytest.raises(BadModel):
            await embedded(backend, "a")


@pytest.mark.parametrize("kind", ["ollama", "llamacpp"])
async def test_a_model_that_only_writes_is_no_fault_of_the_server(kind: str) -> None:
    """A 501 would mark the server as down for everyone."""
    async with serving(kind, [Model("alpha")]) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as refused:
            await embedded(backend, "a")
        assert refused.value.problem is not None
        assert refused.value.problem.what is ProblemKind.NO_EMBEDDINGS


async def test_an_error_at_the_top_level_is_read() -> None:
    """Old versions of vLLM put their errors there."""
    async with serving("vllm", models()) as server, connected(server) as backend:
        server.faults.append(Fault.ERROR_ABOVE)
        with pytest.raises(Rejected):
            await embedded(backend, "a")


@pytest.mark.parametrize("kind", ["lmstudio", "lmstudio-0.3", "ollama", "llamacpp"])
async def test_a_server_that_says_what_embeds_is_believed(kind: str) -> None:
    """`discover: true` would hide embedding models, or offer them to /ask."""
    async with serving(kind, models()) as server, connected(server) as backend:
        offered = {spec.name: spec for spec in await backend.discover()}
        assert offered["alpha"].capabilities == {EMBEDS}
        assert offered["alpha"].service_s == EMBEDDING_S
        if kind != "llamacpp":  # which has one model
            assert offered["beta"].capabilities == {Capability.TEXT_TO_TEXT}
        await backend.verify(embedder())
        with pytest.raises(BadModel, match="cannot chat"):
            await backend.verify(model())
        if kind != "llamacpp":
            with pytest.raises(BadModel, match="cannot make embeddings"):
                await backend.verify(embedder(name="beta"))


@pytest.mark.parametrize("kind", [*TOLD, "lmstudio-0.3"])
async def test_an_embedding_model_is_loaded_and_unloaded(kind: str) -> None:
    """It takes memory like any other model."""
    async with serving(kind, models()) as server, connected(server) as backend:
        spec = embedder()
        await backend.load(spec)
        assert await backend.loaded([spec]) == frozenset({"alpha"})
        if backend.can_unload:
            await backend.unload(spec)
            assert await backend.loaded([spec]) == frozenset()
            if kind not in {"llamaswap", "llamacpp-router"}:
                with pytest.raises(NotLoaded):
                    await embedded(backend, "a")


async def test_images_go_to_llamacpp_among_the_texts() -> None:
    """Each server expects images in its own form."""
    loaded = [Model("alpha", chats=False, embeds=True, vision=True)]
    async with serving("llamacpp", loaded) as server, connected(server) as backend:
        await backend.verify(embedder(EMBEDS, IMAGES))
        await embedded(backend, "a", ImageInput(image=0, text=" red"), files=(image(),))
        text, given = server.posted("/v1/embeddings")[-1]["input"]
        assert text == "a"
        assert given["prompt_string"] == f"{MARKER} red"
        assert len(given["multimodal_data"]) == 1


async def test_images_go_to_vllm_one_a_call() -> None:
    """An image is sent to vLLM as a conversation of one message."""
    async with serving("vllm", models()) as server, connected(server) as backend:
        files = (image(), image())
        inputs = ("a", ImageInput(image=1), "b", ImageInput(image=0))
        output = await embedded(backend, *inputs, files=files)
        sent: list[Any] = server.posted("/v1/embeddings")
        assert ["messages" in body for body in sent] == [False, True, False, True]
        (message,) = sent[1]["messages"]
        assert message["content"][0]["image_url"]["url"].startswith("data:image/jpeg;base64,")
        assert len(vectors(output, 4)) == 4


@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "generic"])
async def test_a_server_without_images_refuses_them(kind: str) -> None:
    """Such a server would embed the letters of a data URL."""
    async with serving(kind, models()) as server, connected(server) as backend:
        await backend.load(embedder())
        with pytest.raises(BadModel, match="cannot embed images"):
            await backend.verify(embedder(EMBEDS, IMAGES))
        with pytest.raises(Rejected) as refused:
            await embedded(backend, ImageInput(image=0), files=(image(),))
        assert refused.value.problem is not None
        assert refused.value.problem.what is ProblemKind.NO_IMAGE_EMBEDDINGS


async def test_the_demo_says_that_it_has_no_model() -> None:
    """Its vectors look like those of a model."""
    demo = Demo(BackendSpec(name="d", kind="demo", options={"load_s": 0, "service_s": 0}))
    spec = next(each for each in await demo.discover() if EMBEDS in each.capabilities)
    await demo.load(spec)
    work = Work(key="k", request=Embed(inputs=("red cat", "red cats", "engine oil")))
    output = await (await demo.run(spec, work, lambda _: None))()
    first, near, far = vectors(output, 3)
    assert "without a model" in output.answer
    assert _alike(first, near) > _alike(first, far) + 0.3


def _alike(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
