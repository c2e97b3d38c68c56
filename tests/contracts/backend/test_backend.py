"""The obligations of `queueing.core.ports.Backend`, for every kind of backend."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from backends.common import websocket
from backends.common.file_types import is_sound, is_video, mime_of
from backends.common.vectors import numbers, vectors_of
from queueing.core.errors import BadModel, Rejected, Unavailable
from queueing.core.requests import (
    Chat,
    ChatMessage,
    Embed,
    File,
    Generation,
    LoraWeight,
    Output,
    Progress,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from tests.contracts.backend.backend_harness import Harness, Opens, Server, until

pytestmark = pytest.mark.usefixtures("helper_here")

MODULES = [
    import_module(f"tests.contracts.backend.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("harness_*.py"))
]
HARNESSES: Mapping[str, Server] = {
    name: server for module in MODULES for name, server in module.HARNESSES.items()
}
EXTERNAL: Mapping[str, Opens] = {
    name: opens for module in MODULES for name, opens in getattr(module, "EXTERNAL", {}).items()
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test a promise with every server, and with those flavours whose code for it differs."""
    if "harness" not in metafunc.fixturenames:
        return
    promise = metafunc.function.__name__
    servers = [
        pytest.param(server.opens, id=name)
        for name, server in HARNESSES.items()
        if server.tests(promise)
    ]
    real = [
        pytest.param(opens, id=name, marks=pytest.mark.external) for name, opens in EXTERNAL.items()
    ]
    metafunc.parametrize("harness", servers + real, indirect=True)


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    opens: Opens = request.param
    async with opens() as opened:
        yield opened


def test_flavours_name_servers_and_promises_that_exist() -> None:
    """A renamed promise would silently not be tested with the flavours that differ in it."""
    promises = {name for name in globals() if name.startswith("test_")}
    for name, server in HARNESSES.items():
        assert server.differs <= promises, name
        assert bool(server.differs) is (server.flavour_of is not None), name
        if server.flavour_of is not None:
            assert HARNESSES[server.flavour_of].flavour_of is None, name


def ignore(_: Progress) -> None:
    pass


def whole(harness: Harness, output: Output) -> bool:
    """Return whether an output has what its request asked for."""
    if isinstance(harness.quick, TextToImage):
        return len(output.files) == harness.quick.count and all(f.data for f in output.files)
    kinds = {TextToVideo: is_video, TextToAudio: is_sound, TextToSpeech: is_sound}
    if (of_kind := kinds.get(type(harness.quick))) is not None:
        return len(output.files) == 1 and of_kind(mime_of(output.files[0].data))
    if isinstance(harness.quick, Embed):
        count = len(harness.quick.inputs)
        return len(output.files) == 1 and len(numbers(vectors_of(output.files[0], count)[0])) > 1
    return bool(output.text)


async def test_options_that_cannot_work_are_refused_without_asking(harness: Harness) -> None:
    """A wrong configuration would only show when a person's job fails."""
    harness.backend.check(harness.model)
    if harness.unusable is None:
        pytest.skip("every option works here")
    with pytest.raises(BadModel, match=harness.unusable.name):
        harness.backend.check(harness.unusable)


async def test_what_a_model_does_not_take_is_known_before_and_refused(harness: Harness) -> None:
    """People would wait in the queue for an option that the model ignores or refuses."""
    taken = harness.backend.options(harness.model)
    if isinstance(harness.quick, Chat | Embed):
        assert taken == frozenset()
        return
    made = isinstance(harness.quick, Generation)
    fields = type(harness.quick).model_fields.keys() - {"kind", "text", "source"}
    assert taken is None or taken <= fields - ({"prompt"} if made else set())
    given = {"negative": "x", "steps": 2, "guidance": 2.0, "count": 2, "speed": 1.2}
    for option, value in ((option, given[option]) for option in given if option in fields):
        request = harness.quick.model_copy(update={option: value})
        work = harness.asking(request)
        if not made or taken is None or option in taken:
            await harness.backend.run(harness.model, work, ignore)
        else:
            with pytest.raises(Rejected):
                await harness.backend.run(harness.model, work, ignore)


