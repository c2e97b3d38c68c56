"""Problems are described in the reader's language, whichever part found them."""

import asyncio
from dataclasses import replace

import pytest

from backends.comfyui.files import KEPT_BACK
from bot.texts.catalogue import CATALOGUES
from bot.texts.refusals import told
from queueing.core.errors import (
    BackendError,
    OutOfMemory,
    Problem,
    ProblemKind,
    Rejected,
    StoreError,
    Unavailable,
    problem,
    problem_of,
)
from queueing.core.requests import Capability, Output
from queueing.store.jobs.rows import output_from, output_rows
from tests.bot.results import bot_with, done, in_bot
from tests.fakes.servers.backend import Fate
from tests.simulation.bot_installation import ADMIN, Bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time

VALUES: dict[str, str | int] = {
    "minutes": 5,
    "text": "Es regnet.",
    "name": "ink",
    "there": "pen, oil",
    "field": "steps",
    "count": 2,
    "backend": "comfy",
    "seconds": "300",
    "cause": "models.flux: no such file",
    "host": "gpu-1",
    "model": "flux",
    "names": "flux",
    "word": "rude",
}


def test_every_problem_is_told_in_every_language() -> None:
    """A German would read English, or an internal error instead of the problem."""
    for what in ProblemKind:
        texts = {told(Problem(what=what, values=VALUES), language) for language in CATALOGUES}
        assert len(texts) == len(CATALOGUES), what
        assert all(text and "{" not in text for text in texts), what


def test_a_problem_is_kept_as_a_code() -> None:
    """After a restart a job would have failed for no reason."""
    full = Problem(what=ProblemKind.NO_LORA, values={"name": "ink"}, attempts=3, unloadable="flux")
    assert Problem.read(full.code()) == full


@pytest.mark.parametrize("code", ['{"what": "of_a_newer_version"}', '{"what": "late", "x": 1}', ""])
def test_a_problem_that_only_a_newer_version_knows_is_told_in_general(code: str) -> None:
    """During the upgrade of a cluster, an older process could not report that a job has failed."""
    assert Problem.read(code) == Problem(what=ProblemKind.BUG)


def test_how_often_it_was_tried_and_what_was_not_loaded_is_told() -> None:
    """People would retry what has already been tried three times."""
    why = Problem(what=ProblemKind.MEMORY, attempts=3, unloadable="flux")
    assert told(why, "en").startswith("flux couldn't be loaded. The GPU doesn't have enough")
    assert told(why, "en").endswith("It was tried 3 times.")
    assert told(why, "de").endswith("Es wurde 3-mal versucht.")


@pytest.mark.parametrize(("language", "advice"), [("en", "smaller"), ("de", "kleiner")])
def test_a_smaller_request_is_advised_only_where_it_helps(language: str, advice: str) -> None:
    """People would ask a model that fits on no GPU for smaller and smaller images."""
    assert advice in told(Problem(what=ProblemKind.MEMORY), language)
    assert advice not in told(Problem(what=ProblemKind.MEMORY, unloadable="flux"), language)


@pytest.mark.parametrize(
    "error",
    [BackendError("x"), OutOfMemory("x"), StoreError("x"), TimeoutError("x"), KeyError("x")],
)
def test_an_error_without_a_problem_of_its_own_has_one_by_its_class(error: Exception) -> None:
    """The error's own message, which is for the log, would be shown."""
    assert problem_of(error).what in ProblemKind
    assert not problem_of(error).values


def test_why_files_are_missing_is_kept_with_the_result() -> None:
    """An image would come without the note that another one was held back."""
    output = Output(text="", files=(), missing=KEPT_BACK.code())
    rows = [row[1:] for row in output_rows(1, output)]
    assert output_from(rows) == output
    assert output_from([(0, "", "text/plain", b"words")]) == Output(text="words")


@in_virtual_time
async def test_which_images_were_looked_at_is_told_under_the_answer() -> None:
    """A person would believe that an answer about one image is about both."""
    answering = replace(image_model("llama"), capabilities=frozenset({Capability.TEXT_TO_TEXT}))
    installation = Installation.of([answering], [host("gpu-1", "comfy")])
    missing = problem(ProblemKind.NEWEST_IMAGES, count=2).code()
    installation.servers["comfy"].outputs = lambda _work: Output(text="Cats.", missing=missing)
    async with bot_with(installation=installation) as running:
        await done(running, "/ask llama what?")
    (message,) = running.chat.messages.values()
    assert "Cats." in message.text
    assert "takes 2 images at a time" in message.text


@in_virtual_time
async def test_a_failed_job_is_told_in_german() -> None:
    """A person who writes German would read the reason in English."""
    installation = Installation.of(
        [image_model("flux", "comfy", max_attempts=1)], [host("gpu-1", "comfy")]
    )
    refusal = Rejected("400", problem=problem(ProblemKind.NOT_TAKEN, field="steps"))
    installation.servers["comfy"].fates = lambda _request: Fate(error=refusal)
    async with bot_with(installation=installation) as running:
        await done(running, "/image flux Katze", language="de")
    chat = running.chat
    (message,) = chat.messages.values()
    assert "Diesen Wert nimmt der Server nicht an: Anzahl der Schritte." in message.text


@in_virtual_time
async def test_a_failed_preload_is_told_in_german() -> None:
    """An admin would read half a sentence in German and the other half in English."""
    installation = Installation.of([image_model("flux", "comfy")], [host("gpu-1", "comfy")])
    installation.servers["comfy"].load_fates = lambda: Unavailable("connection reset")
    async with bot_with(installation=installation) as running:
        call = running.chat.call("/preload flux", user=ADMIN, language="de")
        await running.dispatcher.call(call)
        await asyncio.sleep(60)
        await running.dispatcher.call(running.chat.call("/pause flux", user=ADMIN, language="de"))
        call = running.chat.call("/preload flux", user=ADMIN, language="de")
        await running.dispatcher.call(call)
        await asyncio.sleep(60)
    chat = running.chat
    texts = "\n".join(message.text for message in chat.messages.values())
    assert "❌ flux ließ sich nicht laden: comfy antwortet nicht mehr." in texts
    assert "❌ flux ließ sich nicht laden: Angehalten: flux." in texts


@in_bot()
async def test_a_chosen_language_is_told_to_those_who_want_to_know(running: Bot) -> None:
    """Open pages would stay in the old language."""
    heard: list[tuple[str, str | None]] = []
    with running.dispatcher.telling_languages(
        lambda user, language: heard.append((user, language))
    ):
        for line in ("--language de", "--size 1:1", "--language reset", "--language de"):
            await running.dispatcher.call(running.chat.call(f"/settings {line}"))
        await running.dispatcher.call(running.chat.call("/forget me --sure"))
    await running.dispatcher.call(running.chat.call("/settings --language de"))
    assert heard == [("fake:1", "de"), ("fake:1", None), ("fake:1", "de"), ("fake:1", None)]
