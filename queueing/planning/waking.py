"""Which sleeping machines are woken, and which are busy and so stay awake. Pure."""

from queueing.core.snapshot import ModelView, Residency, World
from queueing.planning.hosts import rests
from queueing.planning.lying_on import hosts_of
from queueing.planning.sites import fitting


def to_wake(world: World) -> tuple[str, ...]:
    """Return the hosts to wake: one for each model that waits and has none that is or will be open.

    A machine that did not wake the last time is the last choice.
    """
    chosen = {
        host: None
        for model in world.models.values()
        if any(line.count for line in model.waiting) and not model.paused
        if (host := _for(world, model)) is not None
    }
    return tuple(chosen)


def is_busy(world: World, host: str) -> bool:
    """Return whether a host works, is kept ready by an admin, or is waited for."""
    servers = {name for name, backend in world.backends.items() if host in hosts_of(backend)}
    for copy in world.copies:
        if copy.backend in servers and (
            copy.running or copy.pinned or copy.residency is not Residency.READY
        ):
            return True
    return any(
        not servers.isdisjoint(model.backends)
        and (model.wanted_by_admin or any(line.count for line in model.waiting))
        for model in world.models.values()
    )


def _for(world: World, model: ModelView) -> str | None:
    asleep: list[tuple[bool, str]] = []
    for name, cards in fitting(world, model):
        backend = world.backends[name]
        host = world.hosts[backend.host]
        if backend.paused or any(card.paused for card in cards):
            continue
        resting = any(rests(card, world.now) for card in cards)
        if host.waking_until is not None or (backend.up and not resting):
            return None
        if host.asleep and not resting:
            asleep.append((host.overslept, host.name))
    return min(asleep, key=lambda each: each[0])[1] if asleep else None
