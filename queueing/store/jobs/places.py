"""Turns: where jobs stand among those that could start, from the places and the lines last read."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from queueing.core.jobs import StartOrder
from queueing.store.jobs.positions import LineKey, PositionIndex
from queueing.store.jobs.queue_heads import HeadCache


def turns(
    places: PositionIndex, heads: HeadCache, job_ids: Sequence[int], begun: Collection[int]
) -> Mapping[int, StartOrder]:
    """Return where each of the jobs with a place stands."""
    models: dict[str, tuple[Mapping[str, int], Mapping[LineKey, list[int]]]] = {}
    found = {}
    for job_id in job_ids:
        stands = places.find(job_id)
        if stands is None:
            continue
        key, position = stands
        if key[0] not in models:
            models[key[0]] = _lanes(places, heads, key[0], begun)
        lanes, absent = models[key[0]]
        gone = absent[key]
        before = bisect_left(gone, position)
        counts = before == len(gone) or gone[before] != position
        found[job_id] = StartOrder(number=position - before if counts else None, lanes=lanes)
    return found


def _lanes(
    places: PositionIndex, heads: HeadCache, model: str, begun: Collection[int]
) -> tuple[Mapping[str, int], Mapping[LineKey, list[int]]]:
    """Return how many of each lane could start, and the positions of those that could not."""
    absent: dict[LineKey, list[int]] = {line.key: [] for line in places.lines_of(model)}
    away = {job_id for key in absent for job_id in heads.passed(key)}
    for job_id in away.union(begun):
        stands = places.find(job_id)
        if stands is not None and stands[0] in absent:
            absent[stands[0]].append(stands[1])
    for positions in absent.values():
        positions.sort()
    waiting = {line.key: line.waiting for line in places.lines_of(model)}
    return {key[1]: waiting[key] - len(absent[key]) for key in absent}, absent
