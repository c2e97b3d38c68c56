"""Compares a replay of a trace with what the trace allows."""

from collections import Counter, defaultdict

from benchmarks.schedule.trace import Outcome, Trace


def check(given: Trace, outcome: Outcome, *, by_arrival: bool = True) -> None:
    """Raise `AssertionError` if a load, a job, a queue's order, a slot or a budget is wrong."""
    load_s = {model.name: model.load_s for model in given.models}
    for load in outcome.loads:
        assert load.finished_s == load.started_s + load_s[load.model]
    for job, asked in zip(outcome.jobs, given.jobs, strict=True):
        if job.started_s is None or job.ready_s is None:
            assert job.state == "cancelled"
            assert asked.cancel_at is not None
        else:
            assert asked.at <= job.ready_s <= job.started_s
            if job.state == "cancelled":
                assert job.finished_s == asked.cancel_at
            else:
                assert job.state == "completed"
                assert job.finished_s == job.started_s + asked.service_s
                assert asked.cancel_at is None or asked.cancel_at >= job.finished_s
    for indexes in _queues(given).values() if by_arrival else ():
        starts = [s for i in indexes if (s := outcome.jobs[i].started_s) is not None]
        assert starts == sorted(starts)
    for host in given.hosts:
        assert outcome.peak_vram_mb[host.name] <= host.spec().usable_mb
    _check_slots(given, outcome)


def _queues(given: Trace) -> dict[tuple[str, str], list[int]]:
    """Return the jobs of each model and lane in the order they were accepted."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, job in sorted(enumerate(given.jobs), key=lambda item: (item[1].at, item[0])):
        found[job.model, job.lane].append(index)
    return found


def _check_slots(given: Trace, outcome: Outcome) -> None:
    serial = {b.name for host in given.hosts for b in host.backends if b.serial}
    parallel = {model.name: model.parallel for model in given.models}
    events: list[tuple[float, int, str, str]] = []
    for job in outcome.jobs:
        if job.started_s is None or job.finished_s is None or job.backend is None:
            continue
        if job.finished_s > job.started_s:  # one that takes no time takes no slot
            events += [(job.started_s, 1, job.backend, job.model)]
            events += [(job.finished_s, -1, job.backend, job.model)]
    for load in outcome.loads:
        if load.backend in serial:
            events += [
                (load.started_s, 1, load.backend, ""),
                (load.finished_s, -1, load.backend, ""),
            ]
    running: Counter[tuple[str, str]] = Counter()
    for _, change, backend, model in sorted(events):
        running[backend, model] += change
        assert running[backend, model] <= parallel.get(model, 1)
        if backend in serial:
            assert sum(count for (name, _), count in running.items() if name == backend) <= 1
