"""Every accepted job ends, or its reason names what a person must change for it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bot.cli import memory_kept
from bot.texts.reasons import sentence
from queueing.core.errors import Refused
from queueing.core.jobs import Job
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.specs import HostSpec, ModelSpec
from queueing.service.job_queue import JobQueue
from tests.samples import examples
from tests.simulation.installation import Installation, ended, host, image_model
from tests.simulation.loop import in_virtual_time

ACTED_ON = {
    WaitCause.KEPT: "operator can",
    WaitCause.PINNED: "until an admin unloads it",
    WaitCause.PAUSED: "paused by an admin",
    WaitCause.OFFLINE: "offline",
    WaitCause.KEY: "an admin needs to",
    WaitCause.NO_ROOM: "other programs are using the memory",
    WaitCause.YIELDING: "another program",
}
"""The reasons that only a person can end, and what of them says so."""


@in_virtual_time
async def test_a_server_that_had_its_model_already_keeps_no_other_away() -> None:
    """Its size would stay unknown, so that it would count as filling the GPU as long as it runs."""
    models = [image_model("flux"), image_model("scribe", "old", vram_mb=None)]
    installation = Installation.of(models, [host("gpu", "comfy", "old")])
    _has_already(installation, "old", "scribe", 6000)
    installation.servers["comfy"].tells_memory = True
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "scribe", "a"))
        job = await installation.ask(queue, "flux", "b")
        await ended(queue, job, within_s=300)
        assert installation.servers["old"].memory == {"scribe"}
        shown = {each.name: each for each in queue.status.snapshot().models}
        assert [copy.vram_mb for copy in shown["scribe"].copies] == [6000]
    assert not installation.violations


@in_virtual_time
async def test_two_of_unknown_size_share_what_the_gpu_shows() -> None:
    """A speech server and a llama-server would each count as filling the GPU."""
    models = [
        image_model("flux"),
        image_model("scribe", "old", vram_mb=None),
        image_model("voice", "tts", vram_mb=None),
    ]
    installation = Installation.of(models, [host("gpu", "comfy", "old", "tts")])
    _has_already(installation, "old", "scribe", 9000)
    _has_already(installation, "tts", "voice", 3000)
    installation.servers["comfy"].tells_memory = True
    async with installation.queue() as queue:
        for model in ("flux", "scribe", "voice", "flux"):
            await ended(queue, await installation.ask(queue, model, "a"), within_s=300)
    assert not installation.violations


def _has_already(installation: Installation, server: str, model: str, mb: int) -> None:
    """Let a server keep a model in memory with which it was started."""
    installation.keepers |= {server}
    there = installation.servers[server]
    there.memory.add(model)
    there.sizes[model] = mb
    there.gpu.take(server, model, mb)


@in_virtual_time
async def test_what_finds_no_room_beside_a_preloaded_model_is_told_before() -> None:
    """Each of its requests would wait for an admin whom nobody has told."""
    models = [image_model("keep", vram_mb=14000, preload=True), image_model("big", vram_mb=12000)]
    installation = Installation.of(models, [host("gpu", "comfy")])
    async with installation.queue() as queue:
        await asyncio.sleep(60)
        job = await installation.ask(queue, "big", "a")
        await asyncio.sleep(60)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert (reason.why, reason.other) == (WaitCause.PINNED, "keep")
        assert _check_told(installation, reason)


SERVERS = ("a", "b", "c")
Drawn = tuple[Sequence[ModelSpec], HostSpec, Installation]


@st.composite
def installations(draw: st.DrawFn) -> Installation:
    """Draw one GPU with up to three servers, each with something that may block the others."""
    servers = SERVERS[: draw(st.integers(1, 3))]
    windows = draw(st.sampled_from([(), (WeeklyWindow(frozenset(range(7)), 0, 4),)]))
    gpu = replace(host("gpu", *servers), quiet=QuietHours(windows, "UTC") if windows else None)
    sizes = {f"m{n}": draw(st.integers(1, 14)) * 1000 for n in range(draw(st.integers(1, 4)))}
    models = [
        image_model(
            name,
            draw(st.sampled_from(servers)),
            vram_mb=(known_mb := draw(st.sampled_from([None, mb]))),
            preload=known_mb is not None and draw(st.booleans()),
        )
        for name, mb in sizes.items()
    ]
    made = Installation.of(models, [gpu])
    made.keepers = frozenset(name for name in servers if draw(st.booleans()))
    for name in servers:
        server = made.servers[name]
        server.sizes = dict(sizes)
        server.up = draw(st.integers(0, 5)) > 0
        server.tells_memory = draw(st.booleans())
    for spec in models:
        (name,) = spec.backends
        fits = sizes[spec.name] <= made.gpus["gpu"].free_mb
        if name in made.keepers and fits and draw(st.booleans()):
            _has_already(made, name, spec.name, sizes[spec.name])
    return made


def _has_room(installation: Installation, model: str) -> bool:
    """Return whether a model fits beside all that stays, and a server shows it."""
    servers = installation.servers.values()
    if not any(server.up and server.tells_memory for server in servers):
        return False
    (gpu,) = installation.gpus.values()
    stay = [server for server in servers if server.name in installation.keepers]
    kept_mb = sum(server.sizes[each] for server in stay for each in server.memory - {model})
    for spec in installation.catalog.models.values():
        if spec.preload and spec.name != model and not installation.keepers & set(spec.backends):
            kept_mb += servers_size(installation, spec.name)
    return servers_size(installation, model) + kept_mb <= gpu.budget_mb


def servers_size(installation: Installation, model: str) -> int:
    (name,) = installation.catalog.models[model].backends
    return installation.servers[name].sizes[model]


def _check_told(installation: Installation, reason: Reason) -> bool:
    """Return whether `usher check` warns that a model may wait for what stays."""
    catalog = installation.catalog
    texts = [
        *memory_kept.together(catalog, installation.keepers),
        *memory_kept.preloaded(catalog),
    ]
    for name in installation.keepers:
        texts += memory_kept.warnings(catalog, name)
        texts += memory_kept.of_unknown_size(catalog, name)
    return any(reason.model in text for text in texts)


async def _reason_to_act_on(queue: JobQueue, job: Job) -> Reason | None:
    """Return the reason that people are told within two minutes; None if the job ended.

    At that moment a load may just be tried again.
    """
    reason = None
    for _ in range(120):
        now = await queue.jobs.get(job.id)
        assert now is not None
        if now.state.final:
            return None
        reason = (await queue.status.standings([now]))[job.id].reason
        if reason is not None and reason.why in ACTED_ON:
            return reason
        await asyncio.sleep(1.0)
    raise AssertionError(reason)


@examples(200, quick=25)
@given(installations(), st.lists(st.integers(0, 3), min_size=1, max_size=5))
@in_virtual_time
async def test_what_never_ends_names_what_must_change(
    installation: Installation, asked: Sequence[int]
) -> None:
    """People would wait, and a program's call hang, without anybody being told what is wrong."""
    names = sorted(installation.catalog.models)
    async with installation.queue() as queue:
        jobs = []
        for number in asked:
            with suppress(Refused):
                jobs.append(await installation.ask(queue, names[number % len(names)], "a"))
        with suppress(TimeoutError):
            async with asyncio.timeout(400):
                for job in jobs:
                    await ended(queue, job)
        for job in jobs:
            reason = await _reason_to_act_on(queue, job)
            if reason is None:
                continue
            assert ACTED_ON[reason.why] in sentence(reason, "en", str)
            if reason.why is WaitCause.PINNED and not installation.keepers:
                assert _check_told(installation, reason), reason
            if reason.why is WaitCause.KEPT:
                assert not _has_room(installation, reason.model), reason
                assert _check_told(installation, reason), reason
