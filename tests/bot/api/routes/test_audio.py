"""Speech and transcripts over HTTP, with the `openai` package unchanged."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from backends.common.file_types import mime_of
from backends.demo.audio import length_s, played
from backends.media import sounds, videos
from bot.api.calls.errors import ApiError
from bot.api.openai.audio import TranscriptForm, rendered
from bot.api.routes.audio import in_form
from bot.requests.files import media as sounds_of_people
from queueing.core.requests import File, Output, SpeechToText, TextToSpeech
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running
from tests.specs import openai_spec

pytestmark = pytest.mark.usefixtures("helper_here")

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

SPEAKS = CONFIG.replace(
    "chats: {}",
    """  kokoro:
    backends: [studio]
    capabilities: [text-to-speech]
    vram: 1GB
    load_s: 0.01
    service_s: 0.1
  whisper:
    backends: [studio]
    capabilities: [speech-to-text]
    vram: 1GB
    load_s: 0.01
    service_s: 0.1
chats: {}""",
)
SLOW = SPEAKS.replace("service_s: 0.1", "service_s: 60")
RECORDING = played("x", 1, 2.5)


@asynccontextmanager
async def sounding(tmp_path: Path, config: str = SPEAKS) -> AsyncIterator[tuple[Api, Any]]:
    async with (
        running(tmp_path, config) as api,
        openai.AsyncOpenAI(base_url=api.url, api_key="none", timeout=WAIT_S) as client,
    ):
        yield api, client


def form(**fields: str | bytes) -> aiohttp.FormData:
    data = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        named = {"filename": "voice.ogg"} if isinstance(value, bytes) else {}
        data.add_field(name, value, **named)
    return data


async def sent(api: Api, path: str, data: aiohttp.FormData, *, status: int = 200) -> Any:
    async with api.session.post(f"{api.url}{path}", data=data) as answer:
        read = await answer.json()
        assert answer.status == status, read
        return read


# ---------------------------------------------------------------- speech


async def test_speech_comes_in_the_form_that_was_asked_for(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A player that was promised FLAC would be sent MP3."""

    async def is_spoken(client: Any, form: Any) -> None:
        answer = await client.audio.speech.create(
            model="kokoro", input="Hello there.", voice="alloy", response_format=form
        )
        assert answer.response.headers["Content-Type"] == sounds.FORMS[form]
        assert answer.response.headers["x-usher-job"]
        data = answer.content
        if form == "pcm":
            assert len(data) % 2 == 0
            assert len(data) > 24_000
        elif form == "aac":
            assert data[:1] == b"\xff"
        else:
            assert mime_of(data) == sounds.FORMS[form]
            heard = await videos.looked_at(File(name="x", mime=sounds.FORMS[form], data=data))
            assert heard.looks.seconds > 0.5

    async with sounding(tmp_path) as (_, client):
        for form in sounds.FORMS:
            with subtests.test(form):
                await is_spoken(client, form)


async def test_what_a_server_sent_in_another_form_is_converted(subtests: pytest.Subtests) -> None:
    """Servers ignore the form, and long texts come in one that can be joined."""
    wav = File(name="a.wav", mime="audio/wav", data=RECORDING)
    mp3 = await sounds.as_form(wav, "mp3")
    for form in sounds.FORMS:
        for sent_as in (mp3, wav) if form in {"mp3", "wav"} else (wav,):
            with subtests.test(form, sent_as=sent_as.mime):
                made = await in_form(form)(Output(files=(sent_as,)))
                assert made.mime == sounds.FORMS[form]
                assert mime_of(made.data) == made.mime or form in {"aac", "pcm"}
    rubbish = File(name="a", mime="audio/x-unknown", data=b"rubbish")
    for output in (Output(files=(rubbish,)), Output(text="no file")):
        with pytest.raises(ApiError):
            await in_form("wav")(output)


