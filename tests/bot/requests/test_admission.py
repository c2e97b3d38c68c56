"""The one way to a job keeps everyone to their limits, whoever asks and however often at once."""

import ast
import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.app.setup import MIGRATIONS
from bot.core.content import Moment
from bot.core.live_settings import LiveSettings
from bot.core.refusals import Phrase, Refusal, RefusalKind
from bot.people.access import Access, PersonLimits
from bot.people.people import Person
from bot.people.upload_quota import ReceivedBytes
from bot.requests.admission import AdmissionService, Question
from bot.requests.conversation import Conversation
from bot.requests.creation import Creation, DrawingOptions
from bot.requests.limits import RequestLimits, SubmissionDetails
from bot.requests.options import Style
from bot.requests.rules import EVERYTHING
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, ChatMessage, File, TextToImage
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.fakes.clock import VirtualClock
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time, run

ADA = Person(user="api:ada")
IMAGE = File(name="p.png", mime="image/png", data=bytes(700_000))
CAT = Creation(prompt="a cat")
HUGE = Creation(prompt="a cat", options=DrawingOptions(size=(8192, 8192)))


@asynccontextmanager
async def services(
    number: int = 1,
    *,
    limits: PersonLimits | None = None,
    waiting: int = 1000,
    files_mb: int | None = None,
) -> AsyncIterator[list[AdmissionService]]:
    """Open services that do not know each other, each on its own queue, on one store."""
    draws = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})
    flux = replace(image_model("flux", max_waiting=waiting), capabilities=draws)
    qwen = replace(image_model("qwen"), capabilities=frozenset({Capability.TEXT_TO_TEXT}))
    installation = Installation.of([flux, qwen], [host("gpu-1", "comfy")])
    database = await open_database("sqlite://", migrations=(MIGRATIONS,), inline=True)
    store = JobStore(database)
    yield [
        _service(installation.build(store, installation.connect()), database, limits, files_mb)
        for _ in range(number)
    ]
    await store.aclose()


def _service(
    queue: JobQueue, database: Database, limits: PersonLimits | None, files_mb: int | None
) -> AdmissionService:
    clock, live = VirtualClock(), LiveSettings(files_per_hour_mb=files_mb)
    return AdmissionService(
        submitter=queue.submitter,
        jobs=queue.jobs,
        models=queue.models,
        limits=RequestLimits(
            submitter=queue.submitter,
            jobs=queue.jobs,
            models=queue.models,
            status=queue.status,
            access=Access((), limits or PersonLimits()),
            received=ReceivedBytes(database, live, clock),
            live=live,
            clock=clock,
        ),
        styles={"noir": Style(prompt="{prompt}, film noir")},
        rule=EVERYTHING,
    )


async def asked(
    drawing: Creation = CAT,
    *,
    limits: PersonLimits | None = None,
    person: Person = ADA,
    unwanted: tuple[str, ...] = (),
    before: int = 0,
    waiting: int = 1000,
    files_mb: int | None = None,
) -> Job | Refusal:
    """Return the result of asking once, after this many others."""
    async with services(limits=limits, waiting=waiting, files_mb=files_mb) as (service,):
        for number in range(before):
            await service.draw(SubmissionDetails(person=person, key=f"b{number}"), drawing)
        return await service.draw(
            SubmissionDetails(person=person, key="k", unwanted=unwanted), drawing
        )