async def test_every_lora_that_is_listed_can_be_asked_for(harness: Harness) -> None:
    """People would be offered names that are then refused."""
    names = await harness.backend.loras(harness.model)
    taken = harness.backend.options(harness.model)
    assert not names or taken is None or "lora" in taken
    for name in names:
        request = harness.quick.model_copy(update={"lora": (LoraWeight(name=name),)})
        await harness.backend.run(harness.model, harness.asking(request), ignore)


async def test_the_server_says_who_it_is(harness: Harness) -> None:
    """`usher check` and the health watch would not know what they are talking to."""
    info = await harness.backend.probe()
    assert info.description
    assert info.free_mb is None or info.total_mb is None or info.free_mb <= info.total_mb


async def test_a_model_the_server_lacks_is_found_out(harness: Harness) -> None:
    """A missing model file would only show when a person's job fails."""
    await harness.backend.verify(harness.model)
    if harness.absent is None:
        pytest.skip("the server lacks nothing")
    harness.backend.check(harness.absent)
    with pytest.raises(BadModel):
        await harness.backend.verify(harness.absent)


async def test_what_is_asked_for_is_not_held_for_others(harness: Harness) -> None:
    """A model would count twice, and its own memory keep it from being loaded."""
    await harness.backend.load(harness.model)
    others = await harness.backend.held_besides([harness.model])
    everything = await harness.backend.held_besides([])
    assert others.keys() <= everything.keys()
    assert sum(others.values()) < sum(everything.values()) or not everything
    assert all(mb > 0 for mb in everything.values())


async def test_what_is_discovered_can_be_used(harness: Harness) -> None:
    """`discover: true` would offer models that do not work."""
    found = await harness.backend.discover()
    assert len({model.name for model in found}) == len(found)
    for model in found[:3]:
        harness.backend.check(model)
        await harness.backend.verify(model)


async def test_what_is_known_already_is_not_discovered_again(harness: Harness) -> None:
    """A model would have two queues, and count in memory twice."""
    found = await harness.backend.discover()
    for model in found[:3]:
        others = await harness.backend.discover([model])
        assert others == tuple(other for other in found if other != model)


async def test_a_run_reports_and_its_output_can_be_fetched_again(harness: Harness) -> None:
    """A broken download would lose finished work."""
    reports: list[Progress] = []
    fetch = await harness.backend.run(harness.model, harness.work(), reports.append)
    assert not await harness.busy()
    output = await fetch()
    assert whole(harness, output)
    assert await fetch() == output
    assert reports
    fractions = [report.fraction for report in reports if report.fraction is not None]
    assert fractions == sorted(fractions)
    assert all(0 <= fraction <= 1 for fraction in fractions)


async def test_a_recording_that_was_written_down_is_no_image(harness: Harness) -> None:
    """A spoken question would fail at the model that answers it, as its recording stays a file."""
    work = harness.work()
    if not isinstance(work.request, Chat) or work.request.passed_on is not None:
        pytest.skip("it answers no questions")
    turn = ChatMessage(role="user", text="Hello", sounds=(0,), heard="Hello")
    sound = File(name="voice.ogg", mime="audio/ogg", data=b"OggS")
    asked = work.request.model_copy(update={"messages": (turn,)})
    fetch = await harness.backend.run(
        harness.model, replace(work, request=asked, files=(sound,)), lambda _: None
    )
    assert (await fetch()).text


async def test_runs_may_overlap(harness: Harness) -> None:
    """Answers could get mixed up between jobs."""
    runs = [harness.backend.run(harness.model, harness.work(), ignore) for _ in range(3)]
    for fetch in await asyncio.gather(*runs):
        assert whole(harness, await fetch())


async def test_a_cancelled_run_stops_on_the_server(harness: Harness) -> None:
    """The GPU would go on drawing for a person who has cancelled."""
    task = asyncio.create_task(harness.backend.run(harness.model, harness.long_work(), ignore))
    await until(harness.busy)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def idle() -> bool:
        return not await harness.busy()

    await until(idle)


