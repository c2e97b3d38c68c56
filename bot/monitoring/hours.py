"""Builds the history of a span from buckets and segments. Pure functions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import TypeVar

from bot.monitoring.buckets import HOUR_S, MINUTE_S, SECONDS, BucketKey, HostBucket, ModelBucket
from bot.monitoring.records import (
    STEPS,
    ErrorHours,
    HostHours,
    HourSpan,
    HoursRecord,
    ModelHours,
    ModelStep,
    PromiseHours,
    PromiseStep,
    Segment,
    Shares,
)
from bot.monitoring.timeline import merged

Bucket = TypeVar("Bucket", ModelBucket, HostBucket)
_ByStep = Mapping[float, Bucket]
P95 = 0.95


def grain_of(span: HourSpan) -> int:
    """Return the length of the buckets that a span is built from."""
    return HOUR_S if span is HourSpan.WEEK else MINUTE_S


def bounds(span: HourSpan, now: float) -> tuple[float, float]:
    """Return a span's start, and the end of its last, unfinished step."""
    step_s, count = STEPS[span]
    ends = (floor(now / step_s) + 1) * step_s
    return ends - count * step_s, ends


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """The records of a span: buckets of models and hosts, and segments by host."""

    models: Sequence[tuple[BucketKey, ModelBucket]]
    hosts: Sequence[tuple[BucketKey, HostBucket]]
    segments: Mapping[str, Sequence[Segment]]


def hours_of(
    span: HourSpan, now: float, recorded: Recorded, configured: Sequence[str]
) -> HoursRecord:
    """Return the history of a span. `configured` hosts come first, in that order."""
    begins, ends = bounds(span, now)
    step_s, _ = STEPS[span]
    by_model = _stepped(recorded.models, begins, step_s)
    by_host = _stepped(recorded.hosts, begins, step_s)
    segments = recorded.segments
    names = dict.fromkeys([*configured, *sorted({*by_host, *segments})])
    made = [_model(name, steps) for name, steps in by_model.items()]
    return HoursRecord(
        span=span,
        at=now,
        begins=begins,
        ends=ends,
        step_s=step_s,
        hosts=tuple(
            _host(name, by_host.get(name, {}), _shown(span, segments.get(name, ()), begins), step_s)
            for name in names
        ),
        models=tuple(sorted(made, key=lambda each: (-each.service_s, each.name))),
        errors=_errors(by_model),
        promises=_promises(by_model.values()),
    )


def _stepped(
    buckets: Iterable[tuple[BucketKey, Bucket]], begins: float, step_s: float
) -> Mapping[str, dict[float, Bucket]]:
    """Return the sums of the buckets by name and step."""
    found: defaultdict[str, dict[float, Bucket]] = defaultdict(dict)
    for (at, name), bucket in buckets:
        step = begins + floor((at - begins) / step_s) * step_s
        steps = found[name]
        steps[step] = steps[step].plus(bucket) if step in steps else bucket
    return found


def _shown(span: HourSpan, segments: Sequence[Segment], begins: float) -> tuple[Segment, ...]:
    if span is HourSpan.WEEK:
        return ()
    cut = [
        replace(each, begins=max(begins, each.begins)) for each in segments if each.ends > begins
    ]
    return merged(cut, MINUTE_S) if span is HourSpan.DAY else tuple(cut)


def _host(
    name: str, steps: _ByStep[HostBucket], segments: tuple[Segment, ...], step_s: float
) -> HostHours:
    total = HostBucket()
    for bucket in steps.values():
        total = total.plus(bucket)
    recorded_s = sum(getattr(total, name) for name in SECONDS.values())
    return HostHours(
        name=name,
        segments=segments,
        shares=tuple(_shares(at, steps[at], step_s) for at in sorted(steps)),
        busy=total.run_s / recorded_s if recorded_s else 0.0,
        recorded_s=recorded_s,
        loads=total.loads,
        failed_loads=total.failed_loads,
        evictions=total.evictions,
        load_s=total.load_s,
    )


def _shares(at: float, bucket: HostBucket, step_s: float) -> Shares:
    shares = {kind: getattr(bucket, name) / step_s for kind, name in SECONDS.items()}
    return Shares(at=at, **shares)


def _model(name: str, steps: _ByStep[ModelBucket]) -> ModelHours:
    total = _sum(steps)
    return ModelHours(
        name=name,
        done=total.done,
        failed=total.failed,
        cancelled=total.cancelled,
        wait_median_s=total.waits.quantile(0.5),
        wait_p95_s=total.waits.quantile(P95),
        service_median_s=total.services.quantile(0.5),
        service_p95_s=total.services.quantile(P95),
        service_s=total.service_s,
        loads=total.loads,
        failed_loads=total.failed_loads,
        evictions=total.evictions,
        steps=tuple(_step(at, steps[at]) for at in sorted(steps)),
        given=total.given,
        kept=total.kept,
    )


def _step(at: float, bucket: ModelBucket) -> ModelStep:
    return ModelStep(
        at=at,
        done=bucket.done,
        failed=bucket.failed,
        cancelled=bucket.cancelled,
        wait_median_s=bucket.waits.quantile(0.5),
        wait_p95_s=bucket.waits.quantile(P95),
        service_s=bucket.service_s,
        loads=bucket.loads,
        failed_loads=bucket.failed_loads,
        evictions=bucket.evictions,
    )


def _sum(steps: _ByStep[ModelBucket]) -> ModelBucket:
    total = ModelBucket()
    for bucket in steps.values():
        total = total.plus(bucket)
    return total


def _errors(by_model: Mapping[str, _ByStep[ModelBucket]]) -> tuple[ErrorHours, ...]:
    found = [
        ErrorHours(cause=cause, model=model, count=count, newest=errors.newest.get(cause))
        for model, steps in by_model.items()
        for errors in (_sum(steps).errors,)
        for cause, count in errors.by_name.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.count, each.cause, each.model)))


def _promises(by_model: Iterable[_ByStep[ModelBucket]]) -> PromiseHours:
    given: defaultdict[float, int] = defaultdict(int)
    kept: defaultdict[float, int] = defaultdict(int)
    for steps in by_model:
        for at, bucket in steps.items():
            given[at] += bucket.given
            kept[at] += bucket.kept
    return PromiseHours(
        given=sum(given.values()),
        kept=sum(kept.values()),
        steps=tuple(
            PromiseStep(at=at, given=given[at], kept=kept[at]) for at in sorted(given) if given[at]
        ),
    )
