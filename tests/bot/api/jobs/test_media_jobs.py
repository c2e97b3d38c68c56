"""Jobs for videos, music, speech, transcripts and edits, with their files in every form."""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.common.file_types import is_sound, is_video, mime_of
from backends.demo.audio import played
from queueing.core.requests import (
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from tests.bot.api.calls.test_files import form, sent
from tests.bot.api.jobs.test_jobs import done
from tests.bot.api.routes.test_image_edits import data_url, marking, png
from tests.bot.api.whole_api import CONFIG, Api, running

pytestmark = pytest.mark.usefixtures("helper_here")

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

KINDS = {
    "wan": "text-to-video, image-to-video",
    "ace": "text-to-audio",
    "kokoro": "text-to-speech",
    "whisper": "speech-to-text",
    "kontext": "image-edit",
}
ALL = CONFIG.replace(
    "chats: {}",
    "\n".join(
        f"  {name}:\n    backends: [studio]\n    capabilities: [{able}]\n    vram: 1GB\n"
        "    load_s: 0.01\n    service_s: 0.1"
        for name, able in KINDS.items()
    )
    + "\nchats: {}",
)
VIDEO = {"kind": "video", "prompt": "a cat", "seconds": 0.5, "width": 64, "height": 64}
RECORDING = played("x", 1, 1.5)
WAV_URL = "data:audio/wav;base64," + base64.b64encode(RECORDING).decode()
PNG_URL = data_url(png())


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path, ALL) as api:
        yield api


async def stored(api: Api, job: Any) -> tuple[str, Request, tuple[bytes, ...]]:
    """Return the model, the request and the files that a job was accepted with."""
    found = await api.parts.queue.jobs.get(job["id"])
    assert found is not None
    files = await api.parts.queue.jobs.inputs(found) or ()
    return found.model, found.request, tuple(file.data for file in files)


async def result(api: Api, job: Any) -> bytes:
    """Return the only file of a job's result."""
    ended = await done(api, job)
    assert ended["state"] == "completed", ended
    (file,) = ended["files"]
    async with api.session.get(api.url.removesuffix("/v1") + file["url"]) as answer:
        assert answer.content_type == file["mime"]
        return await answer.read()


async def test_a_video_is_made_and_fetched(api: Api) -> None:
    """A program could only ask for images."""
    job = await api.post("/jobs", VIDEO, status=202)
    model, request, _ = await stored(api, job)
    assert model == "wan"
    assert isinstance(request, TextToVideo)
    assert (request.seconds, request.width, request.height) == (0.5, 64, 64)
    assert is_video(mime_of(await result(api, job)))


async def test_a_video_goes_from_its_first_image_to_its_last(api: Api) -> None:
    """The second image would silently be left out."""
    job = await api.post("/jobs", {**VIDEO, "images": [PNG_URL] * 2}, status=202)
    assert len((await stored(api, job))[2]) == 2
    by_form = form(kind="video", prompt="a cat", seconds="0.5", image=png())
    job = await sent(api, "/jobs", by_form, status=202)
    _, request, files = await stored(api, job)
    assert isinstance(request, TextToVideo)
    assert len(files) == 1


async def test_music_is_made_with_its_words(api: Api) -> None:
    """The song would have no words."""
    asked = {"kind": "music", "prompt": "calm", "lyrics": "la", "seconds": 1, "seed": 7}
    job = await api.post("/jobs", asked, status=202)
    assert (await stored(api, job))[:2] == (
        "ace",
        TextToAudio(prompt="calm", lyrics="la", seconds=1, seed=7),
    )
    assert is_sound(mime_of(await result(api, job)))


async def test_speech_is_made_and_written_down_again(api: Api) -> None:
    """A program would have to fetch each sound to send it back."""
    asked = {"kind": "speech", "text": "Hello.", "voice": "one", "speed": 2, "format": "wav"}
    spoken = await api.post("/jobs", asked, status=202)
    assert (await stored(api, spoken))[1] == TextToSpeech(
        text="Hello.", voice="one", speed=2, format="wav"
    )
    assert mime_of(await result(api, spoken)) == "audio/wav"
    again = {"kind": "transcription", "file": f"job-{spoken['id']}/1"}
    heard = await done(api, await api.post("/jobs", again, status=202))
    assert "no model listened" in heard["text"]


