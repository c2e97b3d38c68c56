"""The benchmark of films and documents sees what it is there to see."""

import asyncio
import time

import pytest

from tests.backends.planted import SECRET

pytest.importorskip("av", reason="films and sound need usher-bot[media]")

from backends.media.documents import read_document
from benchmarks.media import LAG_MS_MOST, LoopSteps, noisy_film, papers
from queueing.core.requests import File


async def test_a_step_that_is_too_long_is_seen() -> None:
    """The figure would stay small whatever holds the event loop up."""

    async def busy() -> None:
        until = time.thread_time() + 2 * LAG_MS_MOST / 1000
        while time.thread_time() < until:
            pass

    steps = LoopSteps()
    with steps.watched():
        steps.use = "idle"
        await asyncio.sleep(0)
        await asyncio.create_task(asyncio.sleep(0))
        steps.use = "busy"
        await asyncio.create_task(busy())
        await asyncio.sleep(0)
    assert steps.longest["busy"] > LAG_MS_MOST > steps.longest["idle"]


async def test_its_documents_are_read() -> None:
    """It would measure how quickly a document is refused."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    for kind, data in papers().items():
        found = await read_document(File(name=f"a.{kind}", mime="", data=data))
        assert len(found.pictures) == 8 if kind == "scan" else found.truncated
        assert SECRET not in found.text


def test_its_film_is_too_large() -> None:
    """It would measure how quickly a film is copied."""
    assert len(noisy_film(0)) > 10_000_000
