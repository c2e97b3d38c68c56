"""Speech from each kind of server: what is sent, what comes back, and what is not believed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from backends.media import videos
from backends.media.sounds import FORMS
from backends.openai.audio import speech as speaking
from backends.openai.audio import transcription
from backends.openai.audio.recordings import sound_of
from backends.openai.backend import OpenAI
from backends.registry import connect
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    NotLoaded,
    OutOfMemory,
    ProblemKind,
    Rejected,
    Unavailable,
    UnreadableAnswer,
    problem,
)
from queueing.core.requests import (
    Capability,
    File,
    Output,
    Progress,
    SpeechFormat,
    SpeechToText,
    TextToSpeech,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.fakes.servers.speech import HEARING, SPEAKING, FakeSpeech, SpeechFault, speech
from tests.fakes.servers.speech_script import SOUNDS, mp3, wav

HEARS, SPEAKS = Capability.SPEECH_TO_TEXT, Capability.TEXT_TO_SPEECH
SAID = "The cat sat on the mat."
VERBOSE = ("whispercpp", "speaches", "localai", "vllm", "generic")


def ear(name: str = "ear") -> ModelSpec:
    return ModelSpec(name=name, backends=("b",), capabilities=frozenset({HEARS}))


def mouth(server: FakeSpeech, voice: str = "") -> ModelSpec:
    name = "kokoro" if server.kind == "kokoro" else "mouth"
    options = {"voice": voice} if voice else {}
    return ModelSpec(name=name, backends=("b",), capabilities=frozenset({SPEAKS}), options=options)


@asynccontextmanager
async def connected(server: FakeSpeech, path: str = "") -> AsyncIterator[OpenAI]:
    backend = connect(BackendSpec(name="b", kind="openai", url=server.url + path))
    assert isinstance(backend, OpenAI)
    try:
        yield backend
    finally:
        await backend.aclose()


def recording(data: bytes | None = None, name: str = "voice.wav") -> File:
    return File(name=name, mime="audio/wav", data=data or wav())


async def heard(backend: OpenAI, data: bytes | None = None, **fields: object) -> Output:
    request = SpeechToText.model_validate(fields)
    await backend.load(ear())
    work = Work(key="k", request=request, files=(recording(data),))
    return await (await backend.run(ear(), work, lambda _: None))()


async def spoken(
    backend: OpenAI,
    model: ModelSpec,
    text: str = "Hello there.",
    reports: list[Progress] | None = None,
    **fields: object,
) -> File:
    request = TextToSpeech.model_validate({"text": text, **fields})
    await backend.load(model)
    told = [] if reports is None else reports
    output = await (await backend.run(model, Work(key="k", request=request), told.append))()
    (sound,) = output.files
    return sound


def what(error: pytest.ExceptionInfo[BackendError]) -> ProblemKind | None:
    return error.value.problem.what if error.value.problem else None


# ---------------------------------------------------------------- writing down


@pytest.mark.parametrize("kind", HEARING)
async def test_a_recording_is_written_down(kind: str) -> None:
    """A voice message would not be transcribed."""
    async with speech(kind) as server, connected(server) as backend:
        output = await heard(backend)
        assert output.text == SAID
        assert output.answer == ""
        (call,) = server.calls
        assert call.path == ("/inference" if kind == "whispercpp" else "/v1/audio/transcriptions")
        assert call.file == wav()
        assert call.fields["model"] == "ear"
        assert "stream" not in call.fields


@pytest.mark.parametrize("kind", HEARING)
async def test_segments_come_in_one_shape(kind: str) -> None:
    """A program would get nanoseconds from one server and numbers as strings from another."""
    async with speech(kind) as server, connected(server) as backend:
        output = await heard(backend, timestamps=True)
        assert output.text == SAID
        if kind not in VERBOSE:
            assert output.answer == ""
            return
        answer = json.loads(output.answer)
        assert answer["text"] == SAID
        assert answer["duration"] == pytest.approx(2.0 if kind == "localai" else 4.0)
        (segment,) = answer["segments"]
        assert segment["id"] == 0
        assert (segment["start"], segment["end"]) == (0.0, 2.0)
        assert segment["text"].strip() == SAID


@pytest.mark.parametrize("kind", HEARING)
async def test_words_for_silence_are_left_out(kind: str) -> None:
    """A person who said nothing would get an answer to "Thank you."."""
    async with speech(kind) as server, connected(server) as backend:
        server.faults.append(SpeechFault.SILENCE)
        output = await heard(backend, timestamps=kind in VERBOSE)
        assert output.text == ""
        assert not output.answer or json.loads(output.answer)["segments"] == []


@pytest.mark.parametrize("kind", HEARING)
async def test_a_translation_is_asked_for_as_the_server_takes_it(kind: str) -> None:
    """A person would get the words in a language they do not speak."""
    async with speech(kind) as server, connected(server) as backend:
        if kind == "llamacpp":
            with pytest.raises(Rejected) as caught:
                await heard(backend, translate=True)
            assert what(caught) is ProblemKind.NO_TRANSLATION
            assert not server.calls
            return
        output = await heard(backend, translate=True, language="de")
        assert output.text == SAID.replace("cat", "dog")
        call = server.calls[-1]
        own = kind in {"whispercpp", "localai"}
        assert call.path.endswith("translations") is not own
        assert call.fields.get("language") == ("de" if own else None)


async def test_language_and_words_are_passed_on() -> None:
    """Names would be spelt as they sound."""
    async with speech("generic") as server, connected(server) as backend:
        await heard(backend, language="de", prompt="Usher, Ada", temperature=0.25)
        fields = server.calls[0].fields
        assert fields["language"] == "de"
        assert fields["prompt"] == "Usher, Ada"
        assert fields["temperature"] == "0.25"


async def test_llama_cpp_is_still_told_to_write_down() -> None:
    """Without an instruction in its prompt, the model would talk about Ada."""
    async with speech("llamacpp") as server, connected(server) as backend:
        await heard(backend, prompt="Usher, Ada")
        await heard(backend)
        told, untold = (call.fields.get("prompt") for call in server.calls)
        assert told == "Transcribe audio to text. These words may occur: Usher, Ada"
        assert untold is None


async def test_a_model_that_chats_does_not_write_without_end() -> None:
    """A model that repeats itself would fill its context."""
    async with speech("llamacpp") as server, connected(server) as backend:
        spec = replace(ear(), options={"max_tokens": 500})
        await backend.run(
            spec, Work(key="k", request=SpeechToText(), files=(recording(),)), lambda _: None
        )
        assert server.calls[0].fields["max_tokens"] == "500"


async def test_whisper_cpp_finds_the_language_out() -> None:
    """whisper.cpp treats every recording as English unless it is told otherwise."""
    async with speech("whispercpp") as server, connected(server) as backend:
        await heard(backend)
        assert server.calls[0].fields["language"] == "auto"


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/own/path"])
async def test_whisper_cpp_is_found_wherever_its_call_is(path: str) -> None:
    """Every transcription would end with "File Not Found"."""
    async with speech("whispercpp", path=path) as server, connected(server) as backend:
        assert path in (await backend.probe()).description
        assert (await heard(backend)).text == SAID
        assert server.calls[0].path == path


async def test_any_name_is_the_model_of_whisper_cpp() -> None:
    """whisper.cpp lists no models, so none could be used."""
    async with speech("whispercpp") as server, connected(server) as backend:
        await backend.verify(ear("large-v3"))
        assert await backend.loaded([ear("large-v3")]) == frozenset({"large-v3"})
        assert await backend.discover([ear("large-v3")]) == ()
        assert not backend.can_unload


async def test_another_page_is_no_whisper_cpp() -> None:
    """Any web server would be regarded as whisper.cpp."""
    async with speech("whispercpp", page=False) as server, connected(server) as backend:
        with pytest.raises(Unavailable):
            await backend.probe()


@pytest.mark.parametrize("kind", ["whispercpp", "speaches", "localai", "vllm", "generic"])
async def test_a_model_without_segments_is_asked_without_from_then_on(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parakeet on Speaches answers `verbose_json` with status 500: all would be sent twice."""
    monkeypatch.setattr(transcription, "PIECE_S", 1.0)
    monkeypatch.setattr(transcription, "PAUSE_S", 0.5)
    async with speech(kind) as server, connected(server) as backend:
        server.faults.extend([SpeechFault.NO_SEGMENTS] * 9)
        output = await heard(backend, wav(2.5), timestamps=True)
        pieces = len(server.calls) - 1
        assert pieces >= 3
        assert (output.text, output.answer) == (" ".join([SAID] * pieces), "")
        forms = [call.fields["response_format"] for call in server.calls]
        assert forms == ["verbose_json", *["json"] * pieces]


