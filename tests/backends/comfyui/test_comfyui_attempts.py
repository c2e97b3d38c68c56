"""One attempt on ComfyUI, over real sockets: no job hangs, runs twice or gets lost."""

import asyncio
import json

import aiohttp
import pytest
from yarl import URL

from backends.comfyui.backend import ComfyUI
from backends.comfyui.progress import Watch
from queueing.core.errors import (
    OutOfMemory,
    ResultGone,
    Unavailable,
    UnreadableAnswer,
)
from queueing.core.ports import Fetch
from queueing.core.requests import Progress
from tests.backends.comfyui.drawing import (
    LONG,
    SDXL,
    SMALL,
    connect,
    drawn,
    idle,
    ignore,
    running,
    work,
)
from tests.contracts.backend.backend_harness import until
from tests.fakes.servers.comfyui import FakeComfyUI

pytestmark = pytest.mark.parametrize("old", [False, True], ids=["0.33", "0.3.64"])

# ---------------------------------------------------------------- a websocket is only a hint


@pytest.mark.parametrize("fault", ["deaf", "no_socket"])
async def test_a_job_ends_without_a_websocket(
    fake: FakeComfyUI, comfy: ComfyUI, fault: str
) -> None:
    """A websocket that sends nothing, or a proxy without websockets, would hang every job."""
    setattr(fake.faults, fault, True)
    assert len(await drawn(comfy)) == 1


