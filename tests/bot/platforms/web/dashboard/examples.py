"""A busy bot as its operators see it: two GPUs, a crowd of thirty, hours of history; and a port."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from bot.monitoring.live_state import (
    CopyNow,
    HostNow,
    LiveState,
    MemoryNow,
    QueueNow,
    RunningNow,
    ServerNow,
)
from bot.monitoring.records import (
    STEPS,
    ErrorHours,
    HostHours,
    HourSpan,
    HoursRecord,
    ModelHours,
    ModelStep,
    PeopleRecord,
    PeopleSpan,
    PersonUse,
    PromiseHours,
    PromiseStep,
    Segment,
    Shares,
)
from bot.people.access import PersonLimits
from bot.people.audit_log import Act
from queueing.core.errors import Problem, ProblemKind, StoreError
from queueing.core.jobs import Job, JobState, stand_in
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.status import Estimate, Trouble

Shown = TypeVar("Shown")
PEOPLE = tuple(f"telegram:{4200 + number}" for number in range(30))
LONG = "some-writer-480b-a35b-instruct-2507-abliterated-gguf-q4_k_m"

FAILED = replace(
    stand_in(812, "wan", 1_795_399_000.0),
    owner=PEOPLE[3],
    state=JobState.FAILED,
    started_at=1_795_399_100.0,
    finished_at=1_795_399_220.0,
    backend="studio",
    error=Problem(what=ProblemKind.MEMORY).code(),
)


class ExampleRecords:
    """Implements `Dashboard` with what a test puts there; `away` makes every read fail."""

    def __init__(self, at: float) -> None:
        self.now = busy_now(at)
        self.people = crowd(at)
        self.spans = {span: hours(span, at) for span in HourSpan}
        self.away = False
        self.reads = 0

    async def read_now(self) -> LiveState:
        return self._read(self.now)

    async def read_hours(self, span: HourSpan) -> HoursRecord:
        return self._read(self.spans[span])

    async def read_people(self, span: PeopleSpan = PeopleSpan.TODAY) -> PeopleRecord:
        people = self._read(self.people)
        return people if span is PeopleSpan.TODAY else replace(people, people=people.people[:3])

    def _read(self, record: Shown) -> Shown:
        self.reads += 1
        if self.away:
            raise StoreError("the database is away")
        return record


class ExampleJobs:
    """The open jobs of a queue; `away` makes every read of one fail."""

    def __init__(self, at: float) -> None:
        self.away = False
        self.jobs = [*waiting(at, "flux", 24), *waiting(at, "llama", 7), *waiting(at, "wan", 2)]

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        return [job for job in self.jobs if owner in {None, job.owner}]

    async def get(self, job_id: int) -> Job | None:
        if self.away:
            raise StoreError("the database is away")
        if job_id == FAILED.id:
            return FAILED
        return next((job for job in self.jobs if job.id == job_id), None)


def waiting(at: float, model: str, count: int) -> Sequence[Job]:
    """Return a queue of this length, of as many people."""
    first = 800 + 50 * len(model)
    return [
        replace(
            stand_in(first + place, model, at - 90 + 3 * place),
            owner=PEOPLE[(place * 7 + len(model)) % len(PEOPLE)],
            lane="vip" if place == 3 else "normal",
        )
        for place in range(count)
    ]


# ---------------------------------------------------------------- now


def busy_now(at: float) -> LiveState:
    """Return two busy GPUs, and a third that is away."""
    return LiveState(
        at=at,
        mode="open",
        hosts=(_studio(at), _workshop(at), _attic(at)),
        queues=_lines(at),
        idle_models=("ace", "kokoro", "lens", LONG, "whisper"),
    )


def _studio(at: float) -> HostNow:
    return HostNow(
        name="gpu-1",
        mode="open",
        memory=MemoryNow(
            total_mb=24576,
            usable_mb=21000,
            resident_mb=17408,
            loading_mb=2048,
            foreign_mb=1843,
            free_mb=3277,
        ),
        copies=(
            _copy(at, "flux", "studio", 17408, running=1, pinned=True),
            _copy(at, "hashing", "studio", 2048, state=Residency.LOADING),
        ),
        servers=(_server(at, "studio", "ComfyUI 0.3.40"),),
        running=(_running(at, 797, "flux", "studio", 0.42),),
    )


def _workshop(at: float) -> HostNow:
    return HostNow(
        name="gpu-2",
        mode="draining",
        memory=MemoryNow(
            total_mb=16384,
            usable_mb=13107,
            resident_mb=7168,
            loading_mb=0,
            foreign_mb=0,
            free_mb=9216,
        ),
        copies=(_copy(at, "llama", "workshop", 7168, running=2),),
        servers=(_server(at, "workshop", "LM Studio 0.3.16"), _server(at, "voices", "Speaches")),
        running=(
            _running(at, 795, "llama", "workshop", None),
            _running(at, 796, "llama", "workshop", 0.9),
        ),
    )


def _attic(at: float) -> HostNow:
    away = replace(_server(at, "old-box", ""), up=False, error="Connection refused")
    return HostNow(
        name="attic",
        mode="paused",
        memory=MemoryNow(
            total_mb=8192,
            usable_mb=6553,
            resident_mb=0,
            loading_mb=0,
            foreign_mb=5400,
            free_mb=2792,
        ),
        copies=(),
        servers=(away,),
        running=(),
    )


def _copy(
    at: float,
    model: str,
    backend: str,
    mb: int,
    *,
    running: int = 0,
    pinned: bool = False,
    state: Residency = Residency.READY,
) -> CopyNow:
    ready_at = at + 20 if state is Residency.LOADING else at - 600
    return CopyNow(
        model=model,
        backend=backend,
        state=state,
        mb=mb,
        pinned=pinned,
        running=running,
        ready_at=ready_at,
    )


def _server(at: float, name: str, description: str) -> ServerNow:
    return ServerNow(
        name=name,
        kind="demo",
        url="",
        up=True,
        since=at - 9000,
        description=description,
        error=None,
    )


def _running(at: float, job: int, model: str, backend: str, fraction: float | None) -> RunningNow:
    user = PEOPLE[job % len(PEOPLE)]
    return RunningNow(
        job=job,
        model=model,
        backend=backend,
        user=user,
        name=user,
        began_at=at - 6,
        fraction=fraction,
        ends=_range(at + 14),
    )


def _range(at: float) -> Estimate:
    return Estimate(at=at, earliest=at - 10, latest=at + 45)


def _lines(at: float) -> tuple[QueueNow, ...]:
    others = Reason(why=WaitCause.ROOM_BUSY, model="wan", host="gpu-1", other="flux")
    trouble = Trouble(backend="workshop", cause="CUDA error: out of memory", again_at=at + 120)
    return (
        _line("flux", 24, 1, at=at, mb=17408),
        _line("llama", 7, 2, at=at, mb=7168),
        _line("wan", 2, 0, at=at, reason=others, mb=18432),
        replace(_line("sdxl", 0, 0, at=at, mb=8192), paused=True),
        replace(_line("kontext", 0, 0, at=at, mb=None), troubles=(trouble,)),
        _line("hashing", 0, 0, at=at, mb=2048),
    )


def _line(
    model: str,
    count: int,
    running: int,
    *,
    at: float,
    mb: int | None,
    reason: Reason | None = None,
) -> QueueNow:
    return QueueNow(
        model=model,
        waiting=count,
        running=running,
        oldest_s=87.5 if count else None,
        next_ends=_range(at + 12 * (count + 1)),
        reason=reason,
        paused=False,
        mb=mb,
        troubles=(),
    )


# ---------------------------------------------------------------- the last hours


def hours(span: HourSpan, at: float) -> HoursRecord:
    """Return a span with mornings, evenings, and an hour in which the bot did not run."""
    step_s, count = STEPS[span]
    ends = (at // step_s + 1) * step_s
    begins = ends - count * step_s
    chance = random.Random(span.value)  # the same image each time
    moments = [begins + step_s * place for place in range(count) if not 20 <= place < 26]
    models = [_model(name, moments, step_s, chance) for name in ("flux", "llama", "sdxl", "wan")]
    given = [PromiseStep(at=each, given=9, kept=9 - chance.randint(0, 2)) for each in moments]
    return HoursRecord(
        span=span,
        at=at,
        begins=begins,
        ends=ends,
        step_s=step_s,
        hosts=tuple(_host(name, span, moments, step_s, chance) for name in ("gpu-1", "gpu-2")),
        models=tuple(models),
        errors=(
            ErrorHours(cause="memory", model="wan", count=7, newest=812),
            ErrorHours(cause="away", model="flux", count=3),
            ErrorHours(cause="late", model="llama", count=1),
        ),
        promises=PromiseHours(
            given=sum(step.given for step in given),
            kept=sum(step.kept for step in given),
            steps=tuple(given),
        ),
    )


def _load(place: int, count: int) -> float:
    return 0.15 + 0.8 * math.sin(math.pi * place / count) ** 2


def _model(name: str, moments: Sequence[float], step_s: float, chance: random.Random) -> ModelHours:
    steps = tuple(
        _step(at, _load(place, len(moments)), step_s, chance) for place, at in enumerate(moments)
    )
    return ModelHours(
        name=name,
        done=sum(step.done for step in steps),
        failed=sum(step.failed for step in steps),
        cancelled=sum(step.cancelled for step in steps),
        wait_median_s=6.2,
        wait_p95_s=48.0,
        service_median_s=11.4,
        service_p95_s=14.0,
        service_s=sum(step.service_s for step in steps),
        loads=sum(step.loads for step in steps),
        failed_loads=sum(step.failed_loads for step in steps),
        evictions=sum(step.evictions for step in steps),
        steps=steps,
        given=21,
        kept=18,
    )


def _step(at: float, load: float, step_s: float, chance: random.Random) -> ModelStep:
    done = int(load * step_s / 12 * chance.uniform(0.5, 1.0))
    median = load * 30 * chance.uniform(0.5, 1.5)
    return ModelStep(
        at=at,
        done=done,
        failed=chance.random() < 0.08,
        cancelled=chance.random() < 0.12,
        wait_median_s=median if done else None,
        wait_p95_s=median * chance.uniform(1.5, 3.0) if done else None,
        service_s=done * 11.0,
        loads=chance.randint(0, 2),
        failed_loads=chance.random() < 0.04,
        evictions=chance.randint(0, 1),
    )


def _host(
    name: str, span: HourSpan, moments: Sequence[float], step_s: float, chance: random.Random
) -> HostHours:
    shares = []
    for place, at in enumerate(moments):
        run = _load(place, len(moments)) * chance.uniform(0.6, 1.0)
        down = 1.0 if name == "gpu-2" and 40 <= place < 44 else 0.0
        quiet = 1.0 if name == "gpu-1" and 50 <= place < 55 else 0.0
        shares.append(
            Shares(at=at, run=(1 - down - quiet) * run, load=(1 - down - quiet) * 0.05,
                   idle=(1 - down - quiet) * (0.95 - run), quiet=quiet,
                   yielding=0.0, paused=0.0, asleep=0.0, down=down)
        )  # fmt: skip
    return HostHours(
        name=name,
        segments=() if span is HourSpan.WEEK else tuple(_segments(shares, step_s, chance)),
        shares=tuple(shares),
        busy=sum(each.run for each in shares) / len(shares),
        recorded_s=len(shares) * step_s,
        loads=61,
        failed_loads=2 if name == "gpu-2" else 0,
        evictions=40,
        load_s=305.0,
    )


def _segments(shares: Sequence[Shares], step_s: float, chance: random.Random) -> list[Segment]:
    found = []
    for each in shares:
        model = chance.choice(("flux", "llama", "sdxl", "wan"))
        at = each.at
        for kind in ("quiet", "down", "load", "run", "idle"):
            ends = at + getattr(each, kind) * step_s
            if ends > at:
                models = (model,) if kind in {"run", "load"} else ()
                found.append(Segment(begins=at, ends=ends, kind=kind, models=models))
            at = ends
    return found


# ---------------------------------------------------------------- people


def crowd(at: float) -> PeopleRecord:
    """Return thirty people, one of them banned, one an admin, and what admins did."""
    usual = PersonLimits()
    people = [
        PersonUse(
            user=user,
            name=user,
            gpu_s=1900.0 * 0.82**place,
            jobs=60 // (place + 1),
            waiting=place % 3,
            running=place == 0,
            limits=usual,
            banned=False,
            banned_until=None,
            ban_reason=None,
            admin=False,
            bannable=True,
        )
        for place, user in enumerate(PEOPLE)
    ]
    people[1] = replace(
        people[1],
        name="Ada",
        limits=PersonLimits(lane="vip", per_hour=60, gpu_seconds_per_day=3600),
    )
    people[2] = replace(people[2], user="web:local", name="web:local", admin=True, bannable=False)
    people[4] = replace(
        people[4], banned=True, banned_until=at + 7200, ban_reason="floods the line"
    )
    acts = (
        Act(at=at - 60, actor="web:local", action="drain", subject="gpu-2"),
        Act(at=at - 400, actor="telegram:1", action="ban", subject=PEOPLE[4], detail="for 2 h"),
        Act(at=at - 3000, actor="web:local", action="preload", subject="flux", detail="gpu-1"),
    )
    return PeopleRecord(at=at, since=at - 30_000, people=tuple(people), more=0, acts=acts)
