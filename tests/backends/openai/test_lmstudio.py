"""What only LM Studio does, in both generations, with fakes over real sockets."""

import asyncio

import pytest
from pydantic import JsonValue

from backends.registry import connect
from bot.texts.refusals import told
from queueing.core.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    OutOfMemory,
    Unavailable,
    UnknownFailure,
    problem_of,
)
from queueing.core.specs import BackendSpec
from tests.backends.openai.asking import ANSWER, answer, connected, model, work
from tests.fakes.llm.llm import LoadFault, Model, serving


async def test_a_copy_another_program_loaded_is_used_and_not_doubled() -> None:
    """Every model would take its memory twice: a second load makes a second copy."""
    async with serving("lmstudio", [Model("alpha", copies=["alpha"])]) as server:
        async with connected(server) as backend:
            await backend.load(model())
            assert (await answer(backend, model(), work())).text == ANSWER
        assert server.models["alpha"].copies == ["alpha"]
        assert not server.posted("/api/v1/models/load")


async def test_our_copy_goes_when_another_program_loaded_one_meanwhile() -> None:
    """Two programs that load a model at the same time would leave two copies."""
    async with serving("lmstudio") as server, connected(server) as backend:
        server.load_faults.append(LoadFault.DUPLICATE)
        await backend.load(model())
        assert len(server.models["alpha"].copies) == 1


async def test_every_copy_is_unloaded_by_its_own_name() -> None:
    """`alpha:2` would stay and occupy memory that counts as free."""
    copies = ["alpha", "alpha:2", "mine"]
    async with serving("lmstudio", [Model("alpha", copies=copies)]) as server:
        async with connected(server) as backend:
            await backend.unload(model())
        assert server.models["alpha"].copies == []
        assert [body["instance_id"] for body in server.posted("/api/v1/models/unload")] == [
            "alpha",
            "alpha:2",
            "mine",
        ]


async def test_the_slots_of_a_copy_are_read_from_the_server() -> None:
    """More would be sent at once than it can answer, and the rest would time out in its queue."""
    async with serving("lmstudio") as server, connected(server) as backend:
        assert {spec.parallel for spec in await backend.discover()} == {4}
    async with serving("lmstudio-0.3") as server, connected(server) as backend:
        assert {spec.parallel for spec in await backend.discover()} == {1}


async def test_hundreds_of_models_are_offered_with_one_call() -> None:
    """With a large library, `discover: true` would be slow or load something."""
    models = [Model(f"lab/model-{number}") for number in range(500)]
    async with serving("lmstudio", models) as server, connected(server) as backend:
        await backend.probe()
        before = len(server.requests)
        offered = await backend.discover()
        assert len(offered) == 500
        assert len(server.requests) - before == 1
        assert await backend.loaded(offered) == frozenset()
        assert not any(model.loads for model in server.models.values())


async def test_the_old_generation_loads_by_the_smallest_request() -> None:
    """LM Studio 0.3 could not load ahead: a person's first request would wait for the load."""
    async with serving("lmstudio-0.3") as server, connected(server) as backend:
        await backend.load(model())
        assert [body["max_tokens"] for body in server.posted("/v1/chat/completions")] == [1]
        await backend.load(model())
        assert len(server.posted("/v1/chat/completions")) == 1


@pytest.mark.parametrize("options", [{}, {"idle_unload_s": 300}])
async def test_the_old_generation_is_told_when_to_drop_what_it_loads(
    options: dict[str, JsonValue],
) -> None:
    """Other models on its GPU would wait for an hour, LM Studio's own time limit."""
    expiry = {"ttl": 300} if options else {}
    offered = [Model("alpha"), Model("beta", chats=False, embeds=True)]
    async with serving("lmstudio-0.3", offered) as server, connected(server, **options) as backend:
        await backend.load(model("alpha"))
        await backend.load(model("beta"))
        (text,) = server.posted("/v1/chat/completions")
        (vectors,) = server.posted("/v1/embeddings")
    for body in (text, vectors):
        assert {name: body[name] for name in body if name == "ttl"} == expiry


def test_a_model_is_not_dropped_after_no_time_at_all() -> None:
    """Each request would load the model again."""
    with pytest.raises(BadModel, match="idle_unload_s"):
        connect(
            BackendSpec(name="b", kind="lmstudio", url="http://x", options={"idle_unload_s": 0})
        )


