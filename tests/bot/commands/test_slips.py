"""A message that is almost a command means what a person would mean by it, on every platform."""

from tests.bot.results import ask, done, drawn, in_bot, said
from tests.simulation.bot_installation import Bot, settled

SLIPS = ["//image cat", "/ image cat", "/ /image cat", "///IMAGE", "/image@usher cat", "/image@a"]


@in_bot()
async def test_a_slip_of_the_slash_is_answered_with_the_help_of_that_command(running: Bot) -> None:
    """A person would wait for an image while a language model answers the word “//image”."""
    for line in SLIPS:
        assert await ask(running, f"/ask {line}") is None, line
    told = (await settled(running)).answers
    assert [text.startswith("/image [model] <prompt>") for text in told] == [True] * len(SLIPS)


@in_bot()
async def test_the_word_help_alone_asks_for_the_commands(running: Bot) -> None:
    """A language model would answer the first word that people send to a bot."""
    for line in ("help", "Hilfe"):
        assert await ask(running, f"/ask {line}", group=True) is None, line
    assert said(await ask(running, "/ask help me")) == [("user", "help me")]
    told = (await settled(running)).answers
    assert all("/help image" in text for text in told)
    assert len(told) == 2


@in_bot()
async def test_a_command_without_words_in_a_reply_draws_the_words_replied_to(running: Bot) -> None:
    """A person who likes another person's idea for an image would have to type it again."""
    theirs = {"quoted": "a cat in a hat", "quoted_by": "Bob"}
    for line in ("/image", "/image flux --seed 7"):
        assert drawn(await done(running, line, **theirs)).prompt == "a cat in a hat"
    assert drawn(await done(running, "/image a dog", **theirs)).prompt == "a dog"
    await ask(running, "/invite", user="fake:99", **theirs)
    await ask(running, "/image", quoted="the bot's own words")
    *_, invited, alone = (await settled(running)).answers
    assert "a cat in a hat" not in invited
    assert alone.startswith("“prompt” is missing.")


@in_bot()
async def test_other_words_with_slashes_are_questions(running: Bot) -> None:
    """A question about paths or code would be read as a command."""
    lines = ("// is a comment", "/usr/bin is full", "/ 2 = 1?", "a //image", "/image@a.b c")
    for number, line in enumerate(lines):
        job = await ask(running, f"/ask {line}", user=f"fake:{number}")
        assert said(job) == [("user", line)]


@in_bot()
async def test_the_words_of_a_call_are_neither_its_model_nor_its_options(running: Bot) -> None:
    """A conversation would be called after the model that answers in it."""
    lines = [("image", "FLUX a cat --count 2"), ("bild", "a cat"), ("imagine", "flux a cat")]
    words = running.dispatcher.words_of
    assert [words(*line) for line in lines] == ["a cat"] * 3
    assert words("image", "flux") == "flux"  # refused: nothing is to be drawn
    assert words("queue", "") == ""
    assert words("nothing", "flux a cat") == "flux a cat"
