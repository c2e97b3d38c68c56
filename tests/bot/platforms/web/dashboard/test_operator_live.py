"""What an open operator's page is sent, and what its admin's buttons do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
import pytest_asyncio

from bot.core.content import Content
from bot.monitoring.live_state import LiveState
from bot.platforms.web.chat.protocol import ACTS
from bot.platforms.web.operator.dashboard import (
    READ_S,
    DashboardData,
    DashboardFeed,
    DashboardState,
)
from queueing.core.leases import Leader
from tests.bot.platforms.web.dashboard.examples import ExampleJobs, ExampleRecords
from tests.bot.platforms.web.dashboard.operator_client import Example, operator_tab
from tests.bot.platforms.web.web_client import running, text_of
from tests.fakes.command_handler import ScriptedHandler
from tests.simulation.loop import in_virtual_time, run


@pytest_asyncio.fixture
async def handler() -> ScriptedHandler:
    return ScriptedHandler()


@pytest_asyncio.fixture
async def example(handler: ScriptedHandler) -> AsyncIterator[Example]:
    example = Example()
    async with running(example.web, handler):
        yield example


async def test_a_page_is_sent_what_changed_and_nothing_else(example: Example) -> None:
    """The page would show an old state, or redraw itself twice a second."""
    async with operator_tab(example.web) as page:
        body = (await page.next("now"))["body"]
        assert [host["name"] for host in body["hosts"]] == ["gpu-1", "gpu-2", "attic"]
        await page.next("people")
        example.records.now = replace(example.records.now, mode="paused")
        assert (await page.next("now"))["body"]["mode"] == "paused"
        assert [frame["type"] for frame in page.unread] == ["language"]


async def test_a_line_tells_its_reason_in_words_and_its_first_jobs(example: Example) -> None:
    """An operator would read codes, and could neither move nor cancel waiting jobs."""
    async with operator_tab(example.web) as page:
        lines = {line["model"]: line for line in (await page.next("now"))["body"]["queues"]}
    assert lines["wan"]["because"] == [
        {"kind": "text", "text": "waiting for flux to finish on gpu-1"}
    ]
    assert (len(lines["flux"]["jobs"]), lines["flux"]["more"]) == (15, 9)
    assert set(lines["flux"]["jobs"][0]) == {"job", "model", "name", "lane", "since"}


@in_virtual_time
async def test_nothing_is_read_while_no_page_is_open() -> None:
    """The bot would compute its display day and night for nobody."""
    records = ExampleRecords(at=1_795_400_000.0)
    watcher = DashboardFeed(DashboardData(records, ExampleJobs(at=1_795_400_000.0)))
    watching = asyncio.create_task(watcher.run())
    read = []
    for glances in (0, 1, 0):
        with ExitStack() as stack:
            for _ in range(glances):
                stack.enter_context(watcher.watching(DashboardState("en", changed=lambda: None)))
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        read.append(records.reads)
    watching.cancel()
    before, during, after = read
    assert before == 0
    assert during >= 2 * 60  # each second at least, of what stands and of people
    assert after == during


@in_virtual_time
async def test_a_page_is_never_more_than_a_second_behind() -> None:
    """An operator would act on outdated information."""
    records = ExampleRecords(at=1_795_400_000.0)
    loop, shown = asyncio.get_running_loop(), asyncio.Event()
    watcher = DashboardFeed(DashboardData(records, ExampleJobs(at=1_795_400_000.0)))
    watching = asyncio.create_task(watcher.run())
    behind = []
    with watcher.watching(DashboardState("en", changed=shown.set)):
        for pause_s in (0.1, 0.33, 0.49, 0.51, 0.77, 1.3):
            await asyncio.sleep(pause_s)
            shown.clear()
            line = records.now.queues[0]
            line = replace(line, waiting=line.waiting + 1)
            records.now = replace(records.now, queues=(line, *records.now.queues[1:]))
            changed_at = loop.time()
            await shown.wait()
            behind.append(loop.time() - changed_at)
    watching.cancel()
    assert max(behind) <= 1.0


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ({"web": "north", "queue": "south"}, {"here": "north", "queue": "south"}),
        ({"web": "north", "queue": ""}, {"here": "north", "queue": ""}),
        ({"web": "north", "queue": "north"}, None),
    ],
)
async def test_a_process_says_whose_words_it_shows(
    holders: dict[str, str], told: dict[str, str] | None
) -> None:
    """An operator would look for a load in the log of the wrong machine."""

    class Held:
        async def roles(self) -> list[Leader]:
            return [
                Leader(name=name, holder=holder, address="", epoch=1, left_s=5.0)
                for name, holder in holders.items()
            ]

    at = 1_795_400_000.0
    image = DashboardData(ExampleRecords(at), ExampleJobs(at), Held())
    assert json.loads(await image.now("en"))["cluster"] == told


async def test_what_cannot_be_read_is_said_and_the_last_image_stays(example: Example) -> None:
    """An operator would take an old display for the present state."""
    async with operator_tab(example.web) as page:
        await page.next("people")
        example.records.away = True
        assert (await page.next("readable"))["readable"] is False
        example.records.away = False
        assert (await page.next("readable"))["readable"] is True


def test_an_image_that_does_not_come_is_said_before_long() -> None:
    """While the queue moves to another process, an old display would look current."""
    at = 1_795_400_000.0
    records = ExampleRecords(at)

    async def never() -> LiveState:
        await asyncio.Event().wait()
        return records.now

    async def scenario() -> tuple[frozenset[str], float]:
        feed = DashboardFeed(DashboardData(records, ExampleJobs(at)))
        state = DashboardState("en", changed=lambda: None)
        began = asyncio.get_running_loop().time()
        with feed.watching(state):
            await feed.look()
        return state.unreadable, asyncio.get_running_loop().time() - began

    assert run(scenario())[0] == frozenset()
    records.read_now = never  # type: ignore[method-assign]
    unreadable, took_s = run(scenario())
    assert unreadable == {"now"}
    assert took_s == pytest.approx(READ_S)


async def test_an_act_is_a_call_of_its_command_and_its_answers_follow(
    example: Example, handler: ScriptedHandler
) -> None:
    """The page would say that something was done that failed a minute later."""
    async with operator_tab(example.web) as page:
        key = await page.act("unload", model="flux", host="gpu-1")
        call = await handler.taken()
        assert (call.command, call.user) == ("unload", "web:local")
        assert call.options == {"model": "flux", "host": "gpu-1"}
        assert (await page.next("taken"))["key"] == key
        ref = await call.respond(Content(body=("flux is being unloaded …",)), False)
        first = await page.next("answer")
        assert (first["key"], first["body"][0]["text"]) == (key, "flux is being unloaded …")
        assert ref is not None
        await example.web.edit(ref, Content(body=("flux could not be unloaded",)))
        assert (await page.next("answer"))["body"][0]["text"] == "flux could not be unloaded"
    entries = await example.web._log.since("local", 0, 10)
    shown = [entry.shown.model_dump() for entry in entries if entry.shown is not None]
    assert [text_of({"shown": each}) for each in shown] == ["flux could not be unloaded"]


async def test_the_same_act_sent_again_is_done_once(
    example: Example, handler: ScriptedHandler
) -> None:
    """A connection that breaks at the wrong moment would cancel two jobs."""
    async with operator_tab(example.web) as page:
        key = await page.act("cancel", job=7)
        assert (await handler.taken()).options == {"id": 7}
        await page.next("taken")
        frame = {"type": "submit", "key": key, "command": "cancel", "job": 7, "values": {}}
        await page.socket.send_json(frame)
        await page.next("taken")
    assert len(handler.keys) == 1


async def test_no_other_command_is_carried_out_here(
    example: Example, handler: ScriptedHandler
) -> None:
    """The operator's page would be another way to run any command."""
    for command in ("forget", "key", "image", "invite"):
        assert command not in ACTS, command
        async with operator_tab(example.web) as page:
            await page.act(command)
            assert (await page.next("refused"))["reason"] == "invalid", command
            await page.socket.send_str("{")
            assert (await page.next("refused"))["key"] is None, command
        assert handler.keys == [], command
