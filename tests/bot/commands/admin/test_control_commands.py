"""Admins' commands to stop, empty, clear and move really do so."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from queueing.core.errors import OutOfMemory
from queueing.core.jobs import JobState, SubmitLimits
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.status import Pauses
from tests.bot.commands.admin.test_admin_commands import say
from tests.simulation.bot_installation import ADMIN, Bot, played, settled
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import Inside, in_virtual_time


def two_hosts(url: str = "sqlite://") -> Installation:
    """Return flux and sdxl, on two hosts that each hold one of them."""
    models = [
        image_model("flux", "comfy", vram_mb=16000),
        image_model("sdxl", "comfy", "other", vram_mb=16000),
    ]
    return Installation.of(models, [host("gpu-1", "comfy"), host("gpu-2", "other")], url=url)


def in_bot() -> Inside[Bot]:
    return Inside(lambda: played(two_hosts()))


@in_virtual_time
async def test_a_paused_model_starts_nothing_until_it_is_resumed_even_after_a_restart(
    tmp_path: Path,
) -> None:
    """A pause would end with the next update, or delay other models."""
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    async with played(two_hosts(url)) as running:
        await say(running, "/pause flux")
        await say(running, "/image flux cat", "fake:1")
        await say(running, "/image sdxl dog", "fake:2")
        await asyncio.sleep(60)
        assert [model for _, model, _ in running.installation.servers["comfy"].starts] == ["sdxl"]
    assert "Paused: flux." in running.chat.answers[0]
    assert "paused by an admin" in next(m.text for m in running.chat.messages.values())
    async with played(two_hosts(url)) as running:
        await asyncio.sleep(60)
        assert not running.installation.servers["comfy"].starts
        await say(running, "/resume flux")
        await until(lambda: running.installation.servers["comfy"].finished["cat"])
    assert running.chat.answers[0] == "▶️ Resumed: flux."


@in_bot()
async def test_a_paused_host_leaves_the_others_at_work(running: Bot) -> None:
    """Pausing one machine would stop them all, or not stop it."""
    await say(running, "/pause GPU-1")
    await say(running, "/image sdxl cat", "fake:1")
    await say(running, "/image flux dog", "fake:2")
    await asyncio.sleep(60)
    assert [prompt for _, _, prompt in running.installation.servers["other"].starts] == ["cat"]
    assert not running.installation.servers["comfy"].loads
    await say(running, "/status")
    await say(running, "/resume")
    await until(lambda: running.installation.servers["comfy"].finished["dog"])
    chat = await settled(running)
    assert "gpu-1 · 0 GB in use · budget 23 of 23 GB · ⏸️ paused" in chat.answers[1]


@in_bot()
async def test_everything_stays_paused_when_one_model_goes_on(running: Bot) -> None:
    """An admin would believe that a model runs again although it does not."""
    await say(running, "/pause")
    await say(running, "/resume flux")
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/models")
    await asyncio.sleep(30)
    assert not running.installation.servers["comfy"].loads
    _, resumed, models = (await settled(running)).answers
    assert resumed == "flux wasn't paused.\nStill paused: everything."
    assert models.count("⏸️ paused") == 2


@in_bot()
async def test_a_drained_host_finishes_its_work_and_is_empty(running: Bot) -> None:
    """A person who takes their GPU back would lose running work, or not get the memory."""
    server = running.installation.servers["comfy"]
    server.service_s = 60.0
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/image flux dog", "fake:2")
    await until(lambda: server.running)
    await say(running, "/drain gpu-1")
    assert server.memory == {"flux"}
    await until(lambda: not server.memory)
    await asyncio.sleep(120)
    assert server.finished["cat"] == 1
    assert not server.finished["dog"]
    assert running.installation.gpus["gpu-1"].used_mb == 0
    await say(running, "/resume gpu-1")
    await until(lambda: server.finished["dog"])
    chat = await settled(running)
    (drained,) = (m for m in chat.messages.values() if "gpu-1 is" in m.texts[0])
    assert "gpu-1 is paused" in drained.texts[0]
    assert (
        drained.text
        == "✅ gpu-1 is idle and its memory is free. /resume gpu-1 puts it back to work."
    )


@in_bot()
async def test_a_pinned_model_leaves_a_drained_host_and_comes_back(running: Bot) -> None:
    """The one model an admin keeps loaded would stay on the GPU they want back, or be lost."""
    await say(running, "/preload flux")
    await until(lambda: "flux" in running.installation.servers["comfy"].memory)
    await say(running, "/drain gpu-1")
    await asyncio.sleep(60)
    assert not running.installation.servers["comfy"].memory
    await say(running, "/preload flux")
    await say(running, "/resume gpu-1")
    await until(lambda: "flux" in running.installation.servers["comfy"].memory)
    texts = [message.text for message in (await settled(running)).messages.values()]
    assert "❌ flux couldn't be loaded: Paused: gpu-1." in texts


@in_bot()
async def test_a_model_that_still_works_is_not_called_unloaded(running: Bot) -> None:
    """An admin would start a game on a GPU that is still in use."""
    await say(running, "/image flux cat", "fake:1")
    await until(lambda: running.installation.servers["comfy"].starts)
    await say(running, "/unload flux")
    await until(lambda: not running.installation.servers["comfy"].memory)
    await say(running, "/unload flux")
    texts = [message.text for message in (await settled(running)).messages.values()][-2:]
    assert texts == [
        "⏳ flux is still working on gpu-1 (comfy); it will be unloaded when that's finished.",
        "flux wasn't loaded.",
    ]


@in_bot()
async def test_a_model_that_is_being_loaded_is_not_called_absent(running: Bot) -> None:
    """An admin would start a game on a GPU that a model is about to fill."""
    await running.dispatcher.call(running.chat.call("/preload flux", user=ADMIN))
    await until(lambda: running.installation.servers["comfy"].loads)
    await say(running, "/unload flux")
    await until(lambda: not running.installation.servers["comfy"].memory)
    texts = [message.text for message in (await settled(running)).messages.values()]
    assert texts == [
        "❌ flux couldn't be loaded: It was unloaded again in the meantime.",
        "⏳ flux is still loading on gpu-1 (comfy); it will be unloaded when that's finished.",
    ]


@in_bot()
async def test_all_of_ones_jobs_are_cancelled_at_once_and_nobody_elses(running: Bot) -> None:
    """A person who asked for ten images by mistake would cancel ten times, or end others' jobs."""
    for number in range(8):
        await running.dispatcher.call(running.chat.call(f"/image flux {number}", user="fake:1"))
    await say(running, "/image flux dog", "fake:2")
    await say(running, "/cancel ALL", "fake:1")
    assert [job.owner for job in await running.queue.jobs.open_jobs()] == ["fake:2"]
    await until(lambda: running.installation.servers["comfy"].finished["dog"])
    assert not any(prompt.isdigit() for prompt in running.installation.servers["comfy"].finished)
    await say(running, "/cancel all", "fake:1")
    assert (await settled(running)).answers == [
        "Cancelled all your open jobs (8).",
        "You have no open jobs.",
    ]


