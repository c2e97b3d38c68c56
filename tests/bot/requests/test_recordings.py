"""Recordings: transcribed, answered and read aloud in one message, whatever is interrupted."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.media.sounds import Voice
from bot.core.attachments import AttachmentKind
from bot.core.live_settings import ChatSettings, ChatSettingsTable, LiveSettings
from bot.core.origin import origin_in
from bot.core.platform import Album, Attachment
from bot.people.access import PersonLimits
from bot.requests import recordings
from bot.requests.files import media as sounds
from bot.requests.rules import Rule, RuleTable
from queueing.core.errors import Problem, ProblemKind
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Capability, Chat, File, Output, SpeechToText, TextToSpeech
from queueing.core.specs import ModelSpec
from tests.bot.results import attachment
from tests.fakes.chat import FakeChat
from tests.fakes.servers.backend import Fate
from tests.simulation.bot_installation import ADMIN, Bot, bot, settled
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import Inside, in_virtual_time, run

SAID = "why is the sky blue"
ANSWER = f"result of {SAID}"


@pytest.fixture(autouse=True)
def playable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept any bytes as a recording; the file checks have their own tests."""

    async def as_it_is(file: File, **_: object) -> Voice:
        return Voice(file=replace(file, data=file.data[4:]), seconds=1.0)

    monkeypatch.setattr(sounds, "as_voice", as_it_is)


def able(name: str, server: str, capability: Capability) -> ModelSpec:
    spec = image_model(name, server, vram_mb=1000)
    return replace(spec, capabilities=frozenset({capability}))


WHISPER = able("whisper", "ears", Capability.SPEECH_TO_TEXT)
QWEN = able("qwen", "studio", Capability.TEXT_TO_TEXT)
KOKORO = able("kokoro", "mouth", Capability.TEXT_TO_SPEECH)


def house(
    url: str = "sqlite://", models: tuple[ModelSpec, ...] = (WHISPER, QWEN, KOKORO)
) -> Installation:
    servers = [model.backends[0] for model in models]
    made = Installation.of(models, [host("gpu", *servers)], url=url, grace_s=0.0)
    for server in made.servers.values():
        server.service_s, server.load_s = 2.0, 1.0
    return made


def voice(said: str = SAID, **fields: Any) -> Attachment:
    data = b"OggS" + said.encode()
    return attachment(data, "voice.ogg", "audio/ogg", kind=AttachmentKind.VOICE, **fields)


async def says(running: Bot, *files: Attachment, words: str = "", **fields: Any) -> None:
    await asyncio.sleep(0.5)  # the servers have been looked at
    given = files or (voice(),)
    await running.dispatcher.call(running.chat.call(f"/ask {words}".strip(), files=given, **fields))


async def quiet(running: Bot) -> None:
    async with asyncio.timeout(3600):
        while await running.queue.deliveries.unacknowledged():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.2)


def in_house(*models: ModelSpec, **fields: Any) -> Inside[Bot]:
    return Inside(lambda: bot(house(models=models) if models else house(), **fields))


def played(
    scenario: Callable[[Bot], Any], installation: Installation | None = None, **fields: Any
) -> FakeChat:
    async def play() -> FakeChat:
        async with bot(installation or house(), **fields) as running:
            await scenario(running)
            return running.chat

    return run(play())


def asked_of(installation: Installation, server: str) -> list[str]:
    return [prompt for _, _, prompt in installation.servers[server].starts]


async def question(running: Bot) -> Job:
    job = await running.queue.jobs.get(1)
    assert job is not None
    return job


@in_virtual_time
async def test_a_voice_message_is_answered_in_one_message_that_quotes_it() -> None:
    """A person would see three messages for one question, or never what was understood."""
    gpu = house()
    async with bot(gpu) as running:
        await says(running)
        await quiet(running)
        job = await question(running)
        assert isinstance(job.request, Chat)
        (turn,) = job.request.messages
        assert (turn.text, turn.heard, turn.sounds) == (SAID, SAID, (0,))
        assert (job.owner, job.model, job.state) == ("fake:1", "qwen", JobState.COMPLETED)
    (message,) = running.chat.messages.values()
    first = "🎤 Transcribing what you said; then qwen answers."
    assert all(text.startswith(first) for text in message.texts[:2])
    assert any("whisper" in text for text in message.texts)
    assert any("qwen is writing" in text for text in message.texts)
    assert message.text.startswith(f"🎤 “{SAID}”\n\n{ANSWER}\n\n")
    assert asked_of(gpu, "studio") == [SAID]
    assert not asked_of(gpu, "mouth")