async def test_the_old_generation_says_what_it_costs() -> None:
    """An operator would not learn why memory is never freed."""
    async with serving("lmstudio-0.3") as server, connected(server) as backend:
        info = await backend.probe()
        assert not backend.can_unload
        assert any("cannot unload" in note for note in info.notes)
    async with serving("lmstudio") as server, connected(server) as backend:
        assert (await backend.probe()).notes == ()


@pytest.mark.parametrize("kind", ["lmstudio", "lmstudio-0.3"])
@pytest.mark.parametrize(
    ("fault", "error"), [(LoadFault.OOM, OutOfMemory), (LoadFault.CRASH, UnknownFailure)]
)
async def test_the_memory_guardrail_asks_for_an_eviction_and_a_crashed_load_for_none(
    kind: str, fault: LoadFault, error: type[BackendError]
) -> None:
    """A load would be repeated at once, or a broken file would get other models unloaded."""
    async with serving(kind) as server, connected(server) as backend:
        server.load_faults.append(fault)
        with pytest.raises(error):
            await backend.load(model())
        assert server.models["alpha"].loads == 1


async def test_a_server_that_loads_nothing_on_request_says_so() -> None:
    """People would look for another program that occupies the memory."""
    offered = [Model("alpha"), Model("beta", chats=False, embeds=True)]
    async with serving("lmstudio-0.3", offered) as server, connected(server) as backend:
        assert len((await backend.probe()).notes) == 1
        server.jit = False
        assert "Just-in-time" in (await backend.probe()).notes[1]
        for name in server.models:
            with pytest.raises(BadModel, match="Just-in-time") as refused:
                await backend.load(model(name))
            assert "Just-in-time" in told(problem_of(refused.value), "en")
        server.models["alpha"].copies = ["alpha"]
        await backend.load(model())


async def test_a_server_that_reports_no_memory_says_that_it_loads_nothing() -> None:
    """With `kind: openai`, another program would also be blamed."""
    async with serving("lmstudio-0.3") as server:
        server.kind, server.jit = "generic", False
        async with connected(server) as backend:
            with pytest.raises(NotLoaded) as refused:
                await answer(backend, model(), work())
    assert "Just-in-time" in told(problem_of(refused.value), "en")


async def test_different_models_load_side_by_side() -> None:
    """One slow load would hold up every other model of the server."""
    async with serving("lmstudio") as server, connected(server) as backend:
        server.load_hold.clear()
        first = asyncio.create_task(backend.load(model("alpha")))
        second = asyncio.create_task(backend.load(model("beta")))
        await server.until_loading("alpha")
        await server.until_loading("beta")
        server.load_hold.set()
        await asyncio.gather(first, second)
        both = frozenset({"alpha", "beta"})
        assert await backend.loaded([model("alpha"), model("beta")]) == both


async def test_a_load_that_hangs_holds_up_only_its_own_model() -> None:
    """One stuck load would block answers of models that are ready."""
    async with serving("lmstudio") as server, connected(server) as backend:
        await backend.load(model("beta"))
        server.load_faults.append(LoadFault.HANG)
        stuck = asyncio.create_task(backend.load(model("alpha")))
        await server.until_loading("alpha")
        assert (await answer(backend, model("beta"), work())).text == ANSWER
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck


async def test_a_refused_token_is_told_even_with_status_200() -> None:
    """A server with a token would not be recognised as LM Studio."""
    async with serving("lmstudio", token="right") as server, connected(server) as backend:
        for call in (backend.probe(), backend.load(model()), backend.loaded([model()])):
            with pytest.raises(Unavailable, match="token"):
                await call


async def test_answers_at_the_same_time_do_not_mix() -> None:
    """One person would read another's answer."""
    async with serving("lmstudio") as server, connected(server) as backend:
        await backend.load(model())
        texts = await asyncio.gather(
            *(answer(backend, model(), work(max_tokens=count)) for count in range(1, 7))
        )
        words = ANSWER.split()
        assert [text.text for text in texts] == [" ".join(words[:n]) for n in range(1, 7)]


async def test_a_server_that_dies_during_a_load_is_unavailable() -> None:
    """The loader would not know to wait for the server."""
    async with serving("lmstudio") as server, connected(server) as backend:
        server.load_faults.append(LoadFault.HANG)
        load = asyncio.create_task(backend.load(model()))
        await server.until_loading("alpha")
        await server.restart()
        with pytest.raises(BackendError) as caught:
            await load
        assert isinstance(caught.value, Unavailable)