async def test_a_recording_comes_in_every_way(api: Api) -> None:
    """A program that uploads its voice messages would be told to send images."""
    file = await sent(api, "/files", form(file=RECORDING))
    assert file["filename"] == "recording.wav"
    for named in (file["id"], WAV_URL, base64.b64encode(RECORDING).decode()):
        asked = {"kind": "transcription", "file": named, "language": "de", "timestamps": True}
        job = await api.post("/jobs", asked, status=202)
        model, request, files = await stored(api, job)
        assert (model, request) == ("whisper", SpeechToText(language="de", timestamps=True))
        assert mime_of(files[0]) == "audio/ogg"
        assert (await done(api, job))["answer"]["duration"] == pytest.approx(1.5, abs=0.05)
    whole = json.dumps({"kind": "transcription"})
    for data in (
        form(kind="transcription", translate="true", recording=RECORDING),
        form(request=whole, file=RECORDING),
    ):
        job = await sent(api, "/jobs", data, status=202)
        assert isinstance((await stored(api, job))[1], SpeechToText)


async def test_an_edit_combines_images_under_a_mask(api: Api) -> None:
    """The native API could do less than OpenAI's."""
    asked = {"prompt": "a hat", "images": [PNG_URL] * 3, "mask": data_url(marking())}
    by_form = form(prompt="a hat", image=png(), file=png(), mask=marking())
    for job in (
        await api.post("/jobs", asked, status=202),
        await sent(api, "/jobs", by_form, status=202),
    ):
        model, request, files = await stored(api, job)
        assert model == "kontext"
        assert isinstance(request, TextToImage)
        assert (request.edit, request.mask) == (True, True)
        assert len(files) in {3, 4}
    bare = await api.post("/jobs", asked | {"mask": PNG_URL}, status=400)
    assert bare["error"]["param"] == "mask"
    one = {"prompt": "a hat", "images": [PNG_URL], "edit": True}
    _, request, _ = await stored(api, await api.post("/jobs", one, status=202))
    assert isinstance(request, TextToImage)
    assert (request.edit, request.mask) == (True, False)


async def test_what_a_person_sent_ahead_is_an_image_a_sound_or_a_video(api: Api) -> None:
    """A video could not be uploaded, or would be kept with the location where it was taken."""
    video = await result(api, await api.post("/jobs", VIDEO, status=202))
    for data, mime in ((png(), "image/png"), (RECORDING, "audio/wav"), (video, "video/mp4")):
        file = await sent(api, "/files", form(file=data))
        assert file["mime"] == mime
        async with api.session.get(f"{api.url}/files/{file['id']}/content") as answer:
            assert answer.content_type == mime


BAD = (
    {"kind": "video"},
    {**VIDEO, "seconds": 0},
    {**VIDEO, "seconds": 61},
    {**VIDEO, "width": None},
    {**VIDEO, "images": [PNG_URL] * 3},
    {**VIDEO, "images": [WAV_URL]},
    {**VIDEO, "count": 2},
    {**VIDEO, "model": "flux"},
    {**VIDEO, "lora": "ink:9000"},
    {"kind": "music", "prompt": "x", "images": [PNG_URL]},
    {"kind": "music", "prompt": "x", "seconds": 601},
    {"kind": "speech", "text": ""},
    {"kind": "speech", "text": " \n"},
    {"kind": "speech", "prompt": "x"},
    {"kind": "speech", "text": "x", "model": "flux"},
    {"kind": "transcription"},
    {"kind": "transcription", "file": PNG_URL},
    {"kind": "transcription", "file": "!"},
    {"kind": "transcription", "file": WAV_URL, "language": "../x"},
    {"kind": "transcription", "file": WAV_URL, "model": "kokoro"},
    {"kind": "opera", "prompt": "x"},
    {"kind": 7, "prompt": "x"},
    {"kind": ["video"], "prompt": "x"},
    {"prompt": "x", "mask": PNG_URL},
    {"prompt": "x", "edit": True},
    {"prompt": "x", "images": [PNG_URL] * 5},
)


async def test_a_bad_request_makes_no_job(api: Api, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    for body in BAD:
        with subtests.test(str(body)):
            message = (await api.post("/jobs", body, status=400))["error"]["message"]
            assert not re.search(
                r"JSON object|_kind|Tuple|validation|'.{0,2}S'|file: .*play file", message
            )
            assert not await api.open_jobs()


BAD_FORMS: tuple[dict[str, str | bytes], ...] = (
    {"kind": "music", "prompt": "x", "file": RECORDING},
    {"kind": "speech", "text": "x", "image": png()},
    {"kind": "transcription", "file": RECORDING, "recording": RECORDING},
    {"kind": "transcription", "mask": RECORDING},
    {"kind": "video", "prompt": "x", "mask": png()},
    {"kind": "video", "prompt": "x", "image": RECORDING},
    {"prompt": "x", "image": png(), "mask": png(), "images": RECORDING},
    {"prompt": "x", "mask": png()},
)


async def test_a_bad_form_makes_no_job(api: Api, subtests: pytest.Subtests) -> None:
    """A file would silently be left out."""
    for fields in BAD_FORMS:
        with subtests.test(str(fields)[:80]):
            await sent(api, "/jobs", form(**fields), status=400)
            assert not await api.open_jobs()