@in_virtual_time
async def test_the_message_shows_the_place_in_the_line_of_each_step() -> None:
    """A person would not know for which model they wait, or how long."""
    gpu = house()
    async with bot(gpu, limits=PersonLimits()) as running:
        await says(running, voice("first"), user="fake:2", chat="2")
        for number in range(3):
            await says(running, voice(f"say {number}"), chat="1")
        await quiet(running)
    texts = [m.texts for m in running.chat.messages.values()]
    first = "🎤 Transcribing what you said; then qwen answers.\n"
    assert any(text.startswith(f"{first}⏳ whisper · #") for text in texts[-1])
    assert any(text.startswith(("⏳ qwen · #", "✍️ qwen")) for text in texts[-1])
    assert not [text for some in texts for text in some if "01:00" in text]


@in_virtual_time
async def test_typed_words_come_before_what_was_said() -> None:
    """The words typed with a recording would be lost, or answered without it."""
    gpu = house()
    async with bot(gpu) as running:
        await says(running, voice("the lecture"), voice("its end"), words="sum this up")
        await quiet(running)
    assert asked_of(gpu, "studio") == ["sum this up\n\nthe lecture\n\nits end"]


@in_house(QWEN)
async def test_nothing_is_accepted_where_no_model_listens(running: Bot) -> None:
    """A recording would wait for a model that does not exist."""
    await says(running)
    assert not await running.queue.deliveries.unacknowledged()
    chat = await settled(running)
    ((_, told),) = chat.private
    assert told.startswith("No model here can transcribe speech")
    assert not chat.messages


@in_house(limits=PersonLimits(per_hour=2))
async def test_a_recording_counts_once(running: Bot) -> None:
    """One voice message would use up three of a person's jobs."""
    await running.people.change("fake:1", aloud=1)
    await says(running)
    for _ in range(40):
        mine = await running.queue.jobs.open_jobs("fake:1")
        assert [job.id for job in mine] in ([1], [])
        await asyncio.sleep(0.3)
    await quiet(running)
    assert [job.id for job in await running.queue.jobs.history("fake:1", limit=9)] == [1]
    await says(running)
    await says(running)
    await asyncio.sleep(1)
    assert len(running.chat.private) == 1
    chat = await settled(running)
    assert "2" in chat.private[0][1]


@pytest.mark.parametrize(
    "after_s",
    [1.0, 3.6, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0.0, 2.5, 5.0))],
)
@pytest.mark.parametrize("how", ["/cancel 1", "/forget me --sure"])
@in_house()
async def test_an_end_ends_every_step(running: Bot, after_s: float, how: str) -> None:
    """A model would go on with a cancelled recording, or keep it forever."""
    await says(running)
    await asyncio.sleep(after_s)
    await running.dispatcher.call(running.chat.call(how))
    await asyncio.sleep(20)
    assert not await running.queue.jobs.open_jobs()
    assert not await running.queue.deliveries.unacknowledged()
    left = [await running.queue.jobs.get(number) for number in range(1, 4)]
    if how == "/forget me --sure":
        assert left == [None, None, None]
    else:
        assert left[0] is not None
        assert left[0].state is JobState.CANCELLED
    (message, *_) = (await settled(running)).messages.values()
    assert "Transcribing" not in message.text


def test_a_recording_that_cannot_be_written_down_is_said_in_a_sentence() -> None:
    """A failed step would leave a question that waits forever."""
    gpu = house()
    gpu.servers["ears"].fates = lambda _: Fate(service_s=1.0, error=ValueError("no"))

    async def scenario(running: Bot) -> None:
        await says(running)
        await quiet(running)
        job = await question(running)
        assert job.state is JobState.FAILED
        await says(running)  # it was given back
        await quiet(running)
        assert not running.chat.private

    for message in played(scenario, gpu, limits=PersonLimits(per_hour=1)).messages.values():
        assert "I couldn't transcribe your recording." in message.text
        assert len(message.text.splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("  \n", ProblemKind.NOTHING_SAID),
        ("[BLANK_AUDIO]", ProblemKind.NOTHING_SAID),
        ("a dirty word", ProblemKind.UNWANTED),
    ],
)
@in_virtual_time
async def test_what_cannot_be_asked_is_not_asked(said: str, what: ProblemKind) -> None:
    """A model would answer silence, or a recording would say what may not be typed."""
    gpu = house()
    settings = ChatSettingsTable(by_key={"*": ChatSettings(words=("dirty",))})
    async with bot(gpu, live=LiveSettings(chat_settings=settings)) as running:
        await says(running, voice(said))
        await quiet(running)
        job = await question(running)
        assert Problem.read(job.error or "").what is what
    assert not asked_of(gpu, "studio")


