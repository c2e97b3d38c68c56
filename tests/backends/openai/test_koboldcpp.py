"""KoboldCpp, which passes for Ollama and ComfyUI, and silently cuts long questions."""

import pytest

from bot.cli.init import scan
from queueing.core.errors import ProblemKind, Rejected, problem_of
from tests.backends.openai.asking import ANSWER, answer, connected, model, work
from tests.fakes.llm.llm import Model, serving

KOBOLD = [Model("koboldcpp/alpha")]


async def test_it_is_not_taken_for_the_servers_it_imitates() -> None:
    """Usher would wait in vain for it to unload, and draw with it."""
    async with serving("koboldcpp", KOBOLD) as server, connected(server) as backend:
        (found,) = await scan.look([server.url])
        assert (found.kind, found.flavour, found.models) == ("openai", "koboldcpp", ("alpha",))
        info = await backend.probe()
        assert info.description == "KoboldCpp 1.108"
        await backend.load(model())
        assert (await answer(backend, model(), work())).text == ANSWER


async def test_a_question_that_it_would_cut_is_refused() -> None:
    """A person would get an answer about the end of a document, and nobody would know."""
    async with serving("koboldcpp", KOBOLD) as server, connected(server) as backend:
        await backend.load(model())
        with pytest.raises(Rejected) as caught:
            await answer(backend, model(), work("word " * 5_000))
        assert problem_of(caught.value).what is ProblemKind.TOO_LONG
        assert server.posted("/v1/chat/completions") == []


async def test_a_server_that_imitates_it_alone_is_not_taken_for_it() -> None:
    """TabbyAPI names itself so, and refuses what is too long by itself."""
    async with serving("tabbyapi", KOBOLD) as server, connected(server) as backend:
        assert (await backend.probe()).flavour == "generic"
