"""The benchmark of conversations that go on where they are remembered runs, on fakes."""

import asyncio
import json

import pytest

from benchmarks import affinity
from tests.fakes.llm import FakeLlm, Model

SLOW_S = 0.02


def test_the_fifth_answer_comes_from_the_server_that_remembers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No one could see what the rule brings on their own servers."""

    async def servers() -> None:
        first, second = (FakeLlm("llamacpp", [Model("llama")]) for _ in range(2))
        first.words, first.pace_s = ("word",) * 100_000, SLOW_S  # busy until it is stopped
        await first.start()
        await second.start()
        try:
            urls = [first.url, second.url]
            arguments = ["--json", "--tokens", "300", "--rounds", "1", *urls]
            await asyncio.to_thread(affinity.main, arguments)
        finally:
            await first.stop()
            await second.stop()

    asyncio.run(servers())
    figures = json.loads(capsys.readouterr().out)
    assert (figures["same_server"], figures["same_server_without"]) == (1, 0)
    assert figures["first_word_s"] > 0
    assert figures["first_word_s_without"] > 0


def test_without_servers_it_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of all benchmarks would end in a traceback."""
    affinity.main(["--json"])
    assert "addresses of two text servers" in capsys.readouterr().out
