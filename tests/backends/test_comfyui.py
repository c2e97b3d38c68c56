"""ComfyUI's traps and faults, each over real sockets: no job hangs, runs twice or gets lost."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from PIL import Image

from backends.comfyui import ComfyUI
from backends.comfyui_answers import ServerFile
from backends.comfyui_models import read_templates
from backends.workflow_graph import as_json
from queueing.catalog import BackendSpec
from queueing.errors import BackendError, BadModel, OutOfMemory, Rejected, Unavailable
from queueing.requests import Capability, Chat, ChatMessage, File, Progress, TextToImage, Work
from tests.contracts.backend_harness import until
from tests.contracts.harness_comfyui import model
from tests.fakes.comfyui import FakeComfyUI

SMALL = TextToImage(prompt="a cat", width=64, height=64, steps=4)
LONG = TextToImage(prompt="a cat", width=64, height=64, steps=200)
SDXL = model()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask often and give up soon: the waits are the same, only shorter."""
    monkeypatch.setattr("backends.comfyui_attempts.ASK_S", 0.05)
    monkeypatch.setattr("backends.comfyui_attempts.ASK_LOST_S", 0.02)
    monkeypatch.setattr("backends.comfyui_attempts.GRACE_S", 0.2)
    monkeypatch.setattr("backends.comfyui_watch.CONNECT_S", 0.1)
    monkeypatch.setattr("backends.comfyui_watch.RECONNECT_S", 0.05)


@pytest.fixture(params=["0.33", "0.3.64"])
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[FakeComfyUI]:
    async with FakeComfyUI(step_s=0.002, old=request.param == "0.3.64") as server:
        yield server


@pytest.fixture
async def comfy(fake: FakeComfyUI) -> AsyncIterator[ComfyUI]:
    backend = connect(fake)
    yield backend
    await backend.aclose()


def connect(fake: FakeComfyUI, **options: Any) -> ComfyUI:
    return ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=fake.url, options=options))


def work(request: TextToImage = SMALL, *files: File) -> Work:
    return Work(key=str(uuid4()), request=request, files=files)


def ignore(_: Progress) -> None:
    pass


async def drawn(comfy: ComfyUI, *, attempt: Work | None = None) -> tuple[File, ...]:
    """Run an attempt and fetch its pictures."""
    fetch = await comfy.run(SDXL, attempt or work(), ignore)
    return (await fetch()).files


async def running(fake: FakeComfyUI, key: str) -> None:
    """Return when an attempt runs on the server."""

    async def runs() -> bool:
        return fake.running is not None and fake.running.key == key

    await until(runs)


async def idle(fake: FakeComfyUI) -> None:
    async def rests() -> bool:
        return not fake.busy

    await until(rests)


# ---------------------------------------------------------------- the usual way


async def test_progress_steps_and_previews_are_reported(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed people would wait without seeing anything happen."""
    reports: list[Progress] = []
    await comfy.run(SDXL, work(), reports.append)
    assert [report.step for report in reports if report.step and not report.preview] == [
        (step, 4) for step in range(1, 5)
    ]
    previews = [report for report in reports if report.preview]
    assert len(previews) == 4
    assert all(report.fraction for report in previews)


async def test_several_pictures_come_in_order_without_metadata(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed an album would be incomplete, or publish the workflow."""
    files = await drawn(comfy, attempt=work(SMALL.model_copy(update={"count": 3})))
    assert [file.name for file in files] == ["sdxl-1.png", "sdxl-2.png", "sdxl-3.png"]
    assert all(file.mime == "image/png" for file in files)
    assert not any(b"a cat" in file.data for file in files)
    with Image.open(io.BytesIO(files[0].data)) as image:
        assert image.size == (64, 64)


async def test_metadata_stays_where_the_operator_wants_it(fake: FakeComfyUI) -> None:
    """If this failed the option would do nothing."""
    backend = connect(fake, keep_metadata=True)
    assert b"a cat" in (await drawn(backend))[0].data
    await backend.aclose()


async def test_each_attempt_writes_under_its_own_name(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed an identical request would be answered with an older file's name."""
    first, second = work(), work()
    await drawn(comfy, attempt=first)
    await drawn(comfy, attempt=second)
    names = {name for _, subfolder, name in fake.files if subfolder == "usher"}
    assert names == {f"{attempt.key}_00001_.png" for attempt in (first, second)}


async def test_a_token_is_sent_on_every_way(fake: FakeComfyUI) -> None:
    """If this failed a server behind a proxy could not be used."""
    backend = connect(fake, token="s3cret")
    await drawn(backend)
    assert {headers.get("Authorization") for headers in fake.headers_seen} == {"Bearer s3cret"}
    await backend.aclose()


async def test_credentials_in_the_address_are_sent_on_every_way(fake: FakeComfyUI) -> None:
    """If this failed a server behind a password could be asked, but not listened to."""
    url = fake.url.replace("http://", "http://me:s3cret@")
    backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=url))
    await drawn(backend)
    sent = {headers.get("Authorization", "none")[:6] for headers in fake.headers_seen}
    assert sent == {"Basic "}
    await backend.aclose()


