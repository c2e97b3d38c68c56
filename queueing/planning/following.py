"""What follows on a server when the job that it runs has ended; pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from queueing.core.world import Start, Waiting, World
from queueing.planning import plan


def following(
    world: World, backends: Sequence[str], taken: Collection[int] = ()
) -> tuple[Start, ...]:
    """Return what starts on each of these servers when it has ended what it runs, in this order.

    As if nothing else happened until then: no promise, for the decision is made at that moment. Jobs
    that are `taken` follow elsewhere.
    """
    found: list[Start] = []
    if taken:
        world = _without(world, taken)
    for backend in backends:
        decision = plan(_when_free(world, backend))
        start = next((each for each in decision.starts if each.backend == backend), None)
        if start is not None:
            found.append(start)
            world = _without(world, {start.job.id})
    return tuple(found)


def _when_free(world: World, backend: str) -> World:
    """Return the world as it is when a server has ended all that it runs."""
    view = replace(world.backends[backend], busy=0, alone=False)
    copies = tuple(
        replace(copy, running=0, ends_at=()) if copy.backend == backend else copy
        for copy in world.copies
    )
    return replace(world, backends={**world.backends, backend: view}, copies=copies)


def _without(world: World, jobs: Collection[int]) -> World:
    """Return the world without some jobs that wait."""
    models = dict(world.models)
    for name, model in models.items():
        lines = (_shortened(line, jobs) for line in model.waiting)
        models[name] = replace(model, waiting=tuple(line for line in lines if line.count))
    return replace(world, models=models)


def _shortened(line: Waiting, jobs: Collection[int]) -> Waiting:
    heads = tuple(job for job in line.heads if job.id not in jobs)
    return replace(line, heads=heads, count=line.count - len(line.heads) + len(heads))
