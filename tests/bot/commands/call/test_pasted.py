"""An image's address in a prompt is an attachment where the operator lets the bot fetch it."""

from dataclasses import dataclass, field

import pytest

from bot.commands.call.parser import IMAGE_ADDRESS
from bot.core.errors import ChatUnavailable
from tests.bot.results import bot_with, done, drawn, image
from tests.simulation.loop import in_virtual_time

CAT = "https://pictures.example/a/cat.png?size=1"


@dataclass
class Web:
    """Fake web pages; `asked` are the addresses that were fetched."""

    fails: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def fetch(self, address: str, most: int) -> bytes:
        self.asked.append((address, most))
        if self.fails:
            raise ChatUnavailable("must be a URL with a full host name")
        return await image().read()


@pytest.mark.parametrize("text", [f"flux in blue {CAT}", f"flux <{CAT}> in blue"])
@in_virtual_time
async def test_a_pasted_address_is_drawn_from_and_is_no_word_of_the_prompt(text: str) -> None:
    """People would have to download a picture and upload it again."""
    web = Web()
    async with bot_with(fetch=web.fetch) as running:
        job = await done(running, f"/image {text}")
        assert drawn(job).prompt == "in blue"
        [stored] = await running.queue.jobs.inputs(job) or ()
        assert stored.mime == "image/png"
    assert web.asked == [(CAT, 20_000_000)]


ADDRESSES = {
    "https://w.example/a/Cat.PNG/revision/latest?cb=2": "",
    "https://w.example/a.jpeg?w=1,": ",",
    "https://cdn.discordapp.com/a/cat.png?ex=1&is=2),": "),",
    "https://www.png.example/cat.webp.": ".",
    "https://gif.example/about": "https://gif.example/about",
    "https://w.example/cat.pngs": "https://w.example/cat.pngs",
}
"""Addresses as they stand in texts, and what is left of each as words."""


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_taken_whole_without_the_punctuation_around_it(text: str) -> None:
    """Part of the address would be drawn as words, or punctuation be fetched as part of it."""
    assert IMAGE_ADDRESS.sub("", f"in blue {text}").strip() == f"in blue {ADDRESSES[text]}".strip()


@in_virtual_time
async def test_an_address_in_a_message_replied_to_is_the_image_meant() -> None:
    """A picture would have to be attached again because its sender only linked to it."""
    web = Web()
    async with bot_with(fetch=web.fetch) as running:
        replies = {"quoted": f"look: {CAT}", "quoted_by": "Bob"}
        job = await done(running, "/image flux in blue", **replies)
        assert drawn(job).prompt == "in blue"
        assert len(await running.queue.jobs.inputs(job) or ()) == 1
        await running.dispatcher.call(running.chat.call("/ask qwen is it true?", **replies))
    assert [address for address, _ in web.asked] == [CAT]


@in_virtual_time
async def test_an_address_in_a_slash_command_or_a_form_is_an_attachment_too() -> None:
    """On Discord the address would be refused or drawn as words."""
    web = Web()
    async with bot_with(fetch=web.fetch) as running:
        values = {"prompt": f"in blue {CAT}", "model": "flux"}
        job = await done(running, "/image", options=values)
        assert drawn(job).prompt == "in blue"
        assert len(await running.queue.jobs.inputs(job) or ()) == 1


@in_virtual_time
async def test_what_cannot_be_fetched_is_refused_and_makes_no_job() -> None:
    """The image would be drawn without the picture."""
    web = Web(fails=True)
    async with bot_with(fetch=web.fetch) as running:
        await running.dispatcher.call(running.chat.call(f"/image flux in blue {CAT}"))
        await running.dispatcher.call(
            running.chat.call(f"/image flux in blue {CAT} {CAT} {CAT} {CAT} {CAT}")
        )
        await running.dispatcher.call(
            running.chat.call("/ask qwen what is at https://a.example/b.png?")
        )
        assert len(await running.queue.jobs.open_jobs()) == 1
    assert [address for address, _ in web.asked] == [CAT]


@in_virtual_time
async def test_nothing_is_fetched_for_a_banned_person() -> None:
    """A banned person could still use the bot's connection."""
    web = Web()
    async with bot_with(fetch=web.fetch) as running:
        await running.dispatcher.call(running.chat.call("/ban fake:1", user="fake:99"))
        await running.dispatcher.call(running.chat.call(f"/image flux in blue {CAT}"))
        assert not await running.queue.jobs.open_jobs()
    assert not web.asked
