"""The servers of a forecast: the board of one decision, on which time passes until the next one.

Bookkeeping of copies, slots and loads; decides nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from queueing.core.world import Load, ModelView, Reservation, Residency, World
from queueing.planning.board import Board
from queueing.planning.board_states import (
    DEFAULT_LOAD_S,
    DEFAULT_SERVICE_S,
    BackendState,
    CopyState,
)

Spent = Mapping[tuple[str, str], int]


def began(copy: CopyState) -> None:
    """Note that a copy has begun a job."""
    backend = copy.backend
    copy.running += 1
    copy.idle_at = inf
    backend.busy += 1
    for host in copy.hosts:
        host.running += 1
    backend.alone = False


def ended(copy: CopyState) -> None:
    """Note that a copy has ended a job."""
    backend = copy.backend
    copy.running -= 1
    backend.busy = max(0, backend.busy - 1)
    for host in copy.hosts:
        host.running -= 1
    backend.alone = False


def loading(board: Board, load: Load) -> CopyState:
    """Note that a load has begun; return its copy."""
    copy = board.copies[load.model, load.backend]
    copy.backend.busy += copy.backend.view.serial
    copy.backend.alone = False
    return copy


def loaded(copy: CopyState) -> None:
    """Note that a copy's load has ended."""
    copy.residency = Residency.READY
    for host in copy.hosts:
        rest = [other for other in host.copies if other.residency is Residency.LOADING]
        host.loading = rest[-1] if rest else None
    _note_rest(copy.backend)


def left(board: Board, copy: CopyState) -> None:
    """Note that a copy being unloaded has left."""
    copy.backend.busy = max(0, copy.backend.busy - copy.running)  # it was to leave once they end
    board.forget(copy)
    _note_rest(copy.backend)


def _note_rest(backend: BackendState) -> None:
    """Note that a serial backend is free again once the last of its copies has come or gone."""
    backend.alone = False
    if backend.view.serial and all(copy.residency is Residency.READY for copy in backend.copies):
        backend.busy = max(0, backend.busy - 1)


def evicted(board: Board, model: str) -> None:
    """Note that a copy of a model has been evicted at this moment."""
    board.models[model].left_at = board.now


def typical_s(model: ModelView | None, backend: str) -> float:
    """Return how long a job of a model takes there, whatever its size."""
    times: Mapping[str, float] = {} if model is None else model.service_s
    return times.get(backend, times.get("", DEFAULT_SERVICE_S))


def usual_load_s(model: ModelView | None, backend: str) -> float:
    """Return how long a load of a model takes there."""
    times: Mapping[str, float] = {} if model is None else model.load_s
    return times.get(backend, times.get("", DEFAULT_LOAD_S))


def world_of(
    board: Board, origin: World, reservations: tuple[Reservation, ...], spent: Spent
) -> World:
    """Return the world as the board shows it before its next decision."""
    models = {name: board.models[name] for name in origin.models}
    return replace(
        origin,
        now=board.now,
        models={
            name: replace(
                model.view, left_at=model.left_at, waiting=tuple(lane.view for lane in model.lanes)
            )
            for name, model in models.items()
        },
        backends={
            name: replace(backend.view, busy=backend.busy, alone=backend.alone)
            for name, backend in board.backends.items()
        },
        copies=tuple(
            replace(
                copy.view,
                residency=copy.residency,
                running=copy.running,
                idle_unload_s=inf if copy.idle_at == inf else copy.view.idle_unload_s,
            )
            for copy in board.copies.values()
        ),
        reservations=reservations,
        lane_spent=spent,
    )
