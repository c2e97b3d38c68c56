"""What bots of this kind usually do, for comparison: one queue, one thing at a time."""

from queueing.core.jobs import Job
from queueing.core.world import Plan, Residency, Start, World
from queueing.planning.board import Board
from queueing.planning.space import candidates, is_idle, make_room


def serial_plan(world: World) -> Plan:
    """Serve the oldest job of all; load its model first, evicting whatever is in the way.

    Nothing else runs or loads meanwhile, on any host. A drop-in for `queueing.planning.plan`.
    """
    if any(copy.running or copy.residency is not Residency.READY for copy in world.copies):
        return Plan()
    heads = [
        waiting.heads[0]
        for model in world.models.values()
        for waiting in model.waiting
        if waiting.heads
    ]
    if not heads:
        return Plan()
    return _serve(Board(world), min(heads, key=lambda job: (job.queued_at, job.id)))


def _serve(board: Board, job: Job) -> Plan:
    model = board.models[job.model]
    for copy in model.copies:
        return Plan(starts=(Start(job=job, backend=copy.view.backend),))
    for backend in candidates(board, model):
        room = make_room(model, backend, is_idle)
        if room is not None:
            board.load(model, backend, room.victims)
            return Plan(loads=tuple(board.loads))
    return Plan()