@in_bot()
async def test_a_host_resumed_while_it_drains_is_not_emptied(running: Bot) -> None:
    """A GPU would be emptied against the will of the admin who has just resumed it."""
    server = running.installation.servers["comfy"]
    server.service_s = 60.0
    await say(running, "/image flux cat", "fake:1")
    await until(lambda: server.running)
    await say(running, "/drain gpu-1")
    await say(running, "/resume gpu-1")
    await asyncio.sleep(120)
    assert server.memory == {"flux"}
    texts = [message.text for message in (await settled(running)).messages.values()]
    assert "❌ gpu-1 was resumed before its memory was free." in texts
    assert not any("is paused, but" in text for text in texts), "it is not paused any more"


@in_bot()
async def test_a_line_is_cleared_with_its_overflow_while_running_work_goes_on(running: Bot) -> None:
    """Jobs of an overflow would slip into the queue that is being emptied."""
    server = running.installation.servers["comfy"]
    server.service_s = 30.0
    limits = SubmitLimits(max_queued=1)
    jobs = [
        await running.queue.submitter.submit(
            running.installation.new("flux", str(n), owner="fake:1"), limits=limits
        )
        for n in range(4)
    ]
    other = await running.queue.submitter.submit(
        running.installation.new("sdxl", "x"), limits=limits
    )
    await until(lambda: server.running)
    await say(running, "/clear flux")
    states = [found.state for job in jobs if (found := await running.queue.jobs.get(job.id))]
    assert states == [JobState.PROCESSING, *[JobState.CANCELLED] * 3]
    await asyncio.sleep(120)
    assert server.finished["0"] == 1
    done = await running.queue.jobs.get(other.id)
    assert done is not None
    assert done.state is JobState.COMPLETED
    assert (await settled(running)).answers == ["Cancelled the jobs waiting for flux (3)."]