@settings(max_examples=15, deadline=None)
@given(
    quota=st.none() | st.integers(0, 12),
    most_open=st.integers(0, 12),
    keys=st.lists(st.integers(0, 15), max_size=30),
)
def test_calls_at_once_through_two_services_exceed_no_limit(
    quota: int | None, most_open: int, keys: list[int]
) -> None:
    """Each process would allow a person everything again, or a repeated call cost twice."""
    limits = PersonLimits(per_hour=quota, open_per_person=most_open)

    async def play() -> tuple[list[Job | Refusal], list[Job]]:
        async with services(2, limits=limits) as both:
            outcomes = await asyncio.gather(
                *(
                    both[number % 2].draw(SubmissionDetails(person=ADA, key=f"k{key}"), CAT)
                    for number, key in enumerate(keys)
                )
            )
            return outcomes, await both[0].jobs.open_jobs(ADA.user)

    outcomes, jobs = run(play())
    allowed = most_open if quota is None else min(quota, most_open)
    assert len(jobs) == min(allowed, len(set(keys)))
    by_key: dict[int, set[int]] = {}
    for key, outcome in zip(keys, outcomes, strict=True):
        if isinstance(outcome, Job):
            by_key.setdefault(key, set()).add(outcome.id)
        else:
            assert outcome.kind in {RefusalKind.QUOTA_USED_UP, RefusalKind.TOO_MANY_OPEN}
            assert outcome.values["limit"] in {quota, most_open}
    assert all(len(ids) == 1 for ids in by_key.values())
    assert {next(iter(ids)) for ids in by_key.values()} == {job.id for job in jobs}


@in_virtual_time
async def test_what_was_accepted_is_never_refused_when_it_is_asked_again() -> None:
    """A call delivered twice would be refused although its job runs."""
    async with services(limits=PersonLimits(per_hour=1)) as (service,):
        first = await service.draw(SubmissionDetails(person=ADA, key="k"), CAT)
        assert isinstance(first, Job)
        banned = Person(user=ADA.user, banned_at=0.0)
        for again in (
            SubmissionDetails(person=ADA, key="k"),
            SubmissionDetails(person=ADA, key="k", unwanted=("cat",)),
            SubmissionDetails(person=banned, key="k"),
        ):
            repeated = await service.draw(again, CAT)
            assert isinstance(repeated, Job)
            assert repeated.id == first.id
        other = await service.draw(SubmissionDetails(person=ADA, key="other"), CAT)
        assert isinstance(other, Refusal)
        assert other.kind is RefusalKind.QUOTA_USED_UP


def test_files_at_once_are_counted_before_others_are_looked_at() -> None:
    """Ten simultaneous uploads would each find the hour empty, and fill the disk."""

    async def play() -> list[Job | Refusal]:
        async with services(2, files_mb=1, limits=PersonLimits(open_per_person=2)) as both:
            upscaling = TextToImage(prompt="", upscale=True)
            refused = await both[0].submit(
                SubmissionDetails(person=ADA, key="no"), "flux", upscaling, (IMAGE,)
            )
            assert isinstance(refused, Refusal)
            assert refused.kind is RefusalKind.NOT_CAPABLE  # and counts for nothing
            drawing = Creation(prompt="a cat", files=(IMAGE,))
            asking = [SubmissionDetails(person=ADA, key=f"k{number}") for number in range(10)]
            return await asyncio.gather(
                *(both[number % 2].draw(each, drawing) for number, each in enumerate(asking))
            )

    kinds = Counter(each.kind if isinstance(each, Refusal) else Job for each in run(play()))
    assert kinds == {Job: 1, RefusalKind.UPLOADS_USED_UP: 9}


