"""Yielding: when a host leaves its card to another program, and when it takes it back. Pure.

A game is seen by its memory, in processes that belong to no server of the host. Where those cannot be
told from servers, it is seen by the card's memory and by its work while no server has any.
"""

from dataclasses import dataclass, replace
from math import inf

from queueing.core.ports import CardLook

SURE = 2  # looks in a row: a program that checks for a card and ends is no game
GONE_S = 120.0  # between two levels a game may free its memory
BUSY = (
    0.1  # of the card's time, where processes cannot be looked at: a forgotten program does nothing
)


@dataclass(frozen=True, slots=True)
class Yielding:
    """What is known of other programs on a card; `since` when its host yields, None if it does not."""

    since: float | None = None
    seen_at: float = -inf
    looks: int = 0


def is_used(use: CardLook | None, *, foreign_mb: int, least_mb: int, still: bool) -> bool | None:
    """Return whether another program uses a card; None if this look cannot tell.

    `foreign_mb` is what the card holds beside the models that are known there, and `still` is whether
    no model runs or moves there: only then is the card's work not that of its servers.
    """
    if use is None:
        return None
    if use.others_mb is not None:
        return use.others_mb >= least_mb
    if foreign_mb < least_mb:
        return False
    if use.busy is None or not still:
        return None
    return use.busy >= BUSY


def after(state: Yielding, now: float, *, used: bool | None, at_once: bool = False) -> Yielding:
    """Return what is known after a look; `at_once` believes a single one, as at the start."""
    if used is None:
        return state if state.since is None else replace(state, seen_at=now)
    if used:
        looks = state.looks + 1
        begins = state.since is None and (at_once or looks >= SURE)
        return Yielding(now if begins else state.since, now, looks)
    if state.since is not None and now - state.seen_at < GONE_S:
        return replace(state, looks=0)
    return Yielding()
