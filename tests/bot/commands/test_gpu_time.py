"""Time on the GPUs as people and admins see it: counted, shown, limited."""

import asyncio

import pytest

from bot.people.access import PersonLimits
from queueing.core.specs import Timeouts
from tests.bot.results import ask, bot_with, done, in_bot, play
from tests.simulation.bot_installation import ADMIN, Bot, settled
from tests.simulation.installation import image_model
from tests.simulation.loop import in_virtual_time

FIVE_MINUTES = PersonLimits(gpu_seconds_per_day=300.0)
FLUX = image_model("flux", service_s=120.0, timeouts=Timeouts(idle_s=None))


async def told(running: Bot, text: str, user: str = "fake:1") -> None:
    await running.dispatcher.call(running.chat.call(text, user=user))
    await asyncio.sleep(2)


@in_bot(FLUX, service_s=120.0, limits=FIVE_MINUTES)
async def test_a_person_sees_what_they_used_and_when_they_may_ask_again(running: Bot) -> None:
    """People would only notice by being refused, and not learn for how long."""
    await done(running, "/image flux cat")
    await told(running, "/settings")
    for _ in range(3):
        await told(running, "/image flux cat")
    assert len(await running.queue.jobs.open_jobs("fake:1")) == 2
    await told(running, "/settings --language de")
    await told(running, "/image flux cat")
    await told(running, "/image flux cat", "fake:2")  # others have their own
    assert len(await running.queue.jobs.open_jobs("fake:2")) == 1
    chat = await settled(running)
    before, refused, german, refused_again = chat.answers
    assert "GPU time: you used 2 of 5 min today\n" in before
    assert refused.startswith("Your GPU time for today is used up: 2 of 5 min used, 4 min set")
    assert "You can ask again at " in refused
    assert "heute 2 von 5 min verbraucht (weitere 4 min sind für deine offenen Auf" in german
    assert refused_again.startswith("Deine GPU-Zeit für heute ist aufgebraucht: 2 von 5 min")


def test_a_costly_job_says_so_and_a_cheap_or_unlimited_one_does_not() -> None:
    """A video would use up the day before its owner knows what videos cost."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/image flux cat")
        await ask(running, "/image sketch cat")
        await asyncio.sleep(2)

    models = (FLUX, image_model("sketch", service_s=5.0))
    first, second = play(scenario, *models, limits=FIVE_MINUTES).messages.values()
    assert any("Takes about 2 of your GPU minutes." in text for text in first.texts)
    unlimited, _ = play(scenario, *models).messages.values()
    for text in (*second.texts, *unlimited.texts):
        assert "GPU minutes" not in text


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@pytest.mark.thorough
@in_bot(FLUX, service_s=120.0, limits=FIVE_MINUTES)
async def test_a_new_day_begins_at_nothing(running: Bot) -> None:
    """A limit that was once reached would apply forever."""
    for _ in range(3):
        await done(running, "/image flux cat")
    await told(running, "/image flux cat")
    await asyncio.sleep(86_400)
    await done(running, "/image flux cat")
    (refused,) = (await settled(running)).answers
    assert "6 of 5 min used, 0 min" in refused


@in_bot(FLUX, service_s=120.0, limits=FIVE_MINUTES)
async def test_an_admin_sees_and_sets_what_each_person_may_use(running: Bot) -> None:
    """Only the person would know who keeps the GPUs busy."""
    await told(running, "/limit --today", ADMIN)
    await done(running, "/image flux cat")
    await done(running, "/image flux cat", "fake:2")
    await done(running, "/image flux dog", "fake:2")
    await told(running, "/limit --today", ADMIN)
    await told(running, "/limit fake:2 --gpu-minutes 3", ADMIN)
    await told(running, "/image flux cat", "fake:2")
    await told(running, "/limit fake:2 --gpu-minutes none", ADMIN)
    await done(running, "/image flux cat", "fake:2")
    await told(running, "/limit fake:2 --reset", ADMIN)
    await told(running, f"/limit {ADMIN} --gpu-minutes 0", ADMIN)
    await told(running, "/limit --today", "fake:1")
    chat = await settled(running)
    nobody, used, limited, refused, freed, reset, own, no_admin = chat.answers
    assert nobody == "Nobody has used a GPU today."
    assert used == "GPU minutes used today:\nfake:2: 4\nfake:1: 2"
    assert limited.endswith("lane: normal · GPU today: 4 of 3 min")
    assert "4 of 3 min used" in refused
    assert freed.endswith("lane: normal · GPU today: 4 min")
    assert reset.endswith("GPU today: 6 of 5 min")
    assert "lock you out" in own
    assert "used today" not in no_admin


@pytest.mark.parametrize("service_s", [1.0, 59.0])
@in_virtual_time
async def test_a_few_seconds_are_not_shown_as_nothing(service_s: float) -> None:
    """A person who asks for many small images would read that they used nothing."""
    async with bot_with(FLUX, service_s=service_s) as running:
        await done(running, "/image flux cat")
        await done(running, "/image flux cat")
        await done(running, "/image flux cat")
        await told(running, "/settings")
    (shown,) = running.chat.answers
    assert "you used 0 min" not in shown