async def test_what_cannot_be_converted_is_sent_unless_another_form_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs that name no format would fail where usher-bot[media] is not installed."""
    monkeypatch.setattr(videos, "available", lambda: False)
    wav = File(name="a.wav", mime="audio/wav", data=RECORDING)
    assert await in_form("mp3", usual=True)(Output(files=(wav,))) == wav
    with pytest.raises(ApiError) as refused:
        await in_form("mp3")(Output(files=(wav,)))
    assert "usher-bot[media]" in refused.value.message


async def test_every_wish_for_a_voice_reaches_the_model(tmp_path: Path) -> None:
    """All voices and speeds would sound alike."""
    async with sounding(tmp_path) as (api, client):
        await client.audio.speech.create(
            model="kokoro", input="Hi.", voice="af_heart", speed=1.5, instructions="calm"
        )
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
        assert job.request == TextToSpeech(
            text="Hi.", voice="af_heart", speed=1.5, instructions="calm", format="mp3"
        )
        by_id = {"model": "kokoro", "input": "Hi.", "voice": {"id": "voice_1"}}
        async with api.session.post(f"{api.url}/audio/speech", json=by_id) as answer:
            assert answer.status == 200
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
        assert isinstance(job.request, TextToSpeech)
        assert job.request.voice == "voice_1"


async def test_a_model_need_not_be_named(tmp_path: Path) -> None:
    """A program would have to know which of the models makes speech."""
    async with sounding(tmp_path) as (api, _):
        async with api.session.post(f"{api.url}/audio/speech", json={"input": "Hi."}) as answer:
            assert answer.content_type == "audio/mpeg"
        written = await sent(api, "/audio/transcriptions", form(file=RECORDING))
        assert "2.5 seconds" in written["text"]


async def test_a_sound_is_streamed_in_pieces(tmp_path: Path) -> None:
    """A client of `stream_format` would wait for events that never come."""
    body = {"model": "kokoro", "input": "Hello.", "response_format": "wav", "stream_format": "sse"}
    async with (
        sounding(tmp_path) as (api, _),
        api.session.post(f"{api.url}/audio/speech", json=body) as answer,
    ):
        lines = (await answer.text()).split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    for event in events:
        openai_spec.check_schema("CreateSpeechResponseStreamEvent", event)
    *deltas, done = events
    assert done["type"] == "speech.audio.done"
    data = b"".join(base64.b64decode(each["audio"]) for each in deltas)
    assert length_s(data)


BAD: tuple[dict[str, Any], ...] = (
    {"input": ""},
    {"input": " \n"},
    {},
    {"input": "x" * 4097},
    {"input": "x", "speed": 9},
    {"input": "x", "response_format": "ogg"},
    {"input": "x", "model": "llama"},
    {"input": "x", "voice": ["a"]},
)


async def test_a_bad_request_for_speech_makes_no_job(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A mistake would wait in the queue only to fail."""
    async with sounding(tmp_path) as (api, _):
        for body in BAD:
            with subtests.test(str(body)[:80]):
                answer = await api.post("/audio/speech", {"model": "kokoro", **body}, status=400)
                assert answer["error"]["param"]
                assert not await api.open_jobs()


# ---------------------------------------------------------------- transcripts


