"""How a chat shows the embeddings that a person's programs asked for."""

from dataclasses import replace

from queueing.core.jobs import NewJob, SubmitLimits
from queueing.core.requests import Capability, Embed
from tests.bot.commands.admin.test_admin_commands import say
from tests.simulation.bot_installation import Bot, played, settled
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import Inside

WORDS = replace(image_model("words"), capabilities=frozenset({Capability.EMBEDDING}))
USER = "fake:1"


def in_bot() -> Inside[Bot]:
    """Run a test in a bot with a model that draws and one that embeds."""
    models = [WORDS, image_model("flux")]
    return Inside(lambda: played(Installation.of(models, [host("gpu-1", "comfy")])))


async def embed(running: Bot, count: int) -> None:
    for number in range(count):
        new = NewJob(
            model="words", request=Embed(inputs=("a cat",)), owner=USER, key=f"program:{number}"
        )
        await running.queue.submitter.submit(new, limits=SubmitLimits())


@in_bot()
async def test_embeddings_do_not_push_other_jobs_out_of_the_queue(running: Bot) -> None:
    """Hundreds of embeddings would hide the one image a person waits for."""
    await embed(running, 12)
    await say(running, "/image flux cat", USER)
    await say(running, "/queue", USER)
    await say(running, "/cancel", USER)
    shown, cancelled = (await settled(running)).answers
    assert "\n13 · " in shown
    assert "12 embeddings for programs" in shown
    assert "\n1 · " not in shown
    assert "13" in cancelled


@in_bot()
async def test_an_embedding_is_nothing_a_chat_can_show_or_change(running: Bot) -> None:
    """A person would get a file of numbers, or an internal error."""
    await embed(running, 1)
    for command in ("show", "again", "edit"):
        await say(running, f"/{command} 1", USER)
    await say(running, "/history", USER)
    await say(running, "/again", USER)
    *refused, history, again = (await settled(running)).answers
    assert refused == ["Job 1 is an embedding for a program; a chat can't show it."] * 3
    assert "words" not in history
    assert again == history


@in_bot()
async def test_what_was_embedded_is_forgotten_with_the_rest(running: Bot) -> None:
    """A person's documents would stay in the database after /forget."""
    forgotten: list[int] = []
    await embed(running, 3)
    forgotten.append(await running.queue.erasure.forget(USER))
    assert await running.queue.jobs.open_jobs(USER) == []
    assert await running.queue.jobs.get(1) is None
    assert forgotten == [3]


@in_bot()
async def test_no_command_goes_to_a_model_that_embeds(running: Bot) -> None:
    """`/ask` would wait in the embedding model's queue and fail."""
    await say(running, "/ask what is a cat?", USER)
    await say(running, "/ask words what is a cat?", USER)
    await say(running, "/image words a cat", USER)
    await say(running, "/models", USER)
    assert await running.queue.jobs.open_jobs(USER) == []
    asked, named, drawn, models = (await settled(running)).answers
    assert "No model here can do that" in asked
    assert "words can't write text" in named or "No model here can do that" in named
    assert "words can't draw images" in drawn
    assert "embeddings" in models
