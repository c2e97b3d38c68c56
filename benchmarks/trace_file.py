"""Reads a trace from its file and tells a mistake in it as one sentence, before anything is replayed."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from benchmarks.trace import Trace

WRONG = 2  # the exit status: 1 means that a promise was broken


class BadTrace(Exception):
    """A trace that cannot be replayed; the text is a sentence for the person who wrote it."""


def read(path: Path) -> Trace:
    """Return the trace of a file. Raises `BadTrace`."""
    try:
        trace = Trace.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadTrace(f"{path}: it cannot be read: {error.strerror or error}.") from error
    except ValidationError as error:
        raise BadTrace(f"{path}: {_first(error)}.") from error
    mistake = next(_mistakes(trace), None)
    if mistake is not None:
        raise BadTrace(f"{path}: {mistake}.")
    return trace


def told(main: Callable[[], int | None]) -> int:
    """Run a command; a trace that cannot be replayed is reported in one line, without a traceback."""
    try:
        return main() or 0
    except BadTrace as error:
        print(error, file=sys.stderr)
        return WRONG


def _first(error: ValidationError) -> str:
    problem, *others = error.errors(include_url=False, include_context=False, include_input=False)
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])
    more = f", and {len(others)} more such" if others else ""
    return f"{where.removeprefix('.')}: {problem['msg']}{more}".removeprefix(": ")


def _mistakes(trace: Trace) -> Iterator[str]:
    """Yield what cannot be meant, although every value by itself could be."""
    yield from _twice("host", (host.name for host in trace.hosts))
    machines = ({(b.name, h.machine or h.name) for b in h.backends} for h in trace.hosts)
    places = dict.fromkeys(place for machine in machines for place in machine)
    yield from _twice("backend", (name for name, _ in places))
    for host in trace.hosts:
        yield from _twice(f"backend on {host.name}", (b.name for b in host.backends))
    yield from _twice("model", (model.name for model in trace.models))
    backends = {backend.name for host in trace.hosts for backend in host.backends}
    for model in trace.models:
        for name in model.backends:
            if name not in backends:
                yield f"the model {model.name} names the backend {name}, which no host has"
            elif model.split and 1 < (cards := len(trace.hosts_of()[name])) != len(model.split):
                yield f"the split of {model.name} has {len(model.split)} parts for {cards} cards"
    yield from _wrong_residents(trace)
    yield from _wrong_jobs(trace)


def _twice(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"there are {times} {kind}s of the name {name}"


def _wrong_residents(trace: Trace) -> Iterator[str]:
    models = {model.name: model for model in trace.models}
    held: Counter[str] = Counter()
    for resident in trace.resident:
        if resident.model not in models:
            yield f"the model {resident.model} is resident, but no such model is described"
        elif resident.backend not in models[resident.model].backends:
            yield f"{resident.model} is resident on {resident.backend}, which it cannot run on"
        else:
            held.update(trace.shares(models[resident.model], resident.backend))
    yield from _twice("resident", (f"{r.model} on {r.backend}" for r in trace.resident))
    for host in trace.hosts:
        if held[host.name] > host.usable_mb:
            yield (
                f"the residents of {host.name} take {held[host.name]} MB,"
                f" more than the {host.usable_mb} MB of its budget"
            )


def _wrong_jobs(trace: Trace) -> Iterator[str]:
    hosts, known = {host.name: host for host in trace.hosts}, trace.hosts_of()
    models = {model.name: model for model in trace.models}
    for index, job in enumerate(trace.jobs):
        model = models.get(job.model)
        if model is None:
            yield f"jobs[{index}] asks for {job.model}, and no such model is described"
        elif not any(
            all(mb <= hosts[host].usable_mb for host, mb in trace.shares(model, name).items())
            for name in model.backends
            if name in known
        ):
            yield f"jobs[{index}] asks for {job.model}, which fits on none of its hosts"