async def test_a_transcript_comes_in_the_form_that_was_asked_for(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A program that reads subtitles would be sent JSON."""

    async def is_written(client: Any, form: str) -> None:
        made = await client.audio.transcriptions.create(
            model="whisper", file=("voice.wav", RECORDING), response_format=form
        )
        text = made if isinstance(made, str) else made.text
        assert "no model listened" in text
        if form == "srt":
            assert text.startswith("1\n00:00:00,000 --> 00:00:02,5")
        if form == "vtt":
            assert text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:02.5")
        if form == "verbose_json":
            assert made.duration == made.segments[0].end == pytest.approx(2.5, abs=0.05)
            openai_spec.check_schema(
                "CreateTranscriptionResponseVerboseJson", made.model_dump(exclude_unset=True)
            )

    async with sounding(tmp_path) as (_, client):
        for form in ("json", "text", "srt", "verbose_json", "vtt"):
            with subtests.test(form):
                await is_written(client, form)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the package names newer models
async def test_a_translation_is_asked_for_as_one(tmp_path: Path) -> None:
    """The text would be in the language of the recording."""
    async with sounding(tmp_path) as (api, client):
        made = await client.audio.translations.create(
            model="whisper", file=("voice.wav", RECORDING), prompt="Usher"
        )
        assert "translate" in made.text
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
    assert job.request == SpeechToText(translate=True, prompt="Usher")


async def test_every_wish_for_a_transcript_reaches_the_model(tmp_path: Path) -> None:
    """A German recording would be transcribed as English."""
    async with sounding(tmp_path) as (api, client):
        await client.audio.transcriptions.create(
            model="whisper",
            file=io.BytesIO(RECORDING),
            language="de",
            temperature=0.2,
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
        )
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
        assert job.request == SpeechToText(language="de", temperature=0.2, timestamps=True)
        (stored,) = await api.parts.queue.jobs.inputs(job) or ()
    assert stored.name == "recording.ogg"


async def test_a_streamed_transcript_is_one_piece_and_its_end(tmp_path: Path) -> None:
    """A client that streams would get JSON that it cannot read."""
    async with sounding(tmp_path) as (_, client):
        stream = await client.audio.transcriptions.create(
            model="whisper", file=("voice.wav", RECORDING), stream=True
        )
        events = [event async for event in stream]
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]
    assert events[0].delta == events[1].text


BAD_FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"file": b""},
    {"file": b"no recording"},
    {"file": RECORDING[:30]},
    {"file": RECORDING, "model": "kokoro"},
    {"file": RECORDING, "response_format": "xml"},
    {"file": RECORDING, "temperature": "hot"},
    {"file": RECORDING, "language": "../x"},
    {"file": "as text"},
)


async def test_a_bad_form_makes_no_transcript(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    async with sounding(tmp_path) as (api, _):
        for fields in BAD_FORMS:
            with subtests.test(str(fields)[:80]):
                for path in ("/audio/transcriptions", "/audio/translations"):
                    if path.endswith("translations") and "language" in fields:
                        continue
                    answer = await sent(api, path, form(**fields), status=400)
                    assert answer["error"]["message"]
                assert not await api.open_jobs()


async def test_a_recording_too_large_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program could fill the memory while others wait."""
    monkeypatch.setattr(sounds_of_people, "SOUND_MB", 0.01)
    async with sounding(tmp_path) as (api, _):
        answer = await sent(api, "/audio/transcriptions", form(file=RECORDING), status=400)
    assert answer["error"]["message"] == "file: must not be larger than 0.01 MB."


async def test_what_a_program_wrote_beside_the_sound_is_not_kept(tmp_path: Path) -> None:
    """The place where a voice was recorded would be stored in the database and on the server."""
    secret = b"at home"
    info = b"INFOICMT" + len(secret).to_bytes(4, "little") + secret + b"\0"
    planted = RECORDING + b"LIST" + len(info).to_bytes(4, "little") + info
    planted = planted[:4] + (len(planted) - 8).to_bytes(4, "little") + planted[8:]
    async with sounding(tmp_path) as (api, _):
        await sent(api, "/audio/transcriptions", form(file=planted))
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
        (stored,) = await api.parts.queue.jobs.inputs(job) or ()
    assert secret in planted
    assert secret not in stored.data


def test_times_that_a_server_does_not_know_are_not_invented() -> None:
    """Subtitles would appear over the wrong words."""
    untimed = Output(text="hello")
    forms: tuple[TranscriptForm, ...] = ("srt", "vtt")
    for form in forms:
        with pytest.raises(ValueError, match="no times"):
            rendered(untimed, form)
    told = {"duration": "2.5", "segments": [{"start": 0, "end": "1.25", "text": " hi", "x": None}]}
    made = rendered(Output(text="hi", answer=json.dumps(told)), "verbose_json")
    assert isinstance(made, dict)
    assert (made["duration"], made["segments"][0]["end"]) == (2.5, 1.25)
    openai_spec.check_schema("CreateTranscriptionResponseVerboseJson", made)
    long = {"segments": [{"start": 3599.9996, "end": 36000, "text": "late"}]}
    assert "01:00:00,000 --> 10:00:00,000" in str(
        rendered(Output(text="x", answer=json.dumps(long)), "srt")
    )


# ---------------------------------------------------------------- waiting


async def test_hanging_up_ends_the_job(tmp_path: Path) -> None:
    """The GPU would go on making speech for a program that left."""
    async with sounding(tmp_path, SLOW) as (api, _):
        body = {"model": "kokoro", "input": "Hello there."}
        call = asyncio.create_task(api.post("/audio/speech", body))
        await api.until(bool)
        call.cancel()
        await api.until(lambda jobs: not jobs)


async def test_a_repeated_call_gets_the_same_sound(tmp_path: Path) -> None:
    """A broken connection would cost a second wait in the queue."""
    async with sounding(tmp_path) as (api, _):
        jobs = []
        for _ in range(2):
            async with api.session.post(
                f"{api.url}/audio/speech",
                json={"model": "kokoro", "input": "Hi."},
                headers={"Idempotency-Key": "one"},
            ) as answer:
                assert answer.status == 200
                jobs.append((answer.headers["x-usher-job"], await answer.read()))
        assert jobs[0] == jobs[1]


async def test_a_sound_that_comes_late_follows_its_headers(tmp_path: Path) -> None:
    """Clients give up when no headers come, and white space would become part of the sound."""
    held = SPEAKS.replace("  open: true", "  open: true\n  hold_s: 0.05")
    late = held.replace("service_s: 0.1", "service_s: 1.5")
    async with sounding(tmp_path, late) as (_, client):
        answer = await client.audio.speech.create(
            model="kokoro", input="Hello there.", voice="alloy", response_format="wav"
        )
        assert answer.response.headers["Content-Type"] == "audio/wav"
        assert length_s(answer.content)


async def test_a_failure_after_the_headers_is_no_short_sound(tmp_path: Path) -> None:
    """A program would store silence as the answer."""
    held = SPEAKS.replace("  open: true", "  open: true\n  hold_s: 0.05")
    failing = held.replace("{kind: demo}", "{kind: demo, fail_rate: 1}").replace(
        "    service_s: 0.1\n", "    service_s: 1\n    max_attempts: 1\n"
    )
    async with sounding(tmp_path, failing) as (api, _):
        body = {"model": "kokoro", "input": "Hello there."}
        async with api.session.post(f"{api.url}/audio/speech", json=body) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientError):
                await answer.read()


async def test_open_webui_finds_models_and_voices_without_a_key(tmp_path: Path) -> None:
    """Its settings would show an error, or the names of OpenAI's voices, instead of a list."""
    async with sounding(tmp_path, SPEAKS.replace("open: true", "open: false")) as (api, _):
        await api.get("/models", status=401)
        assert (await api.get("/audio/models"))["models"] == [{"id": "kokoro"}, {"id": "whisper"}]
        assert (await api.get("/audio/voices"))["voices"] == []
