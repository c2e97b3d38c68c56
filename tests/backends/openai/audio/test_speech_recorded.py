"""The fake of whisper.cpp compared with recordings of the real one."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, FormData

from backends.openai.audio.transcription import heard
from tests.fakes.servers.speech import SpeechFault, speech
from tests.fakes.servers.speech_script import wav

RECORDED = json.loads(
    (Path(__file__).parents[2] / "recorded" / "whisper-server.json").read_text("utf-8")
)


async def got(url: str) -> tuple[int, str]:
    async with ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def posted(url: str, **fields: str) -> tuple[int, str]:
    form = FormData(fields)
    form.add_field("file", wav(), filename="voice.wav", content_type="audio/wav")
    async with ClientSession() as session, session.post(url, data=form) as response:
        return response.status, await response.text()


def keys(answer: dict[str, Any]) -> set[str]:
    return set(answer) | set(answer["segments"][0])


async def test_the_fake_answers_as_the_real_one() -> None:
    """A fake that differs from the real server would prove nothing about the backend."""
    async with speech("whispercpp") as server:
        status, page = await got(server.url)
        assert status == 200
        for mark in ("Whisper.cpp Server", "<h2>/inference</h2>", "<h2>/load</h2>"):
            assert mark in page
            assert mark in RECORDED["page"]
        assert json.loads((await got(f"{server.url}/health"))[1]) == RECORDED["health"]
        assert (await got(f"{server.url}/v1/models"))[0] == RECORDED["unknown"][0]
        call = f"{server.url}/inference"
        verbose = json.loads((await posted(call, response_format="verbose_json"))[1])
        own = {"seek"}  # OpenAI's, which it lacks; `words` are left out
        assert keys(verbose) - own <= keys(RECORDED["verbose"])
        assert set(json.loads((await posted(call))[1])) == set(RECORDED["plain"])
        server.faults.append(SpeechFault.UNREADABLE)
        assert await posted(call) == tuple(RECORDED["unreadable"])


@pytest.mark.parametrize("form", ["verbose", "plain"])
def test_what_the_real_one_wrote_down_is_read(form: str) -> None:
    """It ends its lines with the segments, and writes numbers in its own way."""
    told = heard(RECORDED[form])
    assert told.text == RECORDED["plain"]["text"].strip()
    assert told.seconds == (3.0 if form == "verbose" else None)
    assert len(told.segments or ()) == (1 if form == "verbose" else 0)