@in_bot()
async def test_a_moved_job_runs_next_and_others_see_that_they_wait_longer(running: Bot) -> None:
    """`/move` would report success and change nothing, or no one would be told."""
    server = running.installation.servers["comfy"]
    server.service_s = 30.0
    for number in range(4):
        await say(running, f"/image flux {number}", f"fake:{number}", chat=str(number))
    jobs = await running.queue.jobs.open_jobs()
    await until(lambda: server.running)
    await say(running, f"/move {jobs[3].id} first")
    standings = await running.queue.status.standings(jobs[1:])
    assert [standings[job.id].position for job in jobs[1:]] == [2, 3, 1]
    await asyncio.sleep(200)
    assert [prompt for _, _, prompt in server.starts] == ["0", "3", "1", "2"]
    await say(running, f"/move {jobs[3].id} first")
    moved, refused = (await settled(running)).answers
    assert moved == "Job 4 is now first in line for flux."
    assert refused == "Job 4 is no longer waiting."


WRONG_NAMES = [
    ("/pause fluxx", "There's no model or host called “fluxx”. Did you mean flux?"),
    (
        "/pause gpu-9",
        "There's no model or host called “gpu-9”. Hosts: gpu-1, gpu-2.",
    ),
    ("/resume", "Nothing was paused."),
    ("/resume sdxl", "sdxl wasn't paused."),
    ("/pause flux gpu-1", "/pause takes a model or a host, not both."),
    ("/drain gpu-9", "There's no host called “gpu-9”. Available: gpu-1, gpu-2."),
    ("/clear fluxx", "There's no model called “fluxx”. Did you mean flux?"),
    ("/move 77 first", "There's no job 77."),
    ("/preload flux gpu-2", "gpu-2 doesn't have flux; it's on gpu-1."),
]


@in_bot()
async def test_a_wrong_name_changes_nothing(running: Bot) -> None:
    """A typing error would pause or empty something, or be logged as an admin's act."""
    told = [answer for _, answer in WRONG_NAMES]
    for text, _ in WRONG_NAMES:
        await say(running, text)
        assert running.queue.status.snapshot().paused == Pauses(), text
    await say(running, "/audit")
    assert (await settled(running)).answers == [*told, "No admin actions yet."]


@in_bot()
async def test_these_are_for_admins(running: Bot) -> None:
    """Anyone could stop the machines for everyone."""
    names = ("pause", "resume", "drain", "clear", "move", "queue all")
    for name in names:
        await say(running, f"/{name}", "fake:1")
    assert (await settled(running)).answers == [f"/{name} is for admins." for name in names]


@in_bot()
async def test_a_cancelled_job_of_another_is_an_act_and_an_own_one_is_none(running: Bot) -> None:
    """No one could find out which admin ended a person's job."""
    await say(running, "/pause flux")
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/image flux dog", "fake:1")
    await say(running, "/cancel 1")
    await say(running, "/cancel 2", "fake:1")
    await say(running, "/audit")
    *_, audit = (await settled(running)).answers
    acts = [line.partition(" · ")[2] for line in audit.strip().splitlines()]
    assert [act.partition(" · ")[2] for act in acts] == ["cancel flux 1 (of fake:1)", "pause flux"]