@pytest.mark.parametrize(
    ("refusal", "asking"),
    [
        (Refusal(RefusalKind.BANNED, reason=" (rude)"), {"person": Person(user="x", banned_at=1.0, ban_reason="rude")}),
        (Refusal(RefusalKind.UNWANTED_WORD, word="CAT"), {"unwanted": ("dog", "CAT")}),
        (Refusal(RefusalKind.QUOTA_USED_UP, limit=2, moment=Moment(3600.0)), {"limits": PersonLimits(per_hour=2), "before": 2}),
        (Refusal(RefusalKind.TOO_MANY_OPEN, limit=1), {"limits": PersonLimits(open_per_person=1), "before": 1}),
        (Refusal(RefusalKind.QUEUE_STANDS, model="flux", limit=2), {"waiting": 2, "before": 2}),
        (Refusal(RefusalKind.UNKNOWN_STYLE, name="x", hint=Phrase("hint.models", {"names": "noir"})), {"drawing": Creation(prompt="a", style="x")}),
        (Refusal(RefusalKind.NO_IMAGE), {"drawing": Creation(prompt="a", options=DrawingOptions(strength=0.5))}),
        (Refusal(RefusalKind.NO_TEXT), {"drawing": Creation(prompt="")}),
        (Refusal(RefusalKind.TEXT_TOO_LONG, length=4001, limit=4000), {"drawing": Creation(prompt="a" * 4001)}),
        (Refusal(RefusalKind.BEYOND_PIXELS, model="flux", asked=67.1, most=4.19), {"drawing": HUGE}),
    ],
    ids=lambda each: each.kind.name if isinstance(each, Refusal) else "",
)  # fmt: skip
def test_a_refusal_says_what_its_sentence_needs(
    refusal: Refusal, asking: dict[str, object]
) -> None:
    """People would not learn what to change, and an API could not map it to a status."""
    outcome = run(asked(**asking))  # type: ignore[arg-type]
    assert isinstance(outcome, Refusal)
    values = {**outcome.values}
    if refusal.kind is RefusalKind.QUOTA_USED_UP:  # virtual time begins somewhere
        values["moment"] = refusal.values["moment"]
    assert (outcome.kind, values) == (refusal.kind, refusal.values)


def test_a_model_that_cannot_or_is_not_there_is_a_refusal() -> None:
    """The caller would get an exception instead of an answer."""

    async def play() -> list[Job | Refusal]:
        async with services() as (service,):
            question = Conversation(turns=(ChatMessage(role="user", text="why?", images=(0,)),))
            return [
                await service.draw(
                    SubmissionDetails(person=ADA, key="a"), Creation(prompt="a", model="flx")
                ),
                await service.ask(
                    SubmissionDetails(person=ADA, key="b"),
                    Question(talk=replace(question, files=(IMAGE,))),
                ),
                await service.submit(
                    SubmissionDetails(person=ADA, key="c"),
                    "flux",
                    TextToImage(prompt="a", upscale=True),
                    (IMAGE,),
                ),
            ]

    unknown, blind, unable = run(play())
    meant = Phrase("hint.did_you_mean", {"names": "flux"})
    assert unknown == Refusal(RefusalKind.UNKNOWN_MODEL, name="flx", hint=meant)
    assert blind == Refusal(RefusalKind.NONE_SEES)
    no_upscaling = Phrase("unable.upscale")
    assert unable == Refusal(RefusalKind.NOT_CAPABLE, model="flux", unable=no_upscaling)


def test_images_that_come_late_count_against_the_hour_as_well() -> None:
    """Later parts of an album would be a way round the limit on files."""

    async def play() -> tuple[Job | Refusal, Job | Refusal]:
        async with services(files_mb=1) as (service,):
            question = Conversation(turns=(ChatMessage(role="user", text="what differs?"),))
            mine = SubmissionDetails(person=ADA, key="a")
            job = await service.ask(mine, Question(talk=question, model="qwen"))
            assert isinstance(job, Job)
            turn = ChatMessage(role="user", text="and this")
            late_image = Conversation(turns=(turn,), files=(IMAGE,))
            late = await service.add(mine, job, late_image)
            return late, await service.add(mine, job, late_image)

    late, later = run(play())
    assert isinstance(late, Job)
    assert isinstance(late.request, Chat)
    assert late.request.messages[-1].text == "what differs?\nand this"
    assert isinstance(later, Refusal)
    assert later.kind is RefusalKind.UPLOADS_USED_UP


def test_nothing_but_the_service_hands_requests_to_the_queue() -> None:
    """A single line in some command would be a way round the limits."""
    bot = Path(__file__).parents[3] / "bot"
    sources = {path: path.read_text("utf-8") for path in bot.rglob("*.py")}
    callers = {
        str(path.relative_to(bot))
        for path, source in sources.items()
        if "submitter" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr == "submit"
        if isinstance(node.value, ast.Attribute) and node.value.attr == "submitter"
    }
    assert callers == {"requests/admission.py", "requests/limits.py"}