async def test_a_cancelled_run_leaves_the_others_alone(harness: Harness) -> None:
    """One person's cancel would end another's job."""
    first = asyncio.create_task(harness.backend.run(harness.model, harness.long_work(), ignore))
    await until(harness.busy)
    second = asyncio.create_task(harness.backend.run(harness.model, harness.work(), ignore))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert whole(harness, await (await second)())


async def test_an_unknown_attempt_cannot_be_resumed(harness: Harness) -> None:
    """A job would wait forever for an attempt that never reached the server."""
    assert await harness.backend.resume(harness.model, harness.work(), ignore) is None


async def test_a_finished_attempt_is_resumed_where_the_server_remembers(harness: Harness) -> None:
    """A crash would cost a second generation of finished work."""
    work = harness.work()
    output = await (await harness.backend.run(harness.model, work, ignore))()
    fetch = await harness.backend.resume(harness.model, work, ignore)
    if harness.remembers:
        assert fetch is not None
        assert await fetch() == output
    else:
        assert fetch is None


async def test_an_attempt_left_to_its_server_goes_on_and_is_found(harness: Harness) -> None:
    """Every stop of Usher would throw away what a server is drawing."""
    work = harness.long_work()
    left = harness.backend.leave()
    task = asyncio.create_task(harness.backend.run(harness.model, work, ignore))
    await until(harness.busy)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    fetch = await harness.backend.resume(harness.model, work, ignore)
    assert left == (fetch is not None)
    assert fetch is None or whole(harness, await fetch())


async def test_an_attempt_that_was_stopped_is_none_to_go_on_with(harness: Harness) -> None:
    """A stop would count as a failure of the job, and an old end as a new one."""
    work = harness.long_work()
    task = asyncio.create_task(harness.backend.run(harness.model, work, ignore))
    await until(harness.busy)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def idle() -> bool:
        return not await harness.busy()

    await until(idle)
    assert await harness.backend.resume(harness.model, work, ignore) is None


async def test_loading_and_unloading_tell_the_truth(harness: Harness) -> None:
    """The memory budget would be planned with models that are not loaded."""
    backend, model = harness.backend, harness.model
    await backend.load(model)
    await backend.load(model)
    loaded = await backend.loaded([model])
    assert loaded is None or loaded == {model.name}
    if not backend.can_unload:
        return
    await backend.unload(model)
    await backend.unload(model)
    loaded = await backend.loaded([model])
    assert loaded is None or loaded == frozenset()


async def test_a_dead_server_is_unavailable(harness: Harness) -> None:
    """A stopped server would crash or hang its caller."""
    if harness.die is None:
        pytest.skip("this server is not ours to kill")
    await harness.die()
    with pytest.raises(Unavailable):
        await harness.backend.probe()
    with pytest.raises(Unavailable):
        await harness.backend.run(harness.model, harness.work(), ignore)
    if harness.remembers:
        with pytest.raises(Unavailable):
            await harness.backend.resume(harness.model, harness.work(), ignore)


async def test_the_end_of_a_server_is_seen_though_nobody_asks_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung server restarted between two checks would stay disabled until its pause ends."""
    monkeypatch.setattr(websocket, "AGAIN_S", 0.1)
    gone = asyncio.create_task(harness.backend.gone())
    await harness.backend.probe()
    output = await (await harness.backend.run(harness.model, harness.work(), ignore))()
    assert output
    assert not gone.done()
    if harness.die is None:
        gone.cancel()
        await asyncio.wait([gone])
        return
    await harness.die()
    async with asyncio.timeout(60):
        await gone


async def test_a_server_that_dies_ends_its_run(harness: Harness) -> None:
    """A crash of the server would leave its job running forever."""
    if harness.die is None:
        pytest.skip("this server is not ours to kill")
    run = asyncio.create_task(harness.backend.run(harness.model, harness.long_work(), ignore))
    await until(harness.busy)
    await harness.die()
    with pytest.raises(Unavailable):
        await run


async def test_closing_twice_is_fine(harness: Harness) -> None:
    """An orderly stop after a failed start would end in a traceback."""
    await harness.backend.aclose()
    await harness.backend.aclose()