@in_bot()
async def test_every_act_is_in_the_audit_log(running: Bot) -> None:
    """No one could find out who stopped the machines."""
    await say(running, "/image flux cat", "fake:1")
    for text in ("/pause flux", "/resume", "/preload sdxl gpu-2", "/unload sdxl"):
        await say(running, text)
    await say(running, "/pause flux")
    await say(running, "/image flux cat", "fake:1")
    for text in ("/move 2 first", "/clear flux", "/drain gpu-2", "/audit"):
        await say(running, text)
    acts = (await settled(running)).answers[-1].splitlines()
    assert [act.split(" · ", 2)[2] for act in reversed(acts)] == [
        "pause flux",
        "resume everything",
        "preload sdxl (gpu-2)",
        "unload sdxl",
        "pause flux",
        "move flux 2 (first)",
        "clear flux (jobs: 1)",
        "drain gpu-2",
    ]


@in_bot()
async def test_queue_all_shows_everybodys_jobs_with_their_owners(running: Bot) -> None:
    """An admin could not see whose job delays the queue."""
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/image flux dog", "fake:2")
    await say(running, "/queue all")
    shown = (await settled(running)).answers[0]
    assert shown.startswith("All open jobs (2):\n1 · fake:1 · ")
    assert "\n2 · fake:2 · " in shown
    assert "flux: " in shown


@in_bot()
async def test_an_option_the_model_does_not_take_is_refused_at_once(running: Bot) -> None:
    """A person would wait in the queue only to read that the model cannot do it."""
    running.installation.servers["comfy"].options = frozenset({"seed", "width", "height"})
    running.installation.servers["other"].options = frozenset({"steps", "seed"})
    await say(running, "/image flux --seed 7 --size 3:2 --count 1 cat", "fake:1")
    await say(running, "/image flux --steps 9 cat", "fake:1")
    await say(running, "/image sdxl --size 3:2 cat", "fake:1")
    await say(running, "/image flux --count 2 cat", "fake:1")
    await say(running, "/settings --size 3:2", "fake:2")
    await say(running, "/image sdxl --seed 7 cat", "fake:2")
    assert len(await running.queue.jobs.open_jobs()) == 2
    assert [answer for answer in (await settled(running)).answers if "doesn't take" in answer] == [
        "flux doesn't take --steps.",
        "sdxl doesn't take --size.",
        "flux doesn't take --count.",
    ]


@in_bot()
async def test_a_failed_preload_is_told_in_one_sentence(running: Bot) -> None:
    """An admin would read internal details, or nothing at all."""
    running.installation.servers["comfy"].load_fates = lambda: OutOfMemory(
        "CUDA error: 0x2 at 0xdeadbeef"
    )
    await say(running, "/preload flux")
    await asyncio.sleep(60)
    running.installation.servers["comfy"].load_fates = TimeoutError
    await asyncio.sleep(600)
    await say(running, "/preload flux")
    await asyncio.sleep(600)
    running.installation.servers["comfy"].up = False
    await asyncio.sleep(60)
    await say(running, "/preload flux")
    texts = [message.text for message in (await settled(running)).messages.values()]
    assert texts == [
        "❌ flux couldn't be loaded: gpu-1 doesn't have enough free memory.",
        "❌ flux couldn't be loaded: comfy didn't load it within 150 s.",
        "❌ flux couldn't be loaded: comfy doesn't answer.",
    ]


@pytest.mark.parametrize(
    ("busy", "says"),
    [
        (False, "📦 Loading sdxl …"),
        (True, "📦 sdxl will be loaded, but not yet: waiting for flux to finish on gpu-1"),
    ],
)
@in_virtual_time
async def test_a_preload_says_what_the_plan_says_of_it(busy: bool, says: str) -> None:
    """An admin would wait for room that exists, or not learn what the delay is."""
    models = [image_model(name, vram_mb=20_000, service_s=120.0) for name in ("flux", "sdxl")]
    installation = Installation.of(models, [host("gpu-1", "comfy")])
    installation.servers["comfy"].service_s = 120.0
    async with played(installation) as running:
        if busy:
            await running.dispatcher.call(running.chat.call("/image flux cat"))
            await asyncio.sleep(30)
        await running.dispatcher.call(running.chat.call("/preload sdxl", user=ADMIN))
        await asyncio.sleep(200)
    texts = next(
        message.texts
        for message in running.chat.messages.values()
        if "sdxl" in message.texts[0]  # the other is that of the request for flux
    )
    assert texts[0].startswith(says)
    assert texts[-1] == "✅ sdxl is loaded on gpu-1 (comfy) and stays loaded."


