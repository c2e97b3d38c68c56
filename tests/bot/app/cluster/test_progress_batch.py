"""Progress that is sent to other processes, in virtual time."""

import asyncio
import json
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from bot.app.cluster import protocol
from bot.app.cluster.outbox import EVERY_S, News, ProgressBatch, ProgressNews, merged
from bot.app.cluster.protocol import from_json, to_json
from bot.app.cluster.queue_server import written_progress
from queueing.core.events import Progressed
from queueing.core.requests import File, Progress
from tests.samples import examples
from tests.simulation.loop import in_virtual_time

PREVIEW = File(name="p.png", mime="image/png", data=b"x")
CHUNK = json.dumps(
    {
        "id": "chatcmpl-1234567890abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "a-model-with-a-long-name.gguf",
        "system_fingerprint": "b4321-0123456789",
        "choices": [{"index": 0, "delta": {"content": "WORD"}, "finish_reason": None}],
    }
)
REPORTS = st.builds(
    Progress,
    fraction=st.none() | st.floats(0, 1),
    text=st.none() | st.text(min_size=1, max_size=3),
    preview=st.none() | st.just(PREVIEW),
    ahead=st.none() | st.integers(0, 3),
    chunks=st.lists(st.text(max_size=2), max_size=2).map(tuple),
)


def told(pushed: list[bytes]) -> list[Progressed]:
    read = [protocol.read(each) for each in pushed]
    assert {each.kind for each in read} <= {"progress"}
    news = ProgressNews()
    return [news.report(told) for each in read for told in from_json(each.body, tuple[News, ...])]


def pushes(pushed: list[bytes]) -> ProgressBatch:
    def push(news: Sequence[News]) -> None:
        frame = written_progress(news)
        assert frame is not None
        pushed.append(frame)

    return ProgressBatch(push)


def token(job_id: int, number: int) -> Progressed:
    return Progressed(job_id=job_id, progress=Progress(chunks=(str(number),)))


@given(st.lists(REPORTS, min_size=1, max_size=6))
def test_several_reports_say_together_what_they_said_one_by_one(reports: list[Progress]) -> None:
    """Words of an answer would be missing, or a preview would vanish."""
    one = merged(reports)
    assert one.chunks == tuple(chunk for each in reports for chunk in each.chunks)
    for name in ("fraction", "text", "preview"):
        said = [getattr(each, name) for each in reports if getattr(each, name) is not None]
        assert getattr(one, name) == (said[-1] if said else None)
    assert (one.ahead, one.step) == (reports[-1].ahead, reports[-1].step)


@in_virtual_time
async def test_many_tokens_are_few_frames_and_none_is_lost() -> None:
    """Each token of each stream would be written and sent separately."""
    pushed: list[bytes] = []
    progress = pushes(pushed)
    for number in range(1000):
        for job_id in (1, 2):
            progress.add(token(job_id, number))
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    assert len(pushed) <= 1000 * 0.001 / EVERY_S + 2
    for job_id in (1, 2):
        said = [c for e in told(pushed) if e.job_id == job_id for c in e.progress.chunks]
        assert said == [str(number) for number in range(1000)]


@in_virtual_time
async def test_the_first_token_does_not_wait() -> None:
    """An answer would begin later in every process but one."""
    pushed: list[bytes] = []
    progress = pushes(pushed)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        began = loop.time()
        progress.add(token(1, 0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pushed
        assert loop.time() - began < EVERY_S / 2
        pushed.clear()
        await asyncio.sleep(1)


@in_virtual_time
async def test_what_a_job_reported_before_it_changed_is_told_before() -> None:
    """The last words of an answer would arrive after its end."""
    pushed: list[bytes] = []
    progress = pushes(pushed)
    progress.add(token(1, 0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pushed.clear()
    progress.add(token(1, 1))
    progress.add(token(2, 1))
    progress.before_change(1)
    assert [event.job_id for event in told(pushed)] == [1]
    await asyncio.sleep(1)
    assert [event.job_id for event in told(pushed)] == [1, 2]


@examples(100, quick=25)
@given(st.lists(st.tuples(st.integers(1, 2), REPORTS, st.booleans()), max_size=12), st.integers(0))
def test_what_is_told_in_pieces_is_what_was_reported(
    said: list[tuple[int, Progress, bool]], joined: int
) -> None:
    """Another process would show words that were never written, or miss some if it joins late."""
    near, first, second = ProgressNews(), ProgressNews(), ProgressNews()
    for number, (job_id, progress, changes) in enumerate(said):
        if number == joined % (len(said) + 1):
            near.forget_all()
        event = Progressed(job_id=job_id, progress=progress)
        news = from_json(to_json(near.of(event), News), News)
        assert first.report(news) == event
        if number >= joined % (len(said) + 1):
            assert second.report(news) == event
        if changes:
            for each in (near, first, second):
                each.forget(job_id)


@in_virtual_time
async def test_an_answer_costs_about_its_own_length() -> None:
    """Long answers, sent whole with each new word, would fill the network between the processes."""
    words = [f"word{number} " for number in range(500)]
    text = "".join(words)
    reports: tuple[Callable[[int], Progress], ...] = (
        lambda at: Progress(text="".join(words[: at + 1]), preview=PREVIEW),
        lambda at: Progress(chunks=(CHUNK.replace("WORD", words[at]),)),
    )
    for report in reports:
        pushed: list[bytes] = []
        progress = pushes(pushed)
        for at in range(len(words)):
            progress.add(Progressed(job_id=1, progress=report(at)))
            await asyncio.sleep(EVERY_S * 2)
        assert len(pushed) == len(words)
        assert sum(map(len, pushed)) < len(text) + 60 * len(words)
