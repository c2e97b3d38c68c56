"""What an admin has stopped: a plain value that the store keeps and the planner's views read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Everything, or these models and hosts by name.

    Nothing that is paused starts a job or loads a model; running work ends normally. `awake` are the
    hosts an admin has put to work although they would rest, each with the moment until which.
    """

    everything: bool = False
    models: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    awake: Mapping[str, float] = field(default_factory=dict)

    def stops_model(self, model: str) -> bool:
        """Return whether no job of a model may start anywhere."""
        return self.everything or model in self.models

    def stops_host(self, host: str) -> bool:
        """Return whether nothing may start or load on a host."""
        return self.everything or host in self.hosts

    def adding(self, *, model: str | None, host: str | None) -> "Paused":
        """Return this with a model, a host or both paused as well; with neither, everything."""
        return replace(
            self,
            everything=self.everything or (model is None and host is None),
            models=self.models | _one(model),
            hosts=self.hosts | _one(host),
            awake=self._awake_but(host),
        )

    def without(self, *, model: str | None, host: str | None) -> "Paused":
        """Return this without a model, a host or both; with neither, nothing stays paused."""
        if model is None and host is None:
            return Paused(awake=self.awake)
        return replace(self, models=self.models - _one(model), hosts=self.hosts - _one(host))

    def is_awake(self, host: str, now: float) -> bool:
        """Return whether a host works because an admin wants it to."""
        return now < self.awake.get(host, 0.0)

    def waking(self, host: str, until: float) -> "Paused":
        """Return this with a host that works until then, whatever speaks for a rest."""
        return replace(self, awake={**self.awake, host: until})

    def asleep(self, host: str) -> "Paused":
        """Return this with a host that rests when there is reason to."""
        return replace(self, awake=self._awake_but(host))

    def _awake_but(self, host: str | None) -> Mapping[str, float]:
        return {name: until for name, until in self.awake.items() if name != host}


def _one(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset({name})