@in_virtual_time
async def test_the_answer_is_read_aloud_for_those_who_want_it() -> None:
    """`/settings --voice on` would do nothing, or delay the text until the voice is there."""
    gpu = house()
    async with bot(gpu) as running:
        await running.dispatcher.call(running.chat.call("/settings --voice on"))
        await says(running)
        await until(lambda: asked_of(gpu, "mouth"))
        await asyncio.sleep(1)
        (answer,) = running.chat.messages.values()
        assert ANSWER in answer.text
        assert "🔊 Reading it aloud: " in answer.text
        await quiet(running)
    answer, sound = running.chat.messages.values()
    assert answer.text.startswith(f"🎤 “{SAID}”\n\n{ANSWER}")
    assert "🔊" not in answer.text
    (file,) = sound.contents[-1].files
    assert (file.mime, file.data) == ("audio/mpeg", ANSWER.encode())


def test_an_answer_stays_where_it_cannot_be_read_aloud() -> None:
    """A voice that fails would delete the answer with it."""
    gpu = house()
    gpu.servers["mouth"].fates = lambda _: Fate(error=ValueError("no"))

    async def scenario(running: Bot) -> None:
        await running.people.change("fake:1", aloud=1)
        await says(running)
        await quiet(running)

    (message,) = played(scenario, gpu).messages.values()
    assert ANSWER in message.text
    assert "🔇 I couldn't read this aloud. " in message.text
    deaf = played(scenario, house(models=(WHISPER, QWEN)))
    (message,) = deaf.messages.values()
    assert message.text.endswith("No model here can read texts aloud.")


@in_house(WHISPER, QWEN)
async def test_a_voice_is_not_chosen_where_no_model_speaks(running: Bot) -> None:
    """People would wait for a voice that never comes."""
    await running.dispatcher.call(running.chat.call("/settings --voice on"))
    assert (await running.people.get("fake:1")).aloud is None
    ((_, told),) = (await settled(running)).private
    assert told == "No model here can read texts aloud."


def snapshot(source: str, target: Path) -> str:
    """Copy a database as a kill would leave it at this moment."""
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()
    return f"sqlite:///{target}"


@pytest.mark.parametrize(
    "killed_at",
    [
        pytest.param(0.1 + 0.6 * n, marks=() if n % 4 == 0 else pytest.mark.thorough)
        for n in range(18)
    ],
)
@in_virtual_time
async def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, killed_at: float
) -> None:
    """A crash between two steps would lose the question, or ask it twice."""
    file = tmp_path / "usher.db"
    gpu = house(f"sqlite:///{file}")
    chat = FakeChat()
    call = chat.call("/ask", files=(voice(),), key="fake:same")
    async with bot(gpu, chat) as running:
        await running.people.change("fake:1", aloud=1)
        await asyncio.sleep(0.5)
        await running.dispatcher.call(call)
        await asyncio.sleep(killed_at)
        gpu.url = snapshot(str(file), tmp_path / "left.db")
        shown = {number: list(m.contents) for number, m in chat.messages.items()}
    for number in chat.messages.keys() - shown.keys():
        del chat.messages[number]
    async with bot(gpu, chat) as running:
        await running.dispatcher.call(call)  # it was perhaps not confirmed
        await quiet(running)
        job = await question(running)
        assert job.state is JobState.COMPLETED
        output = await running.queue.jobs.output(job)
        assert output == Output(text=ANSWER)
        for key in (recordings.writing_key(1, 0), recordings.speech_key(1)):
            made = await running.queue.jobs.find(key)
            assert made is not None
            assert (made.state, made.acknowledged) == (JobState.COMPLETED, True)
        assert await running.queue.jobs.get(4) is None
    answers = [m for m in chat.messages.values() if ANSWER in m.text]
    sounds = [m for m in chat.messages.values() if m.contents[-1].files]
    assert (len(answers), len(sounds)) == (1, 1)
    assert len(chat.messages) == 2


