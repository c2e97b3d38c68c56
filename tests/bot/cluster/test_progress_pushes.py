"""Progress that goes to other processes, in virtual time."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bot.cluster import frames
from bot.cluster.progress_pushes import EVERY_S, ProgressPushes, merged
from bot.queue.json_values import from_json
from queueing.core.events import Progressed
from queueing.core.requests import File, Progress
from tests.simulation.loop import run

PREVIEW = File(name="p.png", mime="image/png", data=b"x")
REPORTS = st.builds(
    Progress,
    fraction=st.none() | st.floats(0, 1),
    text=st.none() | st.text(min_size=1, max_size=3),
    preview=st.none() | st.just(PREVIEW),
    ahead=st.none() | st.integers(0, 3),
    chunks=st.lists(st.text(max_size=2), max_size=2).map(tuple),
)


def told(pushed: list[bytes]) -> list[Progressed]:
    read = [frames.read(each) for each in pushed]
    assert {each.kind for each in read} <= {"progress"}
    return [event for each in read for event in from_json(each.body, tuple[Progressed, ...])]


def token(job_id: int, number: int) -> Progressed:
    return Progressed(job_id=job_id, progress=Progress(chunks=(str(number),)))


@given(st.lists(REPORTS, min_size=1, max_size=6))
def test_several_reports_say_together_what_they_said_one_by_one(reports: list[Progress]) -> None:
    """Words of an answer would be missing, or a preview vanish."""
    one = merged(reports)
    assert one.chunks == tuple(chunk for each in reports for chunk in each.chunks)
    for name in ("fraction", "text", "preview"):
        said = [getattr(each, name) for each in reports if getattr(each, name) is not None]
        assert getattr(one, name) == (said[-1] if said else None)
    assert (one.ahead, one.step) == (reports[-1].ahead, reports[-1].step)


def test_many_tokens_are_few_frames_and_none_is_lost() -> None:
    """Each token of each stream would be written and sent for itself."""

    async def scenario() -> None:
        pushed: list[bytes] = []
        progress = ProgressPushes(pushed.append)
        for number in range(1000):
            for job_id in (1, 2):
                progress.add(token(job_id, number))
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert len(pushed) <= 1000 * 0.001 / EVERY_S + 2
        for job_id in (1, 2):
            said = [c for e in told(pushed) if e.job_id == job_id for c in e.progress.chunks]
            assert said == [str(number) for number in range(1000)]

    run(scenario())


def test_the_first_token_does_not_wait() -> None:
    """An answer would begin later in every process but one."""

    async def scenario() -> None:
        pushed: list[bytes] = []
        progress = ProgressPushes(pushed.append)
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

    run(scenario())


def test_what_a_job_reported_before_it_changed_is_told_before() -> None:
    """The last words of an answer would arrive after its end."""

    async def scenario() -> None:
        pushed: list[bytes] = []
        progress = ProgressPushes(pushed.append)
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

    run(scenario())
