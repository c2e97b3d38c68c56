"""Typos get a one-sentence hint, with an example only where it helps."""

import asyncio

import pytest

from bot.core.live_settings import LiveSettings
from bot.people import upload_quota
from queueing.core.errors import BadModel
from tests.bot.commands.admin.test_admin_commands import say
from tests.bot.commands.admin.test_control_commands import in_bot
from tests.bot.results import FLUX, bot_with, image
from tests.simulation.bot_installation import ADMIN, Bot, settled
from tests.simulation.loop import in_virtual_time

NO_ADDRESS = "I don't open links. Attach the image itself, or reply to a message that contains it."
WRONG_VALUES = [
    ("/image cat --steps 9999", "--steps must be between 1 and 150."),
    ("/image cat --steps many", "--steps must be a whole number."),
    ("/queue mine", "There's no “mine” here, only “all”."),
    ("/forget it", "“it” isn't one of these: conversation, me."),
    ("/cancel abc", "“abc” isn't a job number."),
    ("/ask flux why", "flux can't write text."),
    ("/settings --image xyz", "There's no model called “xyz”. Available: flux, sdxl."),
    ("/help imgae", "There's no command /imgae. Did you mean /image?"),
    ("/paint a horse", "There's no command /paint. Did you mean /image?"),
    ("/image like https://a.example/cat.JPG?s=1", NO_ADDRESS),
    (f"/image {'cat ' * 1001}", "Your text has 4003 characters; the limit is 4000."),
]


@in_bot()
async def test_a_wrong_value_is_told_in_one_sentence(running: Bot) -> None:
    """The mistake would be hard to see between a usage line and an example that do not help."""
    for text, _ in WRONG_VALUES:
        await say(running, text, "fake:1")
    assert (await settled(running)).answers == [answer for _, answer in WRONG_VALUES]


@in_bot()
async def test_a_field_of_a_form_is_named_without_hyphens(running: Bot) -> None:
    """People would look for an option that their chat shows as a field."""
    for options in ({"steps": 9999}, {"stps": 3}, {"size": "huge"}, {"seed": "many"}):
        call = running.chat.call("/image", options={"prompt": "a cat -- red", **options})
        await running.dispatcher.call(call)
        await asyncio.sleep(1)
    assert (await settled(running)).answers == [
        "steps must be between 1 and 150.",
        "There's no option stps. Did you mean steps?",
        "size must be a size such as 768x1024, 3:2 or portrait, 64 to 4096 each way.",
        "seed must be a whole number.",
    ]


@in_bot()
async def test_a_bound_is_written_as_its_reader_writes_numbers(running: Bot) -> None:
    """In German, a point separates thousands: 0.25 would be no number."""
    await say(running, "/settings --language de", "fake:1")
    await say(running, "/speak --speed 9 Hallo", "fake:1")
    await say(running, "/image Katze --strength 2", "fake:1")
    assert (await settled(running)).answers[1:] == [
        "--speed muss zwischen 0,25 und 4 liegen.",
        "--strength muss zwischen 0 und 1 liegen.",
    ]


PASSED_OVER = [
    ("/settings image sdxl", "/settings can't use “image sdxl”."),
    ("/cancel 1 2", "/cancel can't use “2”."),
    ("/models please", "/models can't use “please”."),
    ("/image cat --ratio 16:9", "There's no option --ratio. Did you mean --size?"),
    ("/image cat --stps 20", "There's no option --stps. Did you mean --steps?"),
]


@in_bot()
async def test_nothing_that_was_typed_is_passed_over(running: Bot) -> None:
    """A person would believe that a setting was changed, or both jobs cancelled."""
    for text, _ in PASSED_OVER:
        await say(running, text, "fake:1")
    answers = (await settled(running)).answers
    for (_, answer), told in zip(PASSED_OVER, answers, strict=True):
        assert told.startswith(f"{answer} Usage: /")


@in_bot()
async def test_what_only_admins_may_type_is_shown_to_them_alone(running: Bot) -> None:
    """People would try `/queue all` and be refused."""
    for user in ("fake:1", ADMIN):
        for command in ("queue", "key"):
            await say(running, f"/help {command}", user)
    queue, key, whole_queue, whole_key = (await settled(running)).answers
    assert queue.startswith("/queue · ")
    assert "--service" not in key
    assert whole_queue.startswith("/queue [all] · ")
    assert "--service" in whole_key


@in_bot()
async def test_a_command_of_options_only_shows_them(running: Bot) -> None:
    """`Usage: /settings` would not tell anyone what to write."""
    await say(running, "/settings --sise 3:2", "fake:1")
    (told,) = (await settled(running)).answers
    assert "Usage: /settings [--image …] [--ask …] [--edit …]" in told


@in_bot()
async def test_a_model_that_cannot_be_loaded_says_so_wherever_one_looks(running: Bot) -> None:
    """People would read that Usher restarts, and the operator would read nothing at all."""
    for server in running.installation.servers.values():
        server.load_fates = lambda: BadModel("node 1: no file")
    await say(running, "/image flux a cat", "fake:1")
    await asyncio.sleep(30)
    await say(running, "/image flux a dog", "fake:1")
    await say(running, "/models", "fake:1")
    await say(running, "/status", "fake:1")
    await say(running, "/status")
    refused, models, status, admins = (await settled(running)).answers
    assert "restarting" not in refused
    assert "flux can't be loaded on its server at the moment" in refused
    assert "⚠️ can't be loaded on " in next(x for x in models.splitlines() if "flux" in x)
    assert "⚠️ flux can't be loaded, next try " in status
    assert "no file" not in refused + models + status
    assert "node 1: no file" in admins


@in_virtual_time
async def test_too_many_files_in_an_hour_are_refused_with_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One person could fill the disk with images, within all their other limits."""
    monkeypatch.setattr(upload_quota, "_MB", 1)  # the limit below then counts bytes

    live = LiveSettings(files_per_hour_mb=image().size)
    async with bot_with(FLUX, live=live) as running:
        for _ in range(2):
            await say(running, "/image a cat", "fake:1", files=(image(),))
        await say(running, "/image a cat", "fake:2", files=(image(),))
        await say(running, "/image a cat", "fake:1")
    (told,) = running.chat.answers
    assert told.startswith("You've sent as many files as you may in an hour.")


@in_bot()
async def test_a_second_image_is_not_passed_over(running: Bot) -> None:
    """A person would wait for an image made from both, and get one made from the first."""
    none = "No model here can edit or combine images. /models lists what each of them can do."
    await say(running, "/image cat", "fake:1", files=(image(), image()))

    await say(running, "/image cat", "fake:1", files=(image(),) * 5)
    assert (await settled(running)).answers == [
        none,
        "You attached 5 images; /image takes at most 4.",
    ]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("/models", "The next one should be done by "),
        ("/pause", "Wait for one to finish, or /cancel one."),
    ],
)
@in_bot()
async def test_one_job_too_many_is_told_when_the_next_one_ends(
    running: Bot, before: str, told: str
) -> None:
    """People would retry every few seconds, or be told a time although nothing moves."""
    await say(running, before)
    for number in range(11):
        await running.dispatcher.call(running.chat.call(f"/image flux {number}", user="fake:1"))
    await asyncio.sleep(2)
    (refused,) = (text for text in (await settled(running)).answers if "open jobs" in text)
    assert refused.startswith(f"You've reached your limit of open jobs (10). {told}")