@in_virtual_time
async def test_a_stop_between_the_steps_is_no_end(tmp_path: Path) -> None:
    """An orderly stop would fail every question that is being transcribed."""
    gpu = house(f"sqlite:///{tmp_path}/usher.db")
    chat = FakeChat()
    for pause_s in (1.0, 2.0, 1.0, 4.0, 1.5):
        async with bot(gpu, chat) as running:
            if not chat.messages:
                await says(running)
            await asyncio.sleep(pause_s)
        await asyncio.sleep(4_000)  # longer than any delay
    async with bot(gpu, chat) as running:
        await quiet(running)
    message, ping = chat.messages.values()
    assert ANSWER in message.text
    assert ping.texts == ["Ready: the answer from qwen ↑"]
    assert asked_of(gpu, "studio")[-1] == SAID


def test_a_full_line_of_the_listener_is_waited_for() -> None:
    """An accepted question would fail because many people speak at once."""
    narrow = replace(WHISPER, max_waiting=1)
    gpu = house(models=(narrow, QWEN))

    async def scenario(running: Bot) -> None:
        for number in range(5):
            await says(running, voice(f"say {number}"), user=f"fake:{number}", chat=f"{number}")
        await quiet(running)

    for message in played(scenario, gpu).messages.values():
        assert "result of say" in message.text
    assert len(asked_of(gpu, "ears")) == 5


@in_virtual_time
async def test_a_rule_of_today_ends_what_still_waits_to_be_heard() -> None:
    """The person would read that the model is gone, and wait for the operator to bring it back."""
    table = RuleTable()
    narrow = house(models=(replace(WHISPER, max_waiting=1), QWEN))
    async with bot(narrow, table=table) as running:
        for number in range(3):
            await says(running, user=f"fake:{number}", chat=f"{number}")
        table.take([Rule(kinds=frozenset({"ask"}))])
        await quiet(running)
        texts = [message.text for message in running.chat.messages.values()]
    assert any(ANSWER in text for text in texts), texts
    assert texts[-1] == (
        "❌ Your recording wasn't transcribed, because you may no longer do that here."
        " You can ask in writing."
    )


@in_house()
async def test_made_jobs_know_what_they_are_made_for(running: Bot) -> None:
    """A recording or a voice would stay when its question is deleted."""
    await running.people.change("fake:1", aloud=1)
    await says(running)
    await quiet(running)
    made = [await running.queue.jobs.get(number) for number in (2, 3)]
    kinds = [(type(job.request), job.parent, job.owner) for job in made if job is not None]
    owner = recordings.OWNER
    assert kinds == [(SpeechToText, 1, owner), (TextToSpeech, 1, owner)]


def _have_begun(gpu: Installation, server: str, count: int) -> bool:
    return len(asked_of(gpu, server)) == count


@in_virtual_time
async def test_a_reading_ends_with_a_cancel_and_with_its_message() -> None:
    """A voice would come for an answer that its person has deleted."""
    gpu = house()
    gpu.servers["mouth"].service_s = 30.0
    async with bot(gpu) as running:
        await running.people.change("fake:1", aloud=1)
        for number, end in enumerate(("/cancel 1", "/delete 4"), start=1):
            await says(running)
            await until(partial(_have_begun, gpu, "mouth", number))
            await running.dispatcher.call(running.chat.call(end))
            await quiet(running)
    (message,) = running.chat.messages.values()
    assert message.text.endswith("🔇 Reading aloud was stopped.")


@in_virtual_time
async def test_a_ban_ends_the_reading_too() -> None:
    """A voice would still be made for a banned person."""
    gpu = house()
    gpu.servers["mouth"].service_s = 60.0
    async with bot(gpu) as running:
        await running.people.change("fake:1", aloud=1)
        await says(running)
        await until(partial(_have_begun, gpu, "mouth", 1))
        await running.dispatcher.call(running.chat.call("/ban fake:1", user=ADMIN))
        await quiet(running)
        assert asyncio.get_running_loop().time() < 30