async def test_a_lost_websocket_is_replaced_and_progress_goes_on(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A long job would seem to have stopped after one lost connection."""
    fake.faults.drop_socket_at_step = 2
    fake.step_s = 0.02
    reports: list[Progress] = []
    await comfy.run(SDXL, work(SMALL.model_copy(update={"steps": 30})), reports.append)
    assert max(report.step[0] for report in reports if report.step) == 30


async def test_a_silent_websocket_is_replaced(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open connection would deliver nothing for the rest of the job."""
    monkeypatch.setattr("backends.comfyui.progress.SILENCE_S", 0.5)
    fake.faults.deaf = True
    fake.step_s = 0.02
    attempt, heard = work(LONG), asyncio.Event()
    run = asyncio.create_task(comfy.run(SDXL, attempt, lambda _: heard.set()))
    await running(fake, attempt.key)
    assert not heard.is_set()
    fake.faults.deaf = False
    async with asyncio.timeout(60):
        await heard.wait()
    run.cancel()
    await asyncio.wait([run])


async def test_what_waits_behind_others_at_the_server_says_so(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """People would read that their image is being drawn while another person's is."""
    fake.step_s = 0.02
    stranger = connect(fake)
    first, second = work(LONG), work(LONG)
    theirs = [asyncio.create_task(stranger.run(SDXL, each, ignore)) for each in (first, second)]
    await until(lambda: _taken(fake, first.key, second.key))
    reports: list[Progress] = []
    ours = asyncio.create_task(comfy.run(SDXL, work(), reports.append))
    await until(lambda: _told(reports))
    assert [report.ahead for report in reports] == [2]
    for task in theirs:
        task.cancel()
    await asyncio.wait(theirs)
    await ours
    assert not reports[-1].ahead
    assert reports[-1].step == (4, 4) or reports[-1].fraction
    await stranger.aclose()


async def _taken(fake: FakeComfyUI, *keys: str) -> bool:
    there = [*([fake.running] if fake.running else []), *fake.pending]
    return {item.key for item in there} == set(keys)


async def _told(reports: list[Progress]) -> bool:
    return bool(reports)


async def test_events_before_the_answer_are_not_missed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """A job that ends before its POST is answered would hang."""
    fake.faults.answer_last = True
    reports: list[Progress] = []
    await comfy.run(SDXL, work(), reports.append)
    assert reports[-1].fraction
    assert reports[-1].fraction > 0.9


# ---------------------------------------------------------------- never twice, never lost


async def test_a_lost_answer_does_not_make_a_second_job(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """One request would be drawn twice."""
    fake.faults.lose_answers = 1
    attempt = work()
    assert len(await drawn(comfy, attempt=attempt)) == 1
    assert fake.ran == [attempt.key]


async def test_a_prompt_that_never_arrived_is_unavailable(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A job would wait forever for a prompt the server does not have."""
    fake.faults.drop_posts = 1
    with pytest.raises(Unavailable):
        await drawn(comfy)
    assert fake.ran == []
    assert len(await drawn(comfy)) == 1


async def test_a_deleted_job_is_noticed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """Clearing the queue at the server's page would hang jobs forever."""
    fake.faults.vanish = 1
    with pytest.raises(ResultGone, match="no longer knows"):
        await drawn(comfy)


async def told_fetch(fake: FakeComfyUI, comfy: ComfyUI) -> Fetch:
    """Run an attempt that receives every message from the first to the last."""
    fake.step_s = 0.05
    asked = SMALL.model_copy(update={"steps": 10})
    return await comfy.run(SDXL, work(asked), ignore)


async def test_a_result_that_was_told_outlives_the_history(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If the history is cleared as an image ends, the image would be drawn again."""
    fetch = await told_fetch(fake, comfy)
    fake.history.clear()
    (file,) = (await fetch()).files
    assert file.mime == "image/png"


async def test_a_result_that_is_gone_is_final_at_the_first_look(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """It would be requested repeatedly for minutes, and then the server be marked as down."""
    fetch = await told_fetch(fake, comfy)
    fake.history.clear()
    fake.files.clear()
    with pytest.raises(ResultGone):
        await fetch()


async def test_what_a_broken_websocket_missed_is_not_left_out(
    old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the result would pass for all of it, or a flood of text would fill the memory."""
    del old
    watch = Watch(URL("ws://127.0.0.1:9"), "k", {}, ignore)

    def told(kind: str, name: str = "") -> list[str]:
        data = {"prompt_id": "k", "output": {"images": [{"filename": name}]}}
        watch._handle_text(json.dumps({"type": kind, "data": data}))
        return [file.filename for file in watch.told.files]

    assert told("executed", "a.png") == []
    assert told("execution_start") == []
    assert told("executed", "b.png") == ["b.png"]
    async with aiohttp.ClientSession() as session, watch.listening(session):
        await watch.wait(5, 5)
        assert told("executed", "c.png") == []
    assert told("execution_start") == []
    monkeypatch.setattr("backends.comfyui.progress.OUTPUTS_LIMIT", 150)
    assert told("executed", "d.png") == ["d.png"]
    assert told("executed", "e.png") == []


async def test_a_restart_in_the_middle_is_noticed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """A job would hang on a healthy server that forgot it in a restart."""
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    await fake.restart()
    with pytest.raises(Unavailable):
        await run
    assert await comfy.resume(SDXL, attempt, ignore) is None
    assert len(await drawn(comfy)) == 1


async def test_a_running_attempt_is_watched_again(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """A crash of the bot would waste the work that the server goes on with."""
    fake.step_s = 0.02
    attempt, reports = work(SMALL.model_copy(update={"steps": 20})), list[Progress]()
    crashed = connect(fake)
    run = asyncio.create_task(crashed.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    fetch = await comfy.resume(SDXL, attempt, reports.append)
    assert fetch is not None
    assert len((await fetch()).files) == 1
    assert any(report.step for report in reports)
    assert fake.ran == [attempt.key]
    await run
    await crashed.aclose()


async def test_a_failed_attempt_fails_again_when_it_is_resumed(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A job that failed while the bot was stopped would count as unknown and run again."""
    fake.faults.errors.append(("KSampler", "torch.OutOfMemoryError", "CUDA out of memory"))
    attempt = work()
    for call in (comfy.run, comfy.resume):
        with pytest.raises(OutOfMemory):
            await call(SDXL, attempt, ignore)
    assert fake.ran == [attempt.key]


async def test_a_download_that_breaks_off_can_be_repeated(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """Half an image would be delivered, or a whole one drawn again."""
    fetch = await comfy.run(SDXL, work(), ignore)
    fake.faults.broken_files = True
    with pytest.raises(UnreadableAnswer):
        await fetch()
    fake.faults.broken_files = False
    assert len((await fetch()).files) == 1


# ---------------------------------------------------------------- stopping


async def test_cancelling_a_waiting_prompt_leaves_the_running_one(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """Cancelling would interrupt the image of another person that is being drawn."""
    first, second = work(LONG), work(LONG)
    runs = [asyncio.create_task(comfy.run(SDXL, each, ignore)) for each in (first, second)]
    await running(fake, first.key)

    async def both_there() -> bool:
        return len(fake.pending) == 1

    await until(both_there)
    runs[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await runs[1]
    assert fake.interrupts == []
    assert fake.pending == []
    assert fake.running is not None
    runs[0].cancel()
    await asyncio.wait(runs)
    assert fake.ran == [first.key]


async def test_cancelling_while_the_prompt_is_sent_leaves_nothing_behind(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A prompt accepted a moment after the cancellation would run for no one."""
    fake.faults.answer_last = True
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    run.cancel()
    await asyncio.wait({run})
    assert run.cancelled()
    await idle(fake)


async def test_stopping_goes_on_when_it_is_cancelled_too(fake: FakeComfyUI) -> None:
    """If stopping the bot is interrupted, work would be left running on the GPU."""
    backend, attempt = connect(fake), work(LONG)
    run = asyncio.create_task(backend.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    run.cancel()
    await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait({run})
    await backend.aclose()
    await idle(fake)


async def test_cancelling_does_not_wait_for_a_server_that_hangs(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hanging server would delay the bot's stop."""
    monkeypatch.setattr("backends.comfyui.attempts.STOP_S", 0.1)
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    fake.faults.hang = "/"
    run.cancel()
    await asyncio.wait({run})
    assert run.cancelled()


async def test_a_restart_of_one_moment_is_seen_through_a_proxy(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung server behind a proxy would stay disabled though it was restarted."""

    async def held_by_the_proxy(_host: str, _port: int) -> None:
        await asyncio.get_running_loop().create_future()

    asked = asyncio.Event()
    newest = comfy._server.newest

    async def noted() -> object:
        answer = await newest()
        asked.set()
        return answer

    monkeypatch.setattr("backends.common.websocket.gone", held_by_the_proxy)
    monkeypatch.setattr(comfy._server, "newest", noted)
    monkeypatch.setattr("backends.comfyui.server.FORGETS_S", 0.01)
    await comfy.run(SDXL, work(), ignore)
    gone = asyncio.create_task(comfy.gone())
    await asked.wait()
    await comfy.run(SDXL, work(), ignore)
    assert not gone.done()
    await fake.restart()
    async with asyncio.timeout(60):
        await gone


async def test_a_worker_that_hangs_takes_its_server_out(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose worker hangs, but which still answers HTTP, would be sent job after job."""
    fake.faults.wedged = True
    attempt = work()
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    run.cancel()
    await asyncio.wait({run})
    assert (await comfy.probe()).description
    monkeypatch.setattr("backends.comfyui.attempts.STUCK_S", -1.0)
    with pytest.raises(Unavailable, match="worker hangs"):
        await comfy.probe()
    fake.faults.wedged = False
    await fake.restart()
    assert (await comfy.probe()).description
