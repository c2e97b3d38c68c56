"""How far off a model's turn may be by those yet to come to the models that are served before; pure."""

from math import hypot, inf

from queueing.core.world import World
from queueing.planning.lying_on import backends_on, lies_on
from queueing.planning.overtaking import spread
from queueing.planning.simulated_fleet import typical_s
from queueing.planning.simulated_queue import Started
from queueing.planning.simulation import Simulation


def delay_s(simulation: Simulation, world: World, model: str, started: Started) -> float:
    """Return by how much one that goes first delays a start of a model."""
    usual_s = typical_s(world.models[model], started.backend)
    return usual_s / max(1, simulation.slots(model))


def turn_spread_s(simulation: Simulation, world: World, model: str, backend: str) -> float:
    """Return how far off a model's first start on a backend may be; 0 where it has a copy."""
    if any((copy.model, copy.backend) == (model, backend) for copy in world.copies):
        return 0.0
    own = simulation.of_model(model)
    at = [start.at for line in own for start in line.starts if start.backend == backend]
    hosts = lies_on(world, model, backend)
    first_at, found_s = min(at, default=inf), 0.0
    for line in simulation.lines.values():
        before = line.starts[: line.begun(first_at)] if line.model != model else []
        near = backends_on(world, line.model, hosts) if before else ()
        there = [start for start in before if start.backend in near]
        if there:
            number = spread(line.expected(there[-1].at))
            found_s = hypot(found_s, number * delay_s(simulation, world, line.model, there[-1]))
    return found_s