async def test_a_text_request_is_refused_in_a_sentence(comfy: ComfyUI) -> None:
    """If this failed a chat sent to an image model would crash."""
    chat = Chat(messages=(ChatMessage(role="user", text="hi"),))
    with pytest.raises(Rejected, match="chat") as caught:
        await comfy.run(SDXL, Work(key=str(uuid4()), request=chat), ignore)
    assert caught.value.user_text


# ---------------------------------------------------------------- pictures to start from


def photo(size: tuple[int, int] = (300, 200), kind: str = "JPEG") -> File:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return File(name="../../x.jpg", mime="image/jpeg", data=buffer.getvalue())


async def test_a_picture_is_uploaded_once_and_keeps_its_shape(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed photos would be stretched, or pile up on the server."""
    request = TextToImage(prompt="a", steps=1, strength=0.5)
    for _ in range(2):
        await drawn(comfy, attempt=work(request, photo()))
    uploads = [name for place, _, name in fake.files if place == "input"]
    assert len(uploads) == 1
    assert ".." not in uploads[0]
    graph = fake.posts[-1]["prompt"]
    assert graph["picture"]["inputs"]["image"] == f"usher/{uploads[0]}"
    assert (graph["scale"]["inputs"]["width"], graph["scale"]["inputs"]["height"]) == (1248, 832)
    assert graph["sampler"]["inputs"]["denoise"] == 0.5


async def test_what_is_no_picture_never_reaches_the_server(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed a text file would fail the job on the card, with the server's words."""
    bad = File(name="x.png", mime="image/png", data=b"no picture at all")
    with pytest.raises(Rejected) as caught:
        await drawn(comfy, attempt=work(SMALL, bad))
    assert "picture" in caught.value.user_text
    assert fake.posts == []


# ---------------------------------------------------------------- a websocket is only a hint


@pytest.mark.parametrize("fault", ["deaf", "no_socket"])
async def test_a_job_ends_without_a_websocket(
    fake: FakeComfyUI, comfy: ComfyUI, fault: str
) -> None:
    """If this failed a deaf socket or a proxy without websockets would hang every job."""
    setattr(fake.faults, fault, True)
    assert len(await drawn(comfy)) == 1


async def test_a_job_ends_though_its_websocket_breaks(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed a lost connection in the middle would hang the job."""
    fake.faults.drop_socket_at_step = 2
    assert len(await drawn(comfy)) == 1


async def test_a_lost_websocket_is_replaced_and_progress_goes_on(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed a long job would look dead after one lost connection."""
    fake.faults.drop_socket_at_step = 2
    fake.step_s = 0.02
    reports: list[Progress] = []
    await comfy.run(SDXL, work(SMALL.model_copy(update={"steps": 30})), reports.append)
    assert max(report.step[0] for report in reports if report.step) == 30


async def test_a_silent_websocket_is_replaced(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed a half-open connection would stay deaf for the whole job."""
    monkeypatch.setattr("backends.comfyui_watch.SILENCE_S", 0.05)
    fake.faults.deaf = True
    fake.step_s = 0.02
    attempt, reports = work(SMALL.model_copy(update={"steps": 40})), list[Progress]()
    run = asyncio.create_task(comfy.run(SDXL, attempt, reports.append))
    await running(fake, attempt.key)
    assert not reports
    fake.faults.deaf = False
    await run
    assert reports


async def test_events_before_the_answer_are_not_missed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed a job that ends before its POST is answered would hang."""
    fake.faults.answer_last = True
    reports: list[Progress] = []
    await comfy.run(SDXL, work(), reports.append)
    assert reports[-1].fraction
    assert reports[-1].fraction > 0.9


# ---------------------------------------------------------------- never twice, never lost


async def test_a_lost_answer_does_not_make_a_second_job(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed one request would be drawn twice."""
    fake.faults.lose_answers = 1
    attempt = work()
    assert len(await drawn(comfy, attempt=attempt)) == 1
    assert fake.ran == [attempt.key]


async def test_a_prompt_that_never_arrived_is_unavailable(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed a job would wait for ever for a prompt the server does not have."""
    fake.faults.drop_posts = 1
    with pytest.raises(Unavailable):
        await drawn(comfy)
    assert fake.ran == []
    assert len(await drawn(comfy)) == 1


async def test_a_deleted_job_is_noticed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed clearing the queue at the server's page would hang jobs for ever."""
    fake.faults.vanish = 1
    with pytest.raises(Unavailable, match="does not know"):
        await drawn(comfy)


async def test_a_restart_in_the_middle_is_noticed(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed a restarted server, healthy but forgetful, would hang the job."""
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    await fake.restart()
    with pytest.raises(Unavailable):
        await run
    assert await comfy.resume(SDXL, attempt, ignore) is None
    assert len(await drawn(comfy)) == 1


async def test_a_running_attempt_is_watched_again(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed a crash of ours would cost the work the server goes on with."""
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
    """If this failed a job whose failure we slept through would count as unknown and run again."""
    fake.faults.errors.append(("KSampler", "torch.OutOfMemoryError", "CUDA out of memory"))
    attempt = work()
    for call in (comfy.run, comfy.resume):
        with pytest.raises(OutOfMemory):
            await call(SDXL, attempt, ignore)
    assert fake.ran == [attempt.key]


async def test_a_download_that_breaks_off_can_be_repeated(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed half a picture would be delivered, or a whole one drawn again."""
    fetch = await comfy.run(SDXL, work(), ignore)
    fake.faults.broken_files = True
    with pytest.raises(Unavailable):
        await fetch()
    fake.faults.broken_files = False
    assert len((await fetch()).files) == 1


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("a.PNG", "m-1.png"),
        ("../../etc/cron.d/x", "m-1.bin"),
        ("x.png/../../evil", "m-1.bin"),
        ("x.\u202egnp", "m-1.bin"),
        ('x.png"\r\nX: y', "m-1.bin"),
        ("x." + "p" * 5000, "m-1.bin"),
        ("", "m-1.bin"),
    ],
)
async def test_of_a_servers_file_name_only_a_plain_ending_is_kept(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch, told: str, name: str
) -> None:
    """If this failed a server could name the files people get, with a path or hidden signs."""

    async def download(_: ServerFile) -> tuple[bytes, str]:
        return b"data", "image/png"

    monkeypatch.setattr(comfy._server, "download", download)
    assert (await comfy._download(ServerFile(filename=told), "m-1")).name == name


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (("KSampler", "torch.OutOfMemoryError", "CUDA out of memory"), OutOfMemory),
        (("KSampler", "MemoryError", ""), OutOfMemory),
        (("KSampler", "RuntimeError", "CUDA error: illegal memory access"), Unavailable),
        (("KSampler", "RuntimeError", "shapes in /srv/comfy/x.py"), Rejected),
        (("CheckpointLoaderSimple", "FileNotFoundError", "/srv/comfy/models/x"), BadModel),
    ],
)
async def test_a_failing_node_calls_for_the_right_reaction(
    fake: FakeComfyUI, comfy: ComfyUI, failure: tuple[str, str, str], error: type[BackendError]
) -> None:
    """If this failed memory would not be freed, or a broken model be tried for ever."""
    fake.faults.errors.append(failure)
    with pytest.raises(error) as caught:
        await drawn(comfy)
    assert type(caught.value) is error
    assert failure[1] in str(caught.value)
    assert "/srv" not in caught.value.user_text
    assert len(await drawn(comfy)) == 1


async def test_a_lora_the_server_lacks_is_the_persons_mistake(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed a typing mistake would be reported as a broken model."""
    with pytest.raises(Rejected) as caught:
        await drawn(comfy, attempt=work(SMALL.model_copy(update={"lora": "nope"})))
    assert caught.value.user_text == "This server has no LoRA named nope; it has: ink."
    assert len(
        await drawn(comfy, attempt=work(SMALL.model_copy(update={"lora": "sub/ink.safetensors"})))
    )


async def test_a_checkpoint_the_server_lacks_is_the_operators_mistake(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed people would be told server paths, and jobs be tried again for nothing."""
    with pytest.raises(BadModel) as caught:
        await comfy.run(model("gone.safetensors"), work(), ignore)
    assert "gone.safetensors" in str(caught.value)
    assert "gone" not in caught.value.user_text


async def test_a_template_with_a_broken_output_fails_at_once(
    fake: FakeComfyUI, comfy: ComfyUI, tmp_path: Path
) -> None:
    """If this failed a prompt accepted in part would run for nothing."""
    nodes = as_json(read_templates(SDXL).all[0].nodes)
    nodes["other"] = {"class_type": "PreviewImage", "inputs": {}}
    own = tmp_path / "own.json"
    own.write_text(json.dumps(nodes))
    able = frozenset({Capability.TEXT_TO_IMAGE})
    spec = replace(SDXL, capabilities=able, options={"workflow": str(own)})
    with pytest.raises(BadModel, match=r"node other: Required input"):
        await comfy.run(spec, work(LONG), ignore)
    await idle(fake)


async def test_an_interrupt_by_somebody_else_is_tried_again(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed a job interrupted at the server's page would hang or fail for good."""
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    fake._interrupt = True
    with pytest.raises(Unavailable, match="interrupted"):
        await run


@pytest.mark.parametrize(
    "path", ["/prompt", "/history", "/queue", "/api/jobs", "/view", "/system_stats", "/object_info"]
)
async def test_garbage_is_never_more_than_a_failure(
    fake: FakeComfyUI, comfy: ComfyUI, path: str
) -> None:
    """If this failed a proxy's error page would crash or hang whoever asks."""
    fake.faults.garbage = path
    for call in (drawn(comfy), comfy.probe(), comfy.discover(), comfy.loaded([SDXL])):
        try:
            await asyncio.wait_for(call, 10)
        except Unavailable:
            continue


# ---------------------------------------------------------------- stopping


async def test_cancelling_a_waiting_prompt_leaves_the_running_one(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed cancelling would interrupt whoever is being drawn."""
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
    """If this failed a prompt accepted a moment after the cancel would run for nobody."""
    fake.faults.answer_last = True
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    run.cancel()
    await asyncio.wait({run})
    assert run.cancelled()
    await idle(fake)


async def test_stopping_goes_on_when_it_is_cancelled_too(fake: FakeComfyUI) -> None:
    """If this failed an impatient stop of the bot would leave work running on the card."""
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
    """If this failed a hanging server would hold up the bot's stop."""
    monkeypatch.setattr("backends.comfyui_attempts.STOP_S", 0.1)
    attempt = work(LONG)
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    fake.faults.hang = "/"
    run.cancel()
    await asyncio.wait({run})
    assert run.cancelled()


async def test_a_worker_that_hangs_takes_its_server_out(
    fake: FakeComfyUI, comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed a wedged server with healthy HTTP would be sent job after job."""
    fake.faults.wedged = True
    attempt = work()
    run = asyncio.create_task(comfy.run(SDXL, attempt, ignore))
    await running(fake, attempt.key)
    run.cancel()
    await asyncio.wait({run})
    assert (await comfy.probe()).description
    monkeypatch.setattr("backends.comfyui_attempts.STUCK_S", -1.0)
    with pytest.raises(Unavailable, match="worker hangs"):
        await comfy.probe()
    fake.faults.wedged = False
    await fake.restart()
    assert (await comfy.probe()).description


# ---------------------------------------------------------------- memory


async def test_loading_happens_once_and_leaves_no_file(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed every load would draw again and litter the server's output."""
    await comfy.load(SDXL)
    await comfy.load(SDXL)
    assert len(fake.ran) == 1
    assert fake.memory == "sd_xl_base_1.0.safetensors"
    assert not [place for place in fake.files if place[0] == "output"]


async def test_loading_what_was_freed_really_loads(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed the server's cache would answer a warm-up without loading anything."""
    for _ in range(2):
        await comfy.load(SDXL)
        assert fake.memory is not None
        await comfy.unload(SDXL)
        assert fake.memory is None
        assert await comfy.loaded([SDXL]) == frozenset()


async def test_what_is_loaded_follows_the_server(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed jobs would be sent to models that somebody else replaced."""
    other = replace(model("sub/dreams v2.ckpt"), name="dreams")
    both = [SDXL, other]
    assert await comfy.loaded(both) == frozenset()
    await drawn(comfy)
    assert await comfy.loaded(both) == frozenset({"sdxl"})
    stranger = connect(fake)
    await stranger.run(other, work(), ignore)
    await stranger.aclose()
    assert await comfy.loaded(both) == frozenset({"dreams"})
    run = asyncio.create_task(comfy.run(SDXL, attempt := work(LONG), ignore))
    await running(fake, attempt.key)
    assert await comfy.loaded(both) == frozenset({"sdxl"})
    run.cancel()
    await asyncio.wait({run})
    await fake.restart()
    assert await comfy.loaded(both) == frozenset()


async def test_nothing_is_loaded_after_running_out_of_memory(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed the planner would count on a model that the server has thrown out."""
    fake.faults.errors.append(("KSampler", "torch.OutOfMemoryError", ""))
    with pytest.raises(OutOfMemory):
        await comfy.load(SDXL)
    assert await comfy.loaded([SDXL]) == frozenset()


async def test_unloading_waits_until_the_worker_has_done_it(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed the next model would be loaded into memory that is still full."""
    stranger = connect(fake)
    run = asyncio.create_task(stranger.run(SDXL, attempt := work(LONG), ignore))
    await running(fake, attempt.key)
    await comfy.unload(SDXL)
    assert fake.memory is None
    await run
    await stranger.aclose()


# ---------------------------------------------------------------- larger pictures, LoRAs


async def test_a_picture_is_made_larger_by_the_template_for_that(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """If this failed the button that enlarges a picture would draw another one, or fail."""
    spec = replace(
        SDXL,
        name="lens",
        capabilities=frozenset({Capability.UPSCALE}),
        options={"workflow": "upscale-model.json", "values": {"scale": 1}},
    )
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    picture = File(name="a.png", mime="image/png", data=buffer.getvalue())
    attempt = work(TextToImage(prompt="a cat", upscale=True), picture)
    comfy.check(spec)
    await comfy.verify(spec)
    fetch = await comfy.run(spec, attempt, ignore)
    assert (await fetch()).files
    graph = fake.posts[-1]["prompt"]
    assert graph["scale"]["inputs"]["scale_by"] == 1


async def test_loras_are_listed_and_found_by_their_names(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """If this failed people could not know what --lora takes, or would type a path."""
    assert await comfy.loras(SDXL) == ("ink",)
    attempt = work(SMALL.model_copy(update={"lora": "Ink"}))
    await drawn(comfy, attempt=attempt)
    assert fake.posts[-1]["prompt"]["lora"]["inputs"]["lora_name"] == "sub/ink.safetensors"
    with pytest.raises(Rejected, match="no LoRA"):
        await drawn(comfy, attempt=work(SMALL.model_copy(update={"lora": "oil"})))