HEARING_FAULTS: dict[SpeechFault, tuple[type[BackendError], ProblemKind | None]] = {
    SpeechFault.ERROR_200: (OutOfMemory, None),
    SpeechFault.HTML: (UnreadableAnswer, None),
    SpeechFault.BUSY: (Busy, None),
    SpeechFault.TOO_LONG: (Rejected, ProblemKind.LONG_SOUND),
    SpeechFault.UNREADABLE: (Rejected, ProblemKind.BAD_SOUND),
    SpeechFault.DEAF: (Rejected, ProblemKind.NO_HEARING),
    SpeechFault.NO_TEXT: (UnreadableAnswer, None),
}


@pytest.mark.parametrize("kind", HEARING)
async def test_failures_are_what_they_are(kind: str, subtests: pytest.Subtests) -> None:
    """A person would be told to retry what cannot work, or not to retry what can."""
    async with speech(kind) as server, connected(server) as backend:
        for fault, (error, told) in HEARING_FAULTS.items():
            server.faults.append(fault)
            with subtests.test(fault=fault):
                with pytest.raises(error) as caught:
                    await heard(backend)
                assert what(caught) is told


async def test_a_recording_in_another_form_is_converted() -> None:
    """whisper.cpp reads no Opus, which is the format of voice messages."""
    async with speech("whispercpp") as server, connected(server) as backend:
        await heard(backend, wav(0.5, 48_000, channels=2))
        sent = server.calls[0].file
        assert sent[:4] == b"RIFF"
        assert len(sent) == pytest.approx(16_000, abs=400)