def resting(hours: QuietHours) -> Installation:
    gpu = replace(host("gpu-1", "comfy"), quiet=hours)
    return Installation.of([image_model("flux", "comfy")], [gpu])


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "gpu-1 has quiet hours until 01:00"), ("de", "gpu-1 hat Ruhezeit bis 01:00")],
)
@in_virtual_time
async def test_quiet_hours_are_told_in_the_same_words_everywhere(language: str, said: str) -> None:
    """A person would read that the model is free, and then wait for an hour."""
    hours = QuietHours((WeeklyWindow(frozenset(range(7)), 0, 60),), "UTC")
    async with played(resting(hours)) as running:
        await asyncio.sleep(10)
        for words in ("/models", "/status", "/preload flux"):
            await say(running, words, language=language)
        await say(running, "/image flux cat", "fake:1", language=language)
        await asyncio.sleep(60)
        await say(running, "/queue", language=language)
    chat = running.chat
    texts = [*chat.answers, *(message.text for message in chat.messages.values())]
    assert len(texts) > 4
    for text in texts:
        assert said in text


@pytest.mark.parametrize(
    ("language", "resumed", "shown"),
    [
        (
            "en",
            "gpu-1 works despite its quiet hours until they end at 01:00",
            "resumed by an admin until 01:00",
        ),
        (
            "de",
            "gpu-1 arbeitet trotz seiner Ruhezeit, bis sie um 01:00",
            "von einem Admin fortgesetzt bis 01:00",
        ),
    ],
)
@in_virtual_time
async def test_an_admin_puts_a_host_to_work_in_its_quiet_hours(
    language: str, resumed: str, shown: str
) -> None:
    """Admins would read that the host was not paused, and nothing would happen."""
    hours = QuietHours((WeeklyWindow(frozenset(range(7)), 0, 60),), "UTC")
    async with played(resting(hours)) as running:
        await asyncio.sleep(10)
        await say(running, "/image flux cat", "fake:1")
        await say(running, "/resume gpu-1", language=language)
        await say(running, "/status", language=language)
        await until(lambda: running.installation.servers["comfy"].finished["cat"], within_s=120)
        await say(running, "/pause gpu-1", language=language)
        await say(running, "/status", language=language)
    told = running.chat.answers
    assert resumed in told[0]
    assert shown in told[1]
    assert "⏸️" in told[-1]
    assert shown not in told[-1]


@pytest.mark.parametrize(
    ("language", "counted", "named"),
    [
        ("en", "Models: 1 loaded, 1 waiting to be loaded", "sdxl · images · waiting to be loaded"),
        (
            "de",
            "Modelle: 1 geladen, 1 warten aufs Laden",
            "sdxl · Bilder · muss noch geladen werden",
        ),
    ],
)
@in_virtual_time
async def test_models_that_are_ready_and_those_to_be_loaded_are_counted(
    language: str, counted: str, named: str
) -> None:
    """An admin would have to count the copies of each server."""
    both = [image_model(name, vram_mb=16000) for name in ("flux", "sdxl")]
    async with played(Installation.of(both, [host("gpu-1", "comfy")])) as running:
        await say(running, f"/settings --language {language}", "fake:1")
        for prompt in ("cat", "dog", "fox"):
            await say(running, f"/image flux {prompt}", "fake:1")
        await say(running, "/image sdxl owl", "fake:1")
        await asyncio.sleep(4)
        await say(running, "/status", "fake:1")
        await say(running, "/models", "fake:1")
    status, models = running.chat.answers[-2:]
    assert counted in status
    assert named in models