@in_virtual_time
async def test_a_question_asked_again_is_not_written_down_again() -> None:
    """A repeated question would lose its words, or be asked of a model that must see images."""
    gpu = house()
    async with bot(gpu) as running:
        await says(running)
        await quiet(running)
        await running.dispatcher.call(running.chat.call("/again 1"))
        await quiet(running)
        await running.dispatcher.call(running.chat.call("/edit 1 and red?"))
        await quiet(running)
    texts = [message.text for message in running.chat.messages.values()]
    assert asked_of(gpu, "studio") == [SAID, SAID, "and red?"]
    assert len(asked_of(gpu, "ears")) == 1
    assert [text.startswith("🎤 “") for text in texts] == [True, True, False]


@in_virtual_time
async def test_a_question_that_was_not_heard_is_heard_when_it_is_asked_again() -> None:
    """The button under a failed recording would ask a model nothing."""
    gpu = house()
    fates = iter([Fate(error=ValueError("no")), Fate()])
    gpu.servers["ears"].fates = lambda _: next(fates)
    async with bot(gpu) as running:
        await says(running)
        await quiet(running)
        await running.dispatcher.call(running.chat.call("/again 1"))
        await quiet(running)
    assert asked_of(gpu, "studio") == [SAID]


@in_virtual_time
async def test_the_conversation_goes_on_from_what_was_said() -> None:
    """A second voice message would be answered as if it were the first."""
    gpu = house()
    async with bot(gpu) as running:
        await says(running)
        await quiet(running)
        await says(running, voice("and at night"))
        await quiet(running)
        job = await running.queue.jobs.get(3)
        assert job is not None
        assert isinstance(job.request, Chat)
        told = [(turn.role, turn.text, turn.sounds) for turn in job.request.messages]
        assert told == [
            ("user", SAID, ()),
            ("assistant", ANSWER, ()),
            ("user", "and at night", (0,)),
        ]
        (sound,) = await running.queue.jobs.inputs(job) or ()
        assert sound.data == b"and at night"


@in_virtual_time
async def test_the_queue_says_what_a_held_question_waits_for() -> None:
    """`/queue` would show a question that waits for no visible reason."""
    gpu = house()
    gpu.servers["ears"].service_s = 30.0
    async with bot(gpu) as running:
        await says(running)
        await asyncio.sleep(3)
        await running.dispatcher.call(running.chat.call("/queue"))
        await asyncio.sleep(1)
        await quiet(running)
    ((_, told),) = running.chat.private
    assert (
        told.count("your recording is being transcribed first") == 2
    )  # of the job and of its line


@in_virtual_time
async def test_a_late_part_joins_a_held_question_and_what_it_says_is_heard() -> None:
    """A late part of an album would release the question without its words, or be lost."""
    gpu = house()
    gpu.servers["ears"].service_s = 10.0
    async with bot(gpu) as running:
        first, late = voice("one", part="1"), voice("two", part="2")
        key = "fake:album"
        await says(running, first, words="what is this", key=key, album=Album(begun=False))
        await asyncio.sleep(5)
        await says(running, first, late, key=key, album=Album(begun=True))
        await quiet(running)
    assert asked_of(gpu, "studio") == ["what is this\n\none\n\ntwo"]
    assert len(asked_of(gpu, "ears")) == 2


@in_virtual_time
async def test_a_model_can_be_named_for_a_recording() -> None:
    """A voice message with "/ask llama" would be answered with a complaint about a missing word."""
    llama = replace(QWEN, name="llama")
    async with bot(house(models=(WHISPER, QWEN, llama))) as running:
        await says(running, words="llama")
        await quiet(running)
        job = await question(running)
        assert job.model == "llama"


@in_house()
async def test_what_was_cut_of_a_recording_is_said(running: Bot) -> None:
    """An answer about half a lecture would be read as one about the whole."""
    await says(running, voice("word " * 10_000))
    await quiet(running)
    job = await question(running)
    assert isinstance(job.request, Chat)
    assert len(job.request.messages[-1].text) == recordings.HEARD_LIMIT
    origin = origin_in(job.reply_to)
    assert origin is not None
    assert origin.cut_recording
    assert origin.cut == (), "words of one language would be stored"
    (message, *_) = (await settled(running)).messages.values()
    assert any(
        "✂️ Only the beginning of your recording fitted into the question." in text
        for text in message.texts
    )