async def test_what_is_no_recording_is_told_before_it_is_sent() -> None:
    """A server would be asked to decode files of any kind."""
    async with speech("generic") as server, connected(server) as backend:
        with pytest.raises(Rejected) as caught:
            await heard(backend, b"this is no sound at all")
        assert what(caught) is ProblemKind.BAD_SOUND
        assert not server.calls


@pytest.mark.parametrize("kind", HEARING)
async def test_a_long_recording_is_written_down_in_pieces(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server like vLLM accepts ten minutes, and people would see nothing for an hour."""
    monkeypatch.setattr(transcription, "PIECE_S", 1.0)
    monkeypatch.setattr(transcription, "PAUSE_S", 0.5)
    async with speech(kind) as server, connected(server) as backend:
        await backend.load(ear())
        reports: list[Progress] = []
        request = SpeechToText(timestamps=True)
        work = Work(key="k", request=request, files=(recording(wav(2.5)),))
        output = await (await backend.run(ear(), work, reports.append))()
        count = len(server.calls)
        assert count >= 3
        assert output.text == " ".join([SAID] * count)
        assert [report.fraction for report in reports] == [(n + 1) / count for n in range(count)]
        assert reports[0].text == SAID
        if kind in VERBOSE:
            answer = json.loads(output.answer)
            assert answer["duration"] == pytest.approx(2.5)
            starts = [each["start"] for each in answer["segments"]]
            assert starts == sorted(set(starts))


# ---------------------------------------------------------------- reading aloud


@pytest.mark.parametrize("kind", SPEAKING)
async def test_a_text_is_read_aloud(kind: str) -> None:
    """A person who cannot read the answer would get nothing."""
    async with speech(kind) as server, connected(server) as backend:
        reports: list[Progress] = []
        sound = await spoken(backend, mouth(server), "**Hello** there.", reports)
        assert (sound.name, sound.mime) == ("speech.mp3", "audio/mpeg")
        assert sound.data == mp3(counted=True)
        assert [report.fraction for report in reports] == [1.0]
        (call,) = server.calls
        assert call.fields["input"] == "Hello there."
        assert call.fields.get("stream", False) is False
        assert ("stream" in call.fields) is (kind == "kokoro")


@pytest.mark.parametrize("asked", get_args(SpeechFormat))
async def test_a_long_text_becomes_one_sound(asked: SpeechFormat) -> None:
    """A server refuses more than 4096 characters, and a person wants one file."""
    text = "A sentence of about forty characters. " * 250
    async with speech("generic") as server, connected(server) as backend:
        reports: list[Progress] = []
        sound = await spoken(backend, mouth(server), text, reports, format=asked)
        assert len(server.calls) == 3
        assert [report.fraction for report in reports] == [pytest.approx(n / 3) for n in (1, 2, 3)]
        assert all(len(call.fields["input"]) <= 4096 for call in server.calls)
        joinable = "wav" if asked in {"flac", "opus"} else asked
        assert {call.fields["response_format"] for call in server.calls} == {joinable}
        whole = {"mp3": mp3(9), "aac": SOUNDS["aac"] * 3, "pcm": SOUNDS["pcm"] * 3}
        assert sound.data == whole.get(asked, sound.data)
        assert sound.mime == FORMS[asked]
        assert (sound_of(sound.data) or "audio/pcm") == sound.mime


@pytest.mark.parametrize("kind", SPEAKING)
async def test_the_kind_of_a_sound_is_in_its_bytes(kind: str) -> None:
    """A chat would refuse a file that is not what its name says."""
    async with speech(kind) as server, connected(server) as backend:
        server.faults.append(SpeechFault.OTHER_KIND)
        sound = await spoken(backend, mouth(server))
        assert (sound.name, sound.mime) == ("speech.flac", "audio/flac")


async def test_a_program_gets_the_form_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Piper on LocalAI returns WAV whatever format is asked for."""
    async with speech("generic") as server, connected(server) as backend:
        server.forms = {"mp3": "wav", "pcm": "wav"}
        for asked in ("mp3", "pcm"):
            sound = await spoken(backend, mouth(server), format=asked)
            assert sound.mime == FORMS[asked]
        assert (await spoken(backend, mouth(server))).mime == "audio/wav"
        monkeypatch.setattr(videos, "available", lambda: False)
        assert (await spoken(backend, mouth(server), format="mp3")).mime == "audio/wav"


SPEAKING_FAULTS: dict[SpeechFault, type[BackendError]] = {
    SpeechFault.EMPTY: UnreadableAnswer,
    SpeechFault.ERROR_200: OutOfMemory,
    SpeechFault.HTML: UnreadableAnswer,
    SpeechFault.BUSY: Busy,
}


@pytest.mark.parametrize("kind", SPEAKING)
async def test_no_sound_is_a_failure(kind: str, subtests: pytest.Subtests) -> None:
    """A person would get an empty file, or an error to listen to."""
    async with speech(kind) as server, connected(server) as backend:
        for (fault, error), asked in product(SPEAKING_FAULTS.items(), ("mp3", "pcm")):
            server.faults.append(fault)
            with subtests.test(fault=fault, asked=asked), pytest.raises(error):
                await spoken(backend, mouth(server), format=asked)


async def test_parts_that_cannot_be_joined_are_a_failure() -> None:
    """A person would get the first part of a text as if it were the whole."""
    async with speech("generic") as server, connected(server) as backend:
        server.faults.append(SpeechFault.OTHER_KIND)
        with pytest.raises(UnreadableAnswer, match="types"):
            await spoken(backend, mouth(server), "A sentence. " * 500)


@pytest.mark.parametrize("kind", SPEAKING)
async def test_the_voice_is_as_asked_as_set_or_the_first(kind: str) -> None:
    """Speaches refuses a call without a voice."""
    async with speech(kind) as server, connected(server) as backend:
        await spoken(backend, mouth(server))
        first = "af_heart" if kind in {"speaches", "kokoro"} else None
        assert server.calls[-1].fields.get("voice") == first
        await spoken(backend, mouth(server, "am_adam"))
        assert server.calls[-1].fields["voice"] == "am_adam"
        await spoken(backend, mouth(server, "am_adam"), voice="af_heart", speed=1.5)
        assert server.calls[-1].fields["voice"] == "af_heart"
        assert server.calls[-1].fields["speed"] == 1.5


@pytest.mark.parametrize("kind", ["speaches", "kokoro"])
async def test_an_unknown_voice_is_told(kind: str) -> None:
    """The model would be reported as missing."""
    async with speech(kind) as server, connected(server) as backend:
        with pytest.raises(Rejected) as caught:
            await spoken(backend, mouth(server), voice="af_hart")
        told = problem(ProblemKind.OTHER_VOICES, name="af_hart", there="af_heart")
        assert caught.value.problem == told
        assert not server.calls
        with pytest.raises(BadModel, match=r"models\..*\.voice: .*af_heart, am_adam"):
            await backend.verify(mouth(server, "x"))
        await backend.verify(mouth(server, "am_adam"))


async def test_a_mix_of_voices_reads_on_kokoro() -> None:
    """Kokoro's voices may be mixed and weighted, and it knows OpenAI's names as well."""
    async with speech("kokoro") as server, connected(server) as backend:
        for voice in ("af_heart+am_adam", "af_heart(2)+am_adam(1)", "alloy", "AF_Heart"):
            await spoken(backend, mouth(server), voice=voice)
        sent = [call.fields["voice"] for call in server.calls]
        assert sent == ["af_heart+am_adam", "af_heart(2)+am_adam(1)", "alloy", "af_heart"]
        with pytest.raises(Rejected):
            await spoken(backend, mouth(server), voice="af_heart+no_one")


async def test_a_voice_that_only_the_server_knows_to_be_wrong_is_told() -> None:
    """The model would be reported as missing where a server lists no voices."""
    async with speech("generic") as server, connected(server) as backend:
        server.faults.append(SpeechFault.NO_VOICE)
        with pytest.raises(Rejected) as caught:
            await spoken(backend, mouth(server), voice="af_hart")
        assert what(caught) is ProblemKind.NO_VOICE


async def test_a_sound_without_end_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer would fill the memory."""
    monkeypatch.setattr(speaking, "SOUND_LIMIT", 100)
    async with speech("generic") as server, connected(server) as backend:
        with pytest.raises(UnreadableAnswer, match="larger"):
            await spoken(backend, mouth(server), format="wav")


# ---------------------------------------------------------------- loading and finding


@pytest.mark.parametrize("kind", ["speaches", "localai"])
async def test_models_are_loaded_and_unloaded_on_command(kind: str) -> None:
    """An image model would wait for memory that is never freed."""
    async with speech(kind) as server, connected(server) as backend:
        await backend.probe()
        assert backend.can_unload
        assert await backend.loaded([ear()]) == frozenset()
        request = Work(key="k", request=SpeechToText(), files=(recording(),))
        with pytest.raises(NotLoaded):
            await backend.run(ear(), request, lambda _: None)
        await backend.load(ear())
        assert await backend.loaded([ear()]) == frozenset({"ear"})
        await backend.unload(ear())
        assert await backend.loaded([ear()]) == frozenset()
        assert server.loads == ["ear"]


async def test_a_model_in_use_does_not_count_as_unloaded() -> None:
    """Speaches drops such a model from its list but keeps it in memory."""
    async with speech("speaches", in_use={"ear"}) as server, connected(server) as backend:
        await backend.load(ear())
        with pytest.raises(Unavailable, match="in use"):
            await backend.unload(ear())


async def test_an_old_localai_loads_with_the_first_request() -> None:
    """A job would wait for a load that no call can start."""
    async with speech("localai", old=True) as server, connected(server) as backend:
        assert "LocalAI" in (await backend.probe()).description
        assert (await heard(backend)).text == SAID
        assert await backend.loaded([ear()]) is None
        await backend.unload(ear())
        assert not server.loaded


async def test_kokoro_that_may_not_unload_is_remembered_as_such() -> None:
    """Every unload would be refused, and the server count as broken each time."""
    async with speech("kokoro", unload_allowed=False) as server, connected(server) as backend:
        await backend.probe()
        assert backend.can_unload
        with pytest.raises(Rejected) as caught:
            await backend.unload(mouth(server))
        assert what(caught) is ProblemKind.STAYS
        assert not backend.can_unload
        await backend.probe()
        assert not backend.can_unload


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("whispercpp", {"whisper": {HEARS}}),
        ("speaches", {"ear": {HEARS}, "mouth": {SPEAKS}}),
        ("kokoro", {"kokoro": {SPEAKS}}),
        ("llamacpp", {"ear": {HEARS, Capability.TEXT_TO_TEXT}}),
        (
            "localai",
            {
                "ear": {HEARS},
                "mouth": {SPEAKS},
                "writer": {Capability.TEXT_TO_TEXT, Capability.VISION},
            },
        ),
    ],
)
async def test_what_models_can_do_is_found(kind: str, found: dict[str, set[Capability]]) -> None:
    """`discover: true` would offer a model that transcribes for text requests."""
    async with speech(kind) as server, connected(server) as backend:
        offered = {model.name: set(model.capabilities) for model in await backend.discover()}
        assert offered == found


@pytest.mark.parametrize("old", [False, True])
async def test_the_voices_of_kokoro_are_told(old: bool) -> None:
    """An operator could not see whether the voices are there."""
    async with speech("kokoro", old=old) as server, connected(server) as backend:
        assert (await backend.probe()).description == "Kokoro-FastAPI, 2 voices"


async def test_a_model_that_only_hears_is_told_to_the_operator() -> None:
    """The operator could only guess which setting is missing."""
    async with speech("speaches") as server, connected(server) as backend:
        writes = ModelSpec(
            name="ear", backends=("b",), capabilities=frozenset({Capability.TEXT_TO_TEXT})
        )
        with pytest.raises(BadModel, match=r"capabilities: \[speech-to-text\]"):
            await backend.verify(writes)
        with pytest.raises(BadModel, match="read aloud"):
            await backend.verify(
                ModelSpec(name="ear", backends=("b",), capabilities=frozenset({SPEAKS}))
            )
        await backend.verify(ear())


@pytest.mark.parametrize("kind", ["whispercpp", "speaches", "localai", "kokoro", "vllm"])
async def test_an_operator_is_told_what_a_server_cannot(kind: str) -> None:
    """The people who send requests would be the ones to find its limits."""
    async with speech(kind) as server, connected(server) as backend:
        assert (await backend.probe()).notes
